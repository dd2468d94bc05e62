"""Rules of parts of texts and bytes: substrings, ends cut off or filled up, pieces between delimiters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import per_row, refuse, with_arrays
from headgate.relational.resolved import Values
from headgate.relational.rules import (
    Judge,
    RowsFailed,
    Rule,
    Signature,
    Types,
    add,
    converts_by_itself,
    either,
    exactly,
)

FAMILY: Final = "strings"
_TEXT: Final = pa.string()
_INT: Final = pa.int32()
_LAST: Final = 2**31 - 1
Piece = TypeVar("Piece", str, bytes)


def text_or_bytes(*others: pa.DataType, result: pa.DataType | None = None) -> Judge:
    """Return a judge for functions of bytes or text, then `others`; `result` None: as the first argument."""
    text = exactly((_TEXT, *others), result or _TEXT)
    raw = exactly((pa.binary(), *others), result or pa.binary())
    return lambda given: (raw if given and pa.types.is_binary(given[0]) else text)(given)


# -- substrings


def substring_of(text: Piece, place: int, length: int = _LAST) -> Piece:
    """Return a part of a text or of bytes, as SQL counts: from 1, or from the end below 0; 0 counts as 1.

    Example:
        >>> substring_of("headgate", 5), substring_of("headgate", -4, 2), substring_of("abc", -5, 3)
        ('gate', 'ga', 'a')
    """
    start = place - 1 if place > 0 else len(text) + place if place < 0 else 0
    stop = min(start + length, _LAST)
    return text[max(start, 0) : max(stop, 0)] if stop > start else text[:0]


def _substring(result: pa.DataType, text: Values, place: Values, length: Values | None = None) -> Values:
    constant = isinstance(place, pa.Scalar) and (length is None or isinstance(length, pa.Scalar))
    if not constant or pa.types.is_binary(result):
        return per_row(substring_of)(result, text, place, *(() if length is None else (length,)))
    start, size = place.as_py(), _LAST if length is None else length.as_py()
    if start is None or size is None:
        return pa.scalar(None, result)
    begin = start - 1 if start > 0 else start
    stop: int | None = begin + size
    if begin < 0 and begin + size >= 0:
        stop = None
    if size <= 0:
        begin = stop = 0
    return pc.utf8_slice_codeunits(text, begin, stop)


def _left(result: pa.DataType, text: Values, length: Values) -> Values:
    return _substring(result, text, pa.scalar(1, _INT), length)


def _right_of(text: str, length: int) -> str:
    return text[-length:] if length > 0 else ""


def _overlay(text: Piece, replacement: Piece, place: int, length: int = -1) -> Piece:
    size = len(replacement) if length < 0 else length
    return substring_of(text, 1, place - 1) + replacement + substring_of(text, place + size)


def _overlaid(given: Types) -> Signature | None:
    kind = pa.binary() if all(pa.types.is_binary(each) for each in given[:2]) else _TEXT
    three = exactly((kind, kind, _INT), kind)
    return three(given) or exactly((kind, kind, _INT, _INT), kind)(given)


# -- pieces between delimiters


def _substring_index(text: str, delimiter: str, count: int) -> str:
    if not delimiter or count == 0:
        return ""
    # Spark looks for the delimiter again one place after its last find, so finds may overlap.
    place = -1 if count > 0 else len(text) - len(delimiter) + 1
    for _ in range(abs(count)):
        if count > 0:
            place = text.find(delimiter, place + 1)
        else:
            place = text.rfind(delimiter, 0, max(place - 1 + len(delimiter), 0))
        if place < 0:
            return text
    return text[:place] if count > 0 else text[place + len(delimiter) :]


def _split_part(text: str, delimiter: str, number: int) -> str:
    if number == 0:
        raise RowsFailed("INVALID_INDEX_OF_ZERO", "split_part() counts parts from 1, or from the end from -1")
    pieces = text.split(delimiter) if delimiter else [text]
    place = number - 1 if number > 0 else len(pieces) + number
    return pieces[place] if 0 <= place < len(pieces) else ""


def _find_in_set(text: str, texts: str) -> int:
    pieces = texts.split(",")
    return pieces.index(text) + 1 if "," not in text and text in pieces else 0


def _elt_judge(given: Types) -> Signature | None:
    if len(given) < 2 or not converts_by_itself(given[0], _INT):
        return None
    kind = pa.binary() if all(pa.types.is_binary(each) for each in given[1:]) else _TEXT
    fits = all(converts_by_itself(each, kind) for each in given[1:])
    return Signature((_INT, *(kind for _ in given[1:])), kind, nullable=True) if fits else None


def _elt(_result: pa.DataType, place: pa.Array, *texts: pa.Array) -> pa.Array:
    bad = pc.or_(pc.less(place, 1), pc.greater(place, len(texts)))
    refuse(bad, "INVALID_ARRAY_INDEX", f"elt() has {len(texts)} texts, and a place is not among them")
    return pc.choose(pc.subtract(place, pa.scalar(1, _INT)), *texts)


# -- ends


def _trimmed(which: str, _result: pa.DataType, text: Values, letters: Values | None = None) -> Values:
    if letters is None or isinstance(letters, pa.Scalar):
        chosen = " " if letters is None else letters.as_py()
        if chosen is None:
            return pa.scalar(None, _TEXT)
        arrow = {"": pc.utf8_trim, "l": pc.utf8_ltrim, "r": pc.utf8_rtrim}[which]
        return arrow(text, characters=chosen) if chosen else text
    function: Callable[[str, str], str] = {"": str.strip, "l": str.lstrip, "r": str.rstrip}[which]
    return per_row(function)(_TEXT, text, letters)


def _padded(left: bool, text: Piece, length: int, filling: Piece) -> Piece:
    missing = length - len(text)
    if missing <= 0 or not filling:
        return text[: max(length, 0)]
    more = (filling * (missing // len(filling) + 1))[:missing]
    return more + text if left else text + more


def _pad(
    left: bool, result: pa.DataType, text: Values, length: Values, filling: Values | None = None
) -> Values:
    letters: Values = pa.scalar(" ", _TEXT) if filling is None else filling
    constant = isinstance(length, pa.Scalar) and isinstance(letters, pa.Scalar)
    if constant and length.is_valid and length.as_py() >= 0 and len(letters.as_py() or "") == 1:
        arrow = pc.utf8_lpad if left else pc.utf8_rpad
        width = length.as_py()
        return arrow(pc.utf8_slice_codeunits(text, 0, width), width=width, padding=letters.as_py())
    return per_row(partial(_padded, left))(result, text, length, letters)


def _repeat(_result: pa.DataType, text: Values, times: Values) -> Values:
    return pc.binary_repeat(text, pc.if_else(pc.less(times, 0), pa.scalar(0, _INT), times))


def _space(_result: pa.DataType, times: Values) -> Values:
    return _repeat(_result, pa.scalar(" "), times)


def _register() -> None:
    some = "a text or bytes"
    part = either(text_or_bytes(_INT), text_or_bytes(_INT, _INT))
    add(Rule("substring", FAMILY, part, _substring, f"{some}, a place, and a length or nothing"))
    add(Rule("left", FAMILY, text_or_bytes(_INT), _left, f"{some} and a length"))
    add(Rule("right", FAMILY, exactly((_TEXT, _INT), _TEXT), per_row(_right_of), "a text and a length"))
    takes = f"{some}, what replaces a part, its place, and its length or nothing"
    add(Rule("overlay", FAMILY, _overlaid, per_row(_overlay), takes))
    number = exactly((_TEXT, _TEXT, _INT), _TEXT)
    add(Rule("substring_index", FAMILY, number, per_row(_substring_index), "a text, a delimiter and a count"))
    takes = "a text, a delimiter and the number of a part"
    add(Rule("split_part", FAMILY, number, per_row(_split_part), takes, fails=True))
    in_set = exactly((_TEXT, _TEXT), _INT)
    add(Rule("find_in_set", FAMILY, in_set, per_row(_find_in_set), "a text, and texts joined by commas"))
    add(Rule("elt", FAMILY, _elt_judge, with_arrays(_elt), "a place and texts", fails=True))
    trimmed = either(exactly((_TEXT,), _TEXT), exactly((_TEXT, _TEXT), _TEXT))
    for name, which in (("trim", ""), ("btrim", ""), ("ltrim", "l"), ("rtrim", "r")):
        add(
            Rule(
                name,
                FAMILY,
                trimmed,
                partial(_trimmed, which),
                "a text, and the letters to cut off or nothing",
            )
        )
    padded = either(exactly((_TEXT, _INT), _TEXT), exactly((_TEXT, _INT, _TEXT), _TEXT))
    for name in ("lpad", "rpad"):
        add(Rule(name, FAMILY, padded, partial(_pad, name == "lpad"), "a text, a length, and what fills it"))
    add(Rule("repeat", FAMILY, exactly((_TEXT, _INT), _TEXT), _repeat, "a text, and how often it comes"))
    add(Rule("space", FAMILY, exactly((_INT,), _TEXT), _space, "a number of blanks"))


_register()
