"""Arithmetic of decimals for `+ - * / %`: exact in Arrow's 76 digits, or row by row, then rounded half up."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import per_row
from headgate.relational.resolved import Values
from headgate.relational.rules import RowsFailed
from headgate.relational.spark_types import bounded_decimal, text_of

_WIDE: Final = 76
"""The digits that Arrow computes with."""


# -- types of results


def sum_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return Spark's type of a sum or difference of two decimal types, bounded as by `bounded_decimal`."""
    scale = max(left.scale, right.scale)
    return bounded_decimal(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)


def product_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    return bounded_decimal(left.precision + right.precision + 1, left.scale + right.scale)


def quotient_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(6, left.scale + right.precision + 1)
    return bounded_decimal(left.precision - left.scale + right.scale + scale, scale)


def remainder_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    return bounded_decimal(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)


# -- values


def summed(sign: int, result: pa.DataType, left: Values, right: Values) -> Values:
    """Return `left` + `right` (`sign` 1) or `left` - `right` (-1), decimals, as the decimal type `result`.
    Rounded half up at the last digit of `result`; RowsFailed if a value does not fit. Null if one is null.
    """
    digits = max(each.type.precision - each.type.scale for each in (left, right))
    if digits + max(left.type.scale, right.type.scale) + 1 > _WIDE:
        return _by_row(lambda one, other: one + sign * other, result, left, right)
    return _rounded((pc.add if sign > 0 else pc.subtract)(_wide(left), _wide(right)), result)


def multiplied(result: pa.DataType, left: Values, right: Values) -> Values:
    """Multiply decimals, rounded as by :func:`summed`; RowsFailed if a value does not fit type `result`."""
    if left.type.precision + right.type.precision + 1 > _WIDE:
        return _by_row(lambda one, other: one * other, result, left, right)
    return _rounded(pc.multiply(_wide(left), _wide(right)), result)


def divided(result: pa.DataType, left: Values, right: Values) -> Values:
    """Divide decimals, where no divisor is zero; RowsFailed if a value does not fit the type `result`."""
    # One digit more than the result has, so that the last one can be rounded: Arrow cuts digits off.
    one, other = left.type, right.type
    # Arrow's quotient has as many after the point as its dividend, the divisor's before the point, and one.
    scale = max(one.scale, result.scale - (other.precision - other.scale))
    precision = one.precision + scale - one.scale
    if precision + other.precision + 1 > _WIDE:
        return _by_row(lambda a, b: a / b, result, left, right)
    return _rounded(pc.divide(pc.cast(left, pa.decimal256(precision, scale)), _wide(right)), result)


def remainder(result: pa.DataType, left: Values, right: Values) -> Values:
    """Return the remainder of a division of decimals, signed as the dividend; no divisor may be zero."""
    return _by_row(lambda one, other: one % other, result, left, right)


def positive_remainder(result: pa.DataType, left: Values, right: Values) -> Values:
    """Return the remainder of a division of decimals; where it is below 0, that of remainder + divisor."""

    def positive(one: Decimal, other: Decimal) -> Decimal:
        rest = one % other
        return (rest + other) % other if rest < 0 else rest

    return _by_row(positive, result, left, right)


def _wide(values: Values) -> Values:
    return pc.cast(values, pa.decimal256(values.type.precision, values.type.scale))


def _rounded(values: Values, result: pa.DataType) -> Values:
    if values.type.scale > result.scale:
        values = pc.round(values, ndigits=result.scale, round_mode="half_towards_infinity")
    try:
        return pc.cast(values, result)
    except pa.ArrowInvalid:
        raise _too_large(result) from None


def _too_large(result: pa.DataType) -> RowsFailed:
    return RowsFailed(
        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
        f"the result does not fit {text_of(result)}; try_ gives null",
    )


def _by_row(
    function: Callable[[Decimal, Decimal], Decimal], result: pa.DataType, left: Values, right: Values
) -> Values:
    return per_row(partial(_one, function, result))(result, left, right)


def _one(
    function: Callable[[Decimal, Decimal], Decimal], result: pa.DataType, left: Decimal, right: Decimal
) -> Decimal:
    with localcontext(prec=120):
        found = function(left, right).quantize(Decimal(1).scaleb(-result.scale), ROUND_HALF_UP)
    if found and found.adjusted() >= result.precision - result.scale:
        raise _too_large(result)
    return found
