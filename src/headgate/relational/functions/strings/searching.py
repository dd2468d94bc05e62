"""Rules of what texts contain: places and tests of parts, SQL's `like`, replaced parts, distances."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import PlanError
from headgate.relational.functions.kernels import first_rows, per_row
from headgate.relational.functions.strings.letters import upper_or_lower, with_polars
from headgate.relational.resolved import Typed, Values
from headgate.relational.rules import (
    Judge,
    RowsFailed,
    Rule,
    Signature,
    Types,
    add,
    constant_of,
    either,
    exactly,
)

FAMILY: Final = "strings"
_TEXT: Final = pa.string()
_BOOL: Final = pa.bool_()
_INT: Final = pa.int32()
_TWO_TEXTS: Final = "two texts"


# -- tests


def _tests(result: pa.DataType) -> Judge:
    text, raw = exactly((_TEXT, _TEXT), result), exactly((pa.binary(), pa.binary()), result)
    return lambda given: (raw if given and all(map(pa.types.is_binary, given)) else text)(given)


def _test(
    arrow: Callable[..., Values], function: Callable[..., bool], result: pa.DataType, *values: Values
) -> Values:
    if isinstance(values[1], pa.Scalar) and values[1].is_valid:
        return arrow(values[0], pattern=values[1].as_py())
    return per_row(function)(result, *values)


def _contains(text: str, part: str) -> bool:
    return part in text


# -- places


def _find(part: str, text: str, start: int = 1) -> int:
    # An empty part is found at the beginning, wherever one begins to look.
    return text.find(part, start - 1 if part else 0) + 1 if start >= 1 else 0


def _instr(result: pa.DataType, text: Values, part: Values) -> Values:
    if isinstance(part, pa.Scalar) and part.is_valid and isinstance(text, pa.Array) and _is_ascii(text):
        # Arrow gives places as bytes.
        return pc.add(pc.find_substring(text, pattern=part.as_py()), pa.scalar(1, _INT))
    return per_row(lambda whole, piece: _find(piece, whole))(result, text, part)


def _is_ascii(text: Values) -> bool:
    return bool(pc.all(pc.string_is_ascii(first_rows(text))).as_py() is not False)


def _located(given: Types) -> Signature | None:
    return either(exactly((_TEXT, _TEXT), _INT), exactly((_TEXT, _TEXT, _INT), _INT))(given)


def _locate(result: pa.DataType, part: Values, text: Values, start: Values | None = None) -> Values:
    if start is None:
        return _instr(result, text, part)
    # A start that is null finds nothing, which is 0, even beside a text that is null.
    found = per_row(_find)(result, part, text, pc.fill_null(start, 0))
    return pc.if_else(pc.is_null(start), pa.scalar(0, _INT), found)


def _replace(result: pa.DataType, text: Values, part: Values, other: Values | None = None) -> Values:
    new: Values = pa.scalar("", _TEXT) if other is None else other
    if isinstance(part, pa.Scalar) and isinstance(new, pa.Scalar) and part.is_valid and new.is_valid:
        if not part.as_py():
            return text
        return pc.replace_substring(text, pattern=part.as_py(), replacement=new.as_py())
    return per_row(_replaced)(result, text, part, new)


def _replaced(text: str, part: str, other: str) -> str:
    return text.replace(part, other) if part else text


# -- like


@lru_cache(1024)
def like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern of SQL's `like`; `escape` makes %, _ and itself plain.

    Raises:
        RowsFailed: the letter stands before another one than %, _ or itself, or at the end.
    """
    parts, letters = [], iter(pattern)
    for letter in letters:
        if letter != escape:
            parts.append({"_": ".", "%": ".*"}.get(letter) or re.escape(letter))
            continue
        following = next(letters, None)
        if following is None:
            raise RowsFailed("INVALID_FORMAT.ESC_AT_THE_END", f"the pattern {pattern!r} ends with {escape!r}")
        if following not in ("_", "%", escape):
            why = f"{escape!r} stands before {following!r} in the pattern {pattern!r}"
            raise RowsFailed("INVALID_FORMAT.ESC_IN_THE_MIDDLE", why)
        parts.append(re.escape(following))
    return re.compile("".join(parts), re.DOTALL)


def _with_escape(found: Signature, arguments: Sequence[Typed]) -> Signature:
    if len(arguments) == 3:
        letter = constant_of(arguments, 2, "the letter to escape").as_py()
        if not isinstance(letter, str) or len(letter) != 1:
            raise PlanError(f"the letter to escape must be one letter; got {letter!r}")
    return found


def _with_escape_and_polars(found: Signature, arguments: Sequence[Typed]) -> Signature:
    return _with_escape(with_polars(found, arguments), arguments)


def _like(result: pa.DataType, text: Values, pattern: Values, escape: pa.Scalar | None = None) -> Values:
    letter = "\\" if escape is None else escape.as_py()
    if isinstance(pattern, pa.Scalar) and pattern.is_valid:
        like_pattern(pattern.as_py(), letter)  # raises where Spark does
        if letter == "\\" or letter not in pattern.as_py():
            return pc.match_like(text, pattern=pattern.as_py())
    return per_row(partial(_is_like, letter))(result, text, pattern)


def _is_like(escape: str, text: str, pattern: str) -> bool:
    return like_pattern(pattern, escape).fullmatch(text) is not None


def _ilike(result: pa.DataType, text: Values, pattern: Values, *escape: pa.Scalar) -> Values:
    return _like(result, upper_or_lower("lower", text), upper_or_lower("lower", pattern), *escape)


# -- distances


def _levenshtein(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for letter in one:
        diagonal, row[0] = row[0], row[0] + 1
        for place, against in enumerate(other, 1):
            changed = diagonal + (letter != against)
            diagonal = row[place]
            row[place] = min(changed, diagonal + 1, row[place - 1] + 1)
    return row[-1]


def _within(one: str, other: str, most: int) -> int:
    distance = _levenshtein(one, other)
    return distance if distance <= most else -1


def _distance(result: pa.DataType, one: Values, other: Values, most: Values | None = None) -> Values:
    return (
        per_row(_levenshtein)(result, one, other)
        if most is None
        else per_row(_within)(result, one, other, most)
    )


def _register() -> None:
    tests = {
        "contains": (pc.match_substring, _contains),
        "startswith": (pc.starts_with, lambda text, part: text.startswith(part)),
        "endswith": (pc.ends_with, lambda text, part: text.endswith(part)),
    }
    for name, (arrow, function) in tests.items():
        add(Rule(name, FAMILY, _tests(_BOOL), partial(_test, arrow, function), _TWO_TEXTS))
    add(Rule("instr", FAMILY, exactly((_TEXT, _TEXT), _INT), _instr, "a text and a part of it"))
    add(Rule("locate", FAMILY, _located, _locate, "a part, a text, and where to begin or nothing"))
    two, three = exactly((_TEXT, _TEXT), _TEXT), exactly((_TEXT, _TEXT, _TEXT), _TEXT)
    add(
        Rule(
            "replace", FAMILY, either(two, three), _replace, "a text, a part, and what replaces it or nothing"
        )
    )
    liked = either(exactly((_TEXT, _TEXT), _BOOL), exactly((_TEXT, _TEXT, _TEXT), _BOOL))
    takes = "a text, a pattern, and a letter to escape or nothing"
    add(Rule("like", FAMILY, liked, _like, takes, fails=True, refine=_with_escape))
    add(Rule("ilike", FAMILY, liked, _ilike, takes, fails=True, refine=_with_escape_and_polars))
    distances = either(exactly((_TEXT, _TEXT), _INT), exactly((_TEXT, _TEXT, _INT), _INT))
    takes = "two texts, and the largest distance or nothing"
    add(Rule("levenshtein", FAMILY, distances, _distance, takes))


_register()
