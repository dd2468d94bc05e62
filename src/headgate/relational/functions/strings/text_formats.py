"""Rules of numbers and texts written by a format: `format_number`, `format_string`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext
from functools import lru_cache
from typing import Final

import pyarrow as pa

from headgate.common.errors import PlanError
from headgate.relational.functions.kernels import per_row, repeated
from headgate.relational.functions.number_texts import float_text
from headgate.relational.resolved import Typed, Values
from headgate.relational.rules import Rule, Signature, Types, add, constant_of
from headgate.relational.spark_types import is_integer, is_numeric, text_of

FAMILY: Final = "strings"
_TEXT: Final = pa.string()
_INT: Final = pa.int32()
_HALF: Final = Decimal("0.5")


# -- format_number


def _formatted(given: Types) -> Signature | None:
    if (
        len(given) != 2
        or not is_numeric(given[0])
        or not (is_integer(given[1]) or pa.types.is_null(given[1]))
    ):
        return None
    # Spark takes a float's exact value, which is that of a double.
    kind = pa.float64() if given[0] == pa.float32() else given[0]
    return Signature((kind, _INT), _TEXT, nullable=True)


def _format_number(value: float | Decimal, digits: int) -> str | None:
    if digits < 0:
        return None
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "-∞"
    if value != value:
        return "NaN"
    with localcontext(prec=800, rounding=ROUND_HALF_EVEN):
        # Java takes the shortest text of a double, but looks at its exact value where that text is half-way.
        shortest = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        half_way = abs(shortest.scaleb(digits) % 1) == _HALF
        return f"{Decimal(value) if half_way else shortest:,.{digits}f}"


# -- format_string


_DIRECTIVE: Final = re.compile(
    r"%(?P<flags>[-+ 0,#(]*)(?P<width>[1-9]\d*)?(\.(?P<digits>\d+))?(?P<kind>.)", re.DOTALL
)


_FLAGS: Final = {"s": set("-"), "d": set("-+ 0,"), "x": set("-0"), "X": set("-0"), "f": set("-+ 0,")}
"""For each directive that is taken, the flags that it may have."""


@dataclass(frozen=True)
class _Directive:
    """How one value is written; `kind` is one of s, d, x, X and f."""

    flags: str
    width: int
    digits: int | None
    kind: str


@lru_cache(256)
def _directives(text: str) -> list[str | _Directive]:
    """Return a format as its texts and its directives.

    Raises:
        PlanError: it has one that is not taken.
    """
    parts: list[str | _Directive] = []
    end = 0
    for found in _DIRECTIVE.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        if found[0] in ("%%", "%n"):
            parts.append("%" if found["kind"] == "%" else "\n")
            continue
        if not _is_taken(found):
            raise PlanError(f"the format {text!r} has {found[0]!r}; taken are %s %d %x %X %f, %% and %n")
        digits = None if found["digits"] is None else int(found["digits"])
        parts.append(_Directive(found["flags"], int(found["width"] or 0), digits, found["kind"]))
    if "%" in text[end:]:
        raise PlanError(f"the format {text!r} ends within a directive")
    return [*parts, text[end:]]


def _is_taken(found: re.Match[str]) -> bool:
    kind, flags = found["kind"], set(found["flags"])
    if kind not in _FLAGS or flags - _FLAGS[kind] or len(flags) < len(found["flags"]):
        return False
    # As Java: a side, or zeros, need a width, and one of two that exclude each other is wrong.
    aligned = flags & set("-0")
    return not (
        (found["digits"] is not None and kind in "dxX")
        or (aligned and not found["width"])
        or len(aligned) == 2
        or len(flags & set("+ ")) == 2
    )


def _texts(given: Types) -> Signature | None:
    return Signature(given, _TEXT) if given and pa.types.is_string(given[0]) else None


def _with_format(found: Signature, arguments: Sequence[Typed]) -> Signature:
    given = constant_of(arguments, 0, "the format")
    directives = [part for part in _directives(given.as_py() or "") if isinstance(part, _Directive)]
    values = arguments[1:]
    if len(directives) > len(values):
        raise PlanError(f"the format {given} has {len(directives)} directives for {len(values)} values")
    for directive, value in zip(directives, values, strict=False):
        kind = value.type
        whole, texts = is_integer(kind), pa.types.is_string(kind) or pa.types.is_boolean(kind)
        fits = {"s": whole or texts or kind == pa.float64(), "f": kind == pa.float64()}.get(
            directive.kind, whole
        )
        if not (fits or pa.types.is_null(kind)):
            raise PlanError(f"%{directive.kind} does not take {value}, which is {text_of(kind)}")
    # Only the format makes the result null: a value that is null is written so.
    return found._replace(nullable=not given.is_valid)


def _format_string(result: pa.DataType, form: pa.Scalar, *values: Values) -> Values:
    rows = next((len(value) for value in values if isinstance(value, pa.Array)), None)
    if not form.is_valid:
        return pa.scalar(None, result)
    parts = _directives(form.as_py())
    widths = [value.type.bit_width if is_integer(value.type) else 0 for value in values]
    columns = [repeated(value, 1 if rows is None else rows).to_pylist() for value in values]
    found = pa.array(
        [_filled(parts, row, widths) for row in (zip(*columns, strict=True) if columns else [()])], result
    )
    return found[0] if rows is None else found


Plain = None | bool | int | float | str


def _filled(parts: Sequence[str | _Directive], row: Sequence[Plain], widths: Sequence[int]) -> str:
    values = zip(row, widths, strict=True)
    return "".join(part if isinstance(part, str) else _written(part, *next(values)) for part in parts)


def _written(form: _Directive, value: Plain, bits: int) -> str:
    if value is None or form.kind == "s":
        text = _as_java(value) if value is not None else "NULL" if form.kind == "X" else "null"
        return _in_width(text[: form.digits], form)
    if form.kind in "xX":
        text = f"{int(value) % 2**bits:{form.kind}}"
        return text.rjust(form.width, "0") if "0" in form.flags else _in_width(text, form)
    if form.kind == "f" and value - value != 0:  # type: ignore[operator]
        text = float_text(float(value))
        return _in_width(("+" if "+" in form.flags and value == float("inf") else "") + text, form)
    sign = next((flag for flag in "+ " if flag in form.flags), "-")
    comma = "," if "," in form.flags else ""
    if form.kind == "d":
        text = f"{int(value):{sign}{comma}d}"
    else:
        text = f"{_half_up(float(value), 6 if form.digits is None else form.digits):{sign}{comma}f}"
    if "0" in form.flags:
        head = text[: len(text) - len(text.lstrip("+- "))]
        return head + text[len(head) :].rjust(form.width - len(head), "0")
    return _in_width(text, form)


def _in_width(text: str, form: _Directive) -> str:
    return text.ljust(form.width) if "-" in form.flags else text.rjust(form.width)


def _as_java(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return float_text(value) if isinstance(value, float) else str(value)


def _half_up(value: float, digits: int) -> Decimal:
    # Java rounds the shortest text of a number.
    with localcontext(prec=800):
        return Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def _register() -> None:
    takes = "a number and how many digits after the point"
    add(Rule("format_number", FAMILY, _formatted, per_row(_format_number), takes))
    takes = "a format, and values"
    add(Rule("format_string", FAMILY, _texts, _format_string, takes, refine=_with_format))


_register()
