"""Rules of letters of texts: capitals, order, codes, replacements letter by letter."""

from __future__ import annotations

import importlib.util
import unicodedata
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import PlanError
from headgate.relational.functions.kernels import first_rows, per_row, per_value, repeated
from headgate.relational.resolved import Typed, Values
from headgate.relational.rules import Kernel, Rule, Signature, Types, add, converts_by_itself, exactly

FAMILY: Final = "strings"
_TEXT: Final = pa.string()
_ONE: Final = exactly((_TEXT,), _TEXT)
_SOUNDS: Final = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))


def upper_or_lower(name: str, values: Values) -> Values:
    """Return texts in capitals (`name` "upper") or small letters ("lower"), by the full rules of Unicode."""
    if pc.all(pc.string_is_ascii(first_rows(values))).as_py() is not False:
        return pc.ascii_upper(values) if name == "upper" else pc.ascii_lower(values)
    # Arrow changes letters one by one: it knows neither a final sigma nor what becomes several letters.
    import polars as pl  # here, since it may not be loaded before a process forks

    texts = pl.Series(first_rows(values)).str
    changed = texts.to_uppercase() if name == "upper" else texts.to_lowercase()
    found = pc.cast(changed.to_arrow(), _TEXT)
    return found[0] if isinstance(values, pa.Scalar) else found


def with_polars(found: Signature, _arguments: Sequence[Typed]) -> Signature:
    """Return `found`; PlanError if polars, by which letters beyond ASCII change case, is not installed."""
    if importlib.util.find_spec("polars") is None:
        raise PlanError("capitals and small letters need polars; pip install 'headgate[columns]'")
    return found


def _cased(name: str) -> Kernel:
    return lambda _result, values: upper_or_lower(name, values)


def _initcap(text: str) -> str:
    # A word ends at a blank only, and its first letter is not made small before: some do not come back.
    return " ".join(word[:1].title() + word.lower()[len(word[:1].lower()) :] for word in text.split(" "))


def _translate(text: str, letters: str, others: str) -> str:
    table: dict[int, str] = {}
    for place, letter in enumerate(letters):
        table.setdefault(ord(letter), others[place : place + 1])
    return text.translate(table)


def _ascii(text: str) -> int:
    return ord(text[0]) if text else 0


def _chr(code: int) -> str:
    return "" if code < 0 else chr(code & 0xFF)


def _soundex(text: str) -> str:
    """Return the sound of a word as a letter and three digits; what does not begin with a letter stays."""
    head = text[:1].upper() if text[:1].isascii() else ""
    if head not in _SOUNDS:
        return text
    found, last = [head], _SOUNDS[head]
    for letter in text[1:]:
        code = _SOUNDS.get(letter.upper()) if letter.isascii() else None
        if code is None:
            last = "0"  # what is no letter divides sounds
        elif code == "7":
            continue  # H and W do not
        else:
            if code not in ("0", last):
                found.append(code)
            last = code
        if len(found) == 4:
            break
    return "".join(found).ljust(4, "0")


# -- mask


def _mask_judge(given: Types) -> Signature | None:
    fits = 1 <= len(given) <= 5 and all(converts_by_itself(kind, _TEXT) for kind in given)
    # Only the first argument makes the result null: a replacement that is null leaves letters as they are.
    return Signature((_TEXT,) * len(given), _TEXT) if fits else None


def _mask(result: pa.DataType, text: Values, *replacements: Values) -> Values:
    defaults = [pa.scalar(letter, _TEXT) for letter in ("X", "x", "n", None)]
    chosen = [*replacements, *defaults[len(replacements) :]]
    rows = next((len(value) for value in (text, *chosen) if isinstance(value, pa.Array)), None)
    columns = [repeated(value, 1 if rows is None else rows).to_pylist() for value in (text, *chosen)]
    found = pa.array(
        [None if row[0] is None else _masked(*row) for row in zip(*columns, strict=True)], result
    )
    return found[0] if rows is None else found


def _masked(text: str, *replacements: str | None) -> str:
    return "".join(_masked_letter(letter, *replacements) for letter in text)


def _masked_letter(
    letter: str, upper: str | None, lower: str | None, digit: str | None, other: str | None
) -> str:
    replacement = {"Lu": upper, "Ll": lower, "Nd": digit}.get(unicodedata.category(letter), other)
    return letter if replacement is None else replacement


def _register() -> None:
    for name in ("upper", "lower"):
        add(Rule(name, FAMILY, _ONE, _cased(name), "a text", refine=with_polars))
    add(Rule("initcap", FAMILY, _ONE, per_value(_initcap), "a text"))
    add(Rule("soundex", FAMILY, _ONE, per_value(_soundex), "a text"))
    add(Rule("ascii", FAMILY, exactly((_TEXT,), pa.int32()), per_value(_ascii), "a text"))
    add(Rule("chr", FAMILY, exactly((pa.int64(),), _TEXT), per_value(_chr), "a code"))
    three = exactly((_TEXT, _TEXT, _TEXT), _TEXT)
    add(Rule("translate", FAMILY, three, per_row(_translate), "a text, the letters to replace, and others"))
    takes = "a text and what replaces capitals, small letters, digits and others"
    add(Rule("mask", FAMILY, _mask_judge, _mask, takes))


_register()
