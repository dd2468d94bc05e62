"""Casts between column types with Spark's ANSI meaning: what does not fit is an error, or null where asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.column_types import as_decimal, is_integer, is_numeric, text_of
from headgate.relational.resolved import Values
from headgate.relational.rules import RowsFailed

_BOUNDS: Final = {
    pa.int8(): (-(2**7), 2**7 - 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
}
_INTEGER_TEXT: Final = r"^[+-]?[0-9]+$"
_NUMBER_TEXT: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")
_DATE_TEXT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


def cast_exists(given: pa.DataType, to: pa.DataType) -> bool:
    """Return whether Spark has a cast between two types that is offered here, too."""
    if given == to or pa.types.is_null(given):
        return True
    if pa.types.is_boolean(given):
        return is_numeric(to) or pa.types.is_string(to)
    if is_numeric(given):
        return is_numeric(to) or pa.types.is_boolean(to) or pa.types.is_string(to)
    if pa.types.is_string(given):
        others = (pa.types.is_boolean, pa.types.is_date, pa.types.is_timestamp, pa.types.is_binary)
        return is_numeric(to) or any(kind(to) for kind in others)
    if pa.types.is_date(given) or pa.types.is_timestamp(given):
        return pa.types.is_date(to) or pa.types.is_timestamp(to) or pa.types.is_string(to)
    return False


def cast_is_safe(given: pa.DataType, to: pa.DataType) -> bool:
    """Return whether every value of one type fits another one."""
    if given == to or pa.types.is_null(given) or pa.types.is_boolean(given):
        return True
    if pa.types.is_string(to):
        return not pa.types.is_string(given)
    if is_numeric(given) and pa.types.is_floating(to):
        return True
    if is_integer(given) and is_integer(to):
        return bool(given.bit_width <= to.bit_width)
    if pa.types.is_decimal(to) and (is_integer(given) or pa.types.is_decimal(given)):
        inner = as_decimal(given)
        return bool(inner.scale <= to.scale and inner.precision - inner.scale <= to.precision - to.scale)
    return not pa.types.is_string(given) and not is_numeric(given)


def cast_values(values: Values, to: pa.DataType, strict: bool) -> Values:
    """Return values as another type; without `strict`, what does not fit becomes null.

    Raises:
        RowsFailed: with `strict`, a value does not fit.
    """
    given = values.type
    if given == to:
        return values
    if pa.types.is_null(given):
        return pc.cast(values, to)
    return _chosen(given, to)(values, to, strict)


def _chosen(given: pa.DataType, to: pa.DataType) -> Callable[[Values, pa.DataType, bool], Values]:
    if pa.types.is_string(given):
        return _from_text
    if pa.types.is_string(to):
        return _to_text
    if pa.types.is_floating(given) and is_integer(to):
        return _truncated
    if is_numeric(given) and is_integer(to):
        return _narrowed
    if is_numeric(given) and pa.types.is_decimal(to):
        return _to_decimal
    if is_numeric(given) and pa.types.is_boolean(to):
        return lambda values, _, __: pc.not_equal(values, pa.scalar(0, values.type))
    return lambda values, kind, _: pc.cast(values, kind, safe=False)


def kept(values: Values, fits: Values, condition: str, why: str, strict: bool) -> Values:
    """Return values with null where they do not fit; with `strict`, raise if there is such a value.

    `fits` is false for these; `condition` and `why` are those of the error, in which {} is the first value.
    """
    bad = pc.and_(pc.is_valid(values), pc.invert(pc.fill_null(fits, False)))
    if not pc.any(_array(bad)).as_py():
        return values
    if strict:
        first = _array(values).filter(_array(bad))[0].as_py()
        raise RowsFailed(
            condition, why.format(first if isinstance(first, (int, float)) else repr(str(first)))
        )
    return pc.if_else(bad, pa.scalar(None, values.type), values)


def _array(values: Values) -> pa.Array:
    return pa.array([values.as_py()], values.type) if isinstance(values, pa.Scalar) else values


def _narrowed(values: Values, to: pa.DataType, strict: bool) -> Values:
    whole = values
    if pa.types.is_decimal(values.type):
        whole = pc.trunc(values)
    low, high = (pc.cast(pa.scalar(bound, pa.int64()), _comparable(whole.type)) for bound in _BOUNDS[to])
    wide = pc.cast(whole, _comparable(whole.type))
    fits = pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high))
    return pc.cast(kept(whole, fits, "CAST_OVERFLOW", _overflow(to), strict), to, safe=False)


def _comparable(kind: pa.DataType) -> pa.DataType:
    return (
        pa.decimal128(38, kind.scale if kind.scale <= 18 else 18) if pa.types.is_decimal(kind) else pa.int64()
    )


def _overflow(to: pa.DataType) -> str:
    return f"{{}} does not fit {text_of(to)}; try_cast gives null"


def _truncated(values: Values, to: pa.DataType, strict: bool) -> Values:
    whole = pc.trunc(pc.cast(values, pa.float64()))
    low, high = _BOUNDS[to]
    # 2**63 - 1 is no double: what is below 2**63 fits.
    fits = pc.and_(pc.greater_equal(whole, float(low)), pc.less(whole, float(high + 1)))
    return pc.cast(kept(whole, fits, "CAST_OVERFLOW", _overflow(to), strict), to, safe=False)


def _to_decimal(values: Values, to: pa.DataType, strict: bool) -> Values:
    if pa.types.is_floating(values.type):
        # As Spark: by the shortest text of the number, not by its exact binary value.
        finite = kept(values, pc.is_finite(values), "CAST_OVERFLOW", _overflow(to), strict)
        return _from_number_text(pc.cast(finite, pa.string()), to, strict)
    return _rounded_decimal(pc.cast(values, as_decimal(values.type)), to, strict)


def _rounded_decimal(values: Values, to: pa.DataType, strict: bool) -> Values:
    if values.type.scale > to.scale:
        values = pc.round(values, ndigits=to.scale, round_mode="half_towards_infinity")
    limit = pa.scalar(10 ** (to.precision - to.scale), pa.decimal128(38, 0))
    wide = pc.cast(pc.abs(values), pa.decimal128(38, values.type.scale), safe=False)
    fits = pc.less(wide, limit) if to.precision < 38 or values.type.precision < 38 else pc.is_valid(values)
    return pc.cast(kept(values, fits, "NUMERIC_VALUE_OUT_OF_RANGE", _overflow(to), strict), to, safe=False)


def _to_text(values: Values, to: pa.DataType, _strict: bool) -> Values:
    if pa.types.is_floating(values.type):
        texts = [None if each is None else float_text(each) for each in _array(values).to_pylist()]
        return texts[0] if isinstance(values, pa.Scalar) else pa.array(texts, to)
    if pa.types.is_timestamp(values.type):
        text = pc.strftime(pc.cast(values, pa.timestamp("us"), safe=False), format="%Y-%m-%d %H:%M:%S")
        return pc.replace_substring_regex(text, pattern=r"(\.[0-9]*?)?\.?0*$", replacement=r"\1")
    return pc.cast(values, to)


def float_text(value: float) -> str:
    """Return a double as Java, and so Spark, writes it.

    Example:
        >>> [float_text(each) for each in (1.0, 1e7, 0.0001, float("inf"), -0.0)]
        ['1.0', '1.0E7', '1.0E-4', 'Infinity', '-0.0']
    """
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        return text if "e" not in text else f"{value:f}"
    digits, _, exponent = f"{value:.17e}".partition("e")
    shortest = repr(value)
    digits = shortest.partition("e")[0] if "e" in shortest else _scientific(shortest)
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _scientific(text: str) -> str:
    sign, text = ("-", text[1:]) if text.startswith("-") else ("", text)
    digits = text.replace(".", "").lstrip("0").rstrip("0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}"


def _from_text(values: Values, to: pa.DataType, strict: bool) -> Values:
    if pa.types.is_binary(to):
        return pc.cast(values, to)
    trimmed = pc.utf8_trim_whitespace(values)
    if pa.types.is_boolean(to):
        return _from_boolean_text(trimmed, strict)
    if is_integer(to):
        fits = pc.match_substring_regex(trimmed, pattern=_INTEGER_TEXT)
        checked = kept(trimmed, fits, "CAST_INVALID_INPUT", _invalid(to), strict)
        wide = pc.cast(
            pc.replace_substring_regex(checked, pattern=r"^\+", replacement=""), pa.decimal128(38, 0)
        )
        return _narrowed(wide, to, strict)
    if is_numeric(to):
        return _from_number_text(trimmed, to, strict)
    fits = (
        pc.match_substring_regex(trimmed, pattern=_DATE_TEXT)
        if pa.types.is_date(to)
        else pc.is_valid(trimmed)
    )
    checked = kept(trimmed, fits, "CAST_INVALID_INPUT", _invalid(to), strict)
    try:
        return pc.cast(checked, to)
    except pa.ArrowInvalid:
        raise RowsFailed("CAST_INVALID_INPUT", f"a text is no {text_of(to)}; try_cast gives null") from None


def _invalid(to: pa.DataType) -> str:
    return f"{{}} is no {text_of(to)}; try_cast gives null"


def _from_boolean_text(trimmed: Values, strict: bool) -> Values:
    lower: Any = pc.utf8_lower(trimmed)
    true = pc.is_in(lower, value_set=pa.array(_TRUE))
    false = pc.is_in(lower, value_set=pa.array(_FALSE))
    checked = kept(lower, pc.or_(true, false), "CAST_INVALID_INPUT", _invalid(pa.bool_()), strict)
    return pc.if_else(pc.is_valid(checked), true, pa.scalar(None, pa.bool_()))


def _from_number_text(trimmed: Values, to: pa.DataType, strict: bool) -> Values:
    fits = pc.match_substring_regex(trimmed, pattern=_NUMBER_TEXT)
    if pa.types.is_floating(to):
        special = pc.match_substring_regex(trimmed, pattern=r"(?i)^([+-]?inf(inity)?|nan)$")
        fits = pc.or_(fits, special)
    checked = kept(trimmed, fits, "CAST_INVALID_INPUT", _invalid(to), strict)
    plain = pc.replace_substring_regex(checked, pattern=r"^\+", replacement="")
    if pa.types.is_floating(to):
        return pc.cast(plain, to)
    return _rounded_decimal(pc.cast(plain, pa.decimal128(38, 18)), to, strict)
