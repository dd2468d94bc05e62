"""Rules of rounding to a number of digits, up, and down, with Spark's types of the results."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import per_value, refuse
from headgate.relational.resolved import Typed, Values
from headgate.relational.rules import RowsFailed, Rule, Signature, Types, add, constant_of
from headgate.relational.spark_types import bounded_decimal, is_integer, is_numeric, text_of

FAMILY: Final = "mathematical"
_INT: Final = pa.int32()
_ARROW_MODES: Final = {ROUND_HALF_UP: "half_towards_infinity", ROUND_HALF_EVEN: "half_to_even"}


# -- types


def _rounded(given: Types) -> Signature | None:
    if len(given) not in (1, 2) or not (is_numeric(kind := _number(given[0]))):
        return None
    if len(given) == 2 and not (is_integer(given[1]) or pa.types.is_null(given[1])):
        return None
    # Without digits it is rounded to none.
    return _with_digits(Signature((kind, *([_INT] * (len(given) - 1))), kind), 0)


def _number(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_null(kind) or pa.types.is_string(kind) else kind


def _with_digits(found: Signature, digits: int) -> Signature:
    kind = found.arguments[0]
    if not pa.types.is_decimal(kind):
        return found
    whole = kind.precision - kind.scale + 1
    if digits < 0:
        return found._replace(result=pa.decimal128(min(max(whole, 1 - digits), 38), 0))
    scale = min(kind.scale, digits)
    return found._replace(result=pa.decimal128(min(whole + scale, 38), scale))


def _digits(found: Signature, arguments: Sequence[Typed]) -> Signature:
    if len(arguments) == 1:
        return found
    digits = constant_of(arguments, 1, "the number of digits").as_py()
    return found._replace(nullable=True) if digits is None else _with_digits(found, digits)


def _ceiled(given: Types) -> Signature | None:
    if len(given) == 1:
        kind = _number(given[0])
        if pa.types.is_decimal(kind):
            whole = bounded_decimal(kind.precision - kind.scale + 1, 0)
            return Signature((kind,), whole if kind.scale else kind)
        if not is_numeric(kind):
            return None
        return Signature((pa.int64() if is_integer(kind) else pa.float64(),), pa.int64())
    found = _rounded(given)
    # Spark makes a decimal of each number first.
    return found if found is not None and pa.types.is_decimal(found.arguments[0]) else None


# -- values


def _round(mode: str, result: pa.DataType, value: Values, digits: pa.Scalar | None = None) -> Values:
    places = 0 if digits is None else digits.as_py()
    if places is None:
        return pa.scalar(None, result)
    if pa.types.is_floating(result):
        return _round_floats(mode, places, result, value)
    if is_integer(result) and places >= 0:
        return value
    return _fitting(
        per_value(partial(_round_exactly, mode, places))(pa.decimal128(38, result_scale(result)), value),
        result,
    )


def result_scale(kind: pa.DataType) -> int:
    """Return how many digits after the point a number of type `kind` has; 0 for integers."""
    return int(kind.scale) if pa.types.is_decimal(kind) else 0


def _round_exactly(mode: str, places: int, value: Decimal | int) -> Decimal:
    with localcontext(prec=80):
        return Decimal(value).quantize(Decimal(1).scaleb(-places), mode)


def _fitting(values: Values, result: pa.DataType) -> Values:
    try:
        return pc.cast(values, result)
    except pa.ArrowInvalid:
        condition = (
            "ARITHMETIC_OVERFLOW" if is_integer(result) else "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION"
        )
        raise RowsFailed(condition, f"a rounded number does not fit {text_of(result)}") from None


def _round_floats(mode: str, places: int, result: pa.DataType, value: Values) -> Values:
    # By the shortest text of each number, as Java: 2.675 is half-way, though its double is less.
    if isinstance(value, pa.Scalar):
        return _round_floats(mode, places, result, pa.repeat(value, 1))[0]
    wide = pc.cast(value, pa.float64())
    plain: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = pc.fill_null(wide, 0.0).to_numpy()
    with np.errstate(all="ignore"):
        shifted = np.abs(plain) * 10.0**places
        near = np.abs(shifted - np.floor(shifted) - 0.5) < 1e-6
        unsafe = np.isfinite(plain) & (near | (shifted < 1e-9) | (shifted > 1e9) | (abs(places) > 15))
    safe = pc.if_else(pa.array(unsafe), 0.0, wide)
    quick = pc.add(pc.round(safe, places, _ARROW_MODES[mode]), 0.0)  # -0.0 becomes 0.0
    if unsafe.any():
        exact = per_value(partial(_round_one, mode, places))(pa.float64(), wide.filter(pa.array(unsafe)))
        quick = pc.replace_with_mask(quick, pa.array(unsafe), exact)
    return pc.cast(quick, result)


def _round_one(mode: str, places: int, value: float) -> float:
    with localcontext(prec=800):
        return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), mode)) + 0.0


def _ceil(mode: str, result: pa.DataType, value: Values, digits: pa.Scalar | None = None) -> Values:
    if digits is not None:
        return _round(mode, result, value, digits)
    kernel = pc.ceil if mode == ROUND_CEILING else pc.floor
    if not pa.types.is_floating(value.type):
        return value if is_integer(value.type) else _fitting(kernel(value), result)
    whole = kernel(value)
    refuse(
        pc.greater_equal(pc.abs(whole), 2.0**63), "ARITHMETIC_OVERFLOW", "a double is too large for a bigint"
    )
    # As Java turns a double into a long, NaN is 0.
    return pc.cast(pc.if_else(pc.is_nan(whole), 0.0, whole), result)


def _register() -> None:
    takes = "a number, and how many digits after the point, a constant"
    for name, mode in (("round", ROUND_HALF_UP), ("bround", ROUND_HALF_EVEN)):
        add(Rule(name, FAMILY, _rounded, partial(_round, mode), takes, fails=True, refine=_digits))
    takes = "a number, or a decimal and how many digits after the point, a constant"
    for name, mode in (("ceil", ROUND_CEILING), ("floor", ROUND_FLOOR)):
        add(Rule(name, FAMILY, _ceiled, partial(_ceil, mode), takes, fails=True, refine=_digits))


_register()
