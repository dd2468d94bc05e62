"""Casts between types of columns as Spark's ANSI mode has them: what does not fit is an error, or null."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import first_rows
from headgate.relational.functions.nested.ragged import list_array, lists_of
from headgate.relational.functions.number_texts import (
    DOUBLE_TEXT,
    INTEGER_TEXT,
    NUMBER_TEXT,
    SPECIAL_TEXT,
    decimals_of,
    doubles_of,
    number_texts,
    trimmed,
)
from headgate.relational.functions.times.time_texts import time_texts, times_of
from headgate.relational.functions.times.zone import days_of, instants, local
from headgate.relational.resolved import Values
from headgate.relational.rules import RowsFailed
from headgate.relational.spark_types import (
    PRECISION_MAX,
    TIMESTAMP,
    as_decimal,
    is_integer,
    is_numeric,
    text_of,
)

_BOUNDS: Final = {
    pa.int8(): (-(2**7), 2**7 - 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
}
_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")
_MICROS: Final = 1_000_000
_LONG: Final = pa.int64()
_DOUBLE: Final = pa.float64()


def cast_exists(given: pa.DataType, to: pa.DataType) -> bool:
    """Return whether values of type `given` can be cast to type `to`; not all of Spark's casts are."""
    if given == to or pa.types.is_null(given):
        return True
    if pa.types.is_list(given) and pa.types.is_list(to):
        return cast_exists(given.value_type, to.value_type) and cast_is_safe(given.value_type, to.value_type)
    if pa.types.is_boolean(given):
        return is_numeric(to) or pa.types.is_string(to)
    if is_numeric(given):
        whole = is_integer(given) or given == _DOUBLE
        return (
            is_numeric(to) or pa.types.is_boolean(to) or pa.types.is_string(to) or (whole and to == TIMESTAMP)
        )
    if pa.types.is_string(given):
        others = (pa.types.is_boolean, pa.types.is_date, pa.types.is_timestamp, pa.types.is_binary)
        return is_numeric(to) or any(kind(to) for kind in others)
    if _is_time(given):
        number = given == TIMESTAMP and to in (_LONG, _DOUBLE)
        return _is_time(to) or pa.types.is_string(to) or number
    return False


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def cast_is_safe(given: pa.DataType, to: pa.DataType) -> bool:
    """Return whether every value of type `given` fits type `to`, so that its cast cannot fail."""
    if given == to or pa.types.is_null(given) or pa.types.is_boolean(given):
        return True
    if pa.types.is_string(to):
        return not pa.types.is_string(given)
    if is_numeric(given) and (pa.types.is_floating(to) or pa.types.is_boolean(to)):
        return True
    if is_integer(given) and is_integer(to):
        return bool(given.bit_width <= to.bit_width)
    if pa.types.is_decimal(to) and (is_integer(given) or pa.types.is_decimal(given)):
        inner = as_decimal(given)
        return bool(inner.scale <= to.scale and inner.precision - inner.scale <= to.precision - to.scale)
    if pa.types.is_list(given) and pa.types.is_list(to):
        return cast_is_safe(given.value_type, to.value_type)
    return pa.types.is_binary(to) if pa.types.is_string(given) else not is_numeric(given)


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


Cast = Callable[[Values, pa.DataType, bool], Values]


def _chosen(given: pa.DataType, to: pa.DataType) -> Cast:
    if pa.types.is_list(given) and pa.types.is_list(to):
        return _list
    if pa.types.is_string(given):
        return _from_text
    if pa.types.is_string(to):
        return _to_text
    if _is_time(given):
        return _from_time
    if is_numeric(given):
        return _from_number(given, to)
    return lambda values, kind, _: pc.cast(pc.cast(values, pa.int8()), kind)


def _from_number(given: pa.DataType, to: pa.DataType) -> Cast:
    if pa.types.is_floating(given) and is_integer(to):
        return _truncated
    if is_integer(to):
        return _narrowed
    if pa.types.is_decimal(to):
        return _to_decimal
    if pa.types.is_boolean(to):
        return lambda values, _, __: pc.not_equal(values, pa.scalar(0, values.type))
    if to == TIMESTAMP:
        return _seconds
    if pa.types.is_decimal(given):
        # By its text: Arrow's own way loses the last digit.
        return lambda values, kind, _: pc.cast(pc.cast(pc.cast(values, pa.string()), _DOUBLE), kind)
    return lambda values, kind, _: pc.cast(values, kind, safe=False)


def kept(values: Values, fits: Values, condition: str, why: str, strict: bool) -> Values:
    """Return values with null where they do not fit; with `strict`, raise RowsFailed if one does not.

    `fits` says which values do; `condition` and `why` are those of the error, in which {} is the first value.
    """
    bad = pc.and_(pc.is_valid(values), pc.invert(pc.fill_null(fits, False)))
    if not pc.any(first_rows(bad)).as_py():
        return values
    if strict:
        first = first_rows(values).filter(first_rows(bad))[0].as_py()
        raise RowsFailed(
            condition, why.format(first if isinstance(first, (int, float)) else repr(str(first)))
        )
    return pc.if_else(bad, pa.scalar(None, values.type), values)


# -- from numbers


def _narrowed(values: Values, to: pa.DataType, strict: bool) -> Values:
    whole = values
    if pa.types.is_decimal(values.type):
        whole = pc.trunc(values)
    kind = pa.decimal256(76, whole.type.scale) if pa.types.is_decimal(whole.type) else _LONG
    low, high = (pc.cast(pa.scalar(bound, _LONG), kind) for bound in _BOUNDS[to])
    wide = pc.cast(whole, kind)
    fits = pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high))
    return pc.cast(kept(whole, fits, "CAST_OVERFLOW", _overflow(to), strict), to, safe=False)


def _overflow(to: pa.DataType) -> str:
    return f"{{}} does not fit {text_of(to)}; try_cast gives null"


def _truncated(values: Values, to: pa.DataType, strict: bool) -> Values:
    whole = pc.trunc(pc.cast(values, _DOUBLE))
    low, high = _BOUNDS[to]
    # 2**63 - 1 is no double: what is below 2**63 fits.
    fits = pc.and_(pc.greater_equal(whole, float(low)), pc.less(whole, float(high + 1)))
    return pc.cast(kept(whole, fits, "CAST_OVERFLOW", _overflow(to), strict), to, safe=False)


def _to_decimal(values: Values, to: pa.DataType, strict: bool) -> Values:
    if pa.types.is_floating(values.type):
        # By the shortest text of the double, not by its exact binary value; what is no number is null.
        wide = pc.cast(values, _DOUBLE)
        finite = pc.if_else(pc.is_finite(wide), wide, pa.scalar(None, _DOUBLE))
        return _bounded(decimals_of(pc.cast(finite, pa.string()), to.scale), to, strict)
    wide = pc.cast(
        pc.cast(values, as_decimal(values.type)),
        pa.decimal256(76, max(as_decimal(values.type).scale, to.scale)),
    )
    return _bounded(wide, to, strict)


def _bounded(values: Values, to: pa.DataType, strict: bool) -> Values:
    # Decimals of 76 digits become ones of fewer, rounded half up.
    if values.type.scale > to.scale:
        values = pc.round(values, ndigits=to.scale, round_mode="half_towards_infinity")
    limit = pc.cast(
        pa.scalar(10 ** (to.precision - to.scale), pa.decimal256(39, 0)), pa.decimal256(76, values.type.scale)
    )
    condition = "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"
    fitting = kept(values, pc.less(pc.abs(values), limit), condition, _overflow(to), strict)
    return pc.cast(fitting, to, safe=False)


def _seconds(values: Values, to: pa.DataType, strict: bool) -> Values:
    if values.type == _DOUBLE:
        micros = pc.multiply(values, float(_MICROS))
        finite = pc.if_else(pc.is_finite(micros), micros, pa.scalar(None, _DOUBLE))
        return pc.cast(_truncated(finite, _LONG, strict), to)
    wide = pc.cast(values, _LONG)
    # What is beyond all times becomes the first or the last of them.
    low, high = -(2**63) // _MICROS + 1, (2**63 - 1) // _MICROS
    inside = pc.multiply(
        pc.if_else(pc.less(wide, low), low, pc.if_else(pc.greater(wide, high), high, wide)), _MICROS
    )
    found = pc.if_else(pc.greater(wide, high), pa.scalar(2**63 - 1), inside)
    return pc.cast(pc.if_else(pc.less(wide, low), pa.scalar(-(2**63)), found), to)


# -- from times, and to texts


def _from_time(values: Values, to: pa.DataType, _strict: bool) -> Values:
    if pa.types.is_date(to):
        return days_of(values)
    if to == _LONG:
        micros = pc.cast(values, _LONG)
        down = pc.divide(micros, _MICROS)
        return pc.subtract(down, pc.cast(pc.less(micros, pc.multiply(down, _MICROS)), _LONG))
    if to == _DOUBLE:
        return pc.divide(pc.cast(pc.cast(values, _LONG), _DOUBLE, safe=False), float(_MICROS))
    return instants(values) if to == TIMESTAMP else local(values)


def _to_text(values: Values, to: pa.DataType, _strict: bool) -> Values:
    if _is_time(values.type):
        return time_texts(values)
    return number_texts(values) if is_numeric(values.type) else pc.cast(values, to)


def _list(values: Values, to: pa.DataType, strict: bool) -> Values:
    if isinstance(values, pa.Scalar):
        return _list(first_rows(values), to, strict)[0]
    lists = lists_of(values)
    return list_array(cast_values(lists.elements, to.value_type, strict), lists.lengths, lists.absent, to)


# -- from texts


def _from_text(values: Values, to: pa.DataType, strict: bool) -> Values:
    if pa.types.is_binary(to):
        return pc.cast(values, to)
    text = trimmed(values)
    if pa.types.is_boolean(to):
        return _from_boolean_text(text, strict)
    if is_integer(to):
        fits = pc.match_substring_regex(text, pattern=INTEGER_TEXT)
        return _narrowed(decimals_of(_kept_texts(text, fits, to, strict), 0), to, strict)
    if is_numeric(to):
        return _from_number_text(text, to, strict)
    found = times_of(text, to)
    bad = pc.and_(pc.is_valid(text), pc.is_null(found))
    _kept_texts(text, pc.invert(bad), to, strict)
    return found


def _kept_texts(text: Values, fits: Values, to: pa.DataType, strict: bool) -> Values:
    return kept(text, fits, "CAST_INVALID_INPUT", f"{{}} is no {text_of(to)}; try_cast gives null", strict)


def _from_boolean_text(text: Values, strict: bool) -> Values:
    lower = pc.utf8_lower(text)
    true = pc.is_in(lower, value_set=pa.array(_TRUE))
    false = pc.is_in(lower, value_set=pa.array(_FALSE))
    checked = _kept_texts(lower, pc.or_(true, false), pa.bool_(), strict)
    return pc.if_else(pc.is_valid(checked), true, pa.scalar(None, pa.bool_()))


def _from_number_text(text: Values, to: pa.DataType, strict: bool) -> Values:
    if pa.types.is_floating(to):
        fits = pc.match_substring_regex(text, pattern=DOUBLE_TEXT)
        fits = pc.or_(fits, pc.match_substring_regex(text, pattern=SPECIAL_TEXT))
        return doubles_of(_kept_texts(text, fits, to, strict), to)
    fits = pc.match_substring_regex(text, pattern=NUMBER_TEXT)
    wide = decimals_of(_kept_texts(text, fits, to, strict), to.scale)
    if to.scale < PRECISION_MAX:
        few = pc.less(pc.abs(wide), pa.scalar(10**PRECISION_MAX, pa.decimal256(PRECISION_MAX + 1, 0)))
        wide = kept(wide, few, "NUMERIC_OUT_OF_SUPPORTED_RANGE", "{} has more than 38 digits", strict)
    return _bounded(wide, to, strict)
