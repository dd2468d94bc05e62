"""Arithmetic: `+ - * / % div`, negation, absolute values; overflow and division by zero are errors."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_DOWN, Decimal, localcontext
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.column_types import (
    as_decimal,
    bounded_decimal,
    common_number,
    is_integer,
    is_numeric,
    text_of,
)
from headgate.relational.resolved import Values
from headgate.relational.rules import Judge, RowsFailed, Rule, Signature, Types, add

FAMILY: Final = "arithmetic"
_PAIR: Final = "two numbers"


def _numbers(given: Types) -> tuple[pa.DataType, pa.DataType] | None:
    """Return the types of two numbers; text stands for a double, and null for the other type."""
    if len(given) != 2:
        return None
    left, right = (pa.float64() if pa.types.is_string(kind) else kind for kind in given)
    left, right = (right if pa.types.is_null(left) else left), (left if pa.types.is_null(right) else right)
    if pa.types.is_null(left):
        left = right = pa.float64()
    return (left, right) if is_numeric(left) and is_numeric(right) else None


Precision = Callable[[pa.DataType, pa.DataType], pa.DataType]


def _judge(decimal: Precision) -> Judge:
    def judge(given: Types) -> Signature | None:
        found = _numbers(given)
        if found is None:
            return None
        kind = common_number(*found)
        if not pa.types.is_decimal(kind):
            return Signature((kind, kind), kind)
        left, right = map(as_decimal, found)
        return Signature((left, right), decimal(left, right))

    return judge


def _sum_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    return bounded_decimal(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)


def _product_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    return bounded_decimal(left.precision + right.precision + 1, left.scale + right.scale)


def _quotient_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(6, left.scale + right.precision + 1)
    return bounded_decimal(left.precision - left.scale + right.scale + scale, scale)


def _remainder_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    return bounded_decimal(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def _checked(kernel: Callable[..., Values], result: pa.DataType, *values: Values) -> Values:
    """Call an Arrow kernel that raises on overflow."""
    try:
        found = kernel(*values)
    except pa.ArrowInvalid:
        raise RowsFailed(
            "ARITHMETIC_OVERFLOW", f"the result does not fit {text_of(result)}; try_ gives null"
        ) from None
    return found if found.type == result else _as_decimal(found, result)


def _as_decimal(values: Values, result: pa.DataType) -> Values:
    from headgate.relational.casts import cast_values

    return cast_values(values, result, strict=True)


def _refuse_zero(divisor: Values) -> None:
    zero = pc.equal(divisor, pa.scalar(0, divisor.type))
    if (zero if isinstance(zero, pa.Scalar) else pc.any(zero)).as_py():
        raise RowsFailed("DIVIDE_BY_ZERO", "division by zero; try_divide gives null")


def _divide(result: pa.DataType, left: Values, right: Values) -> Values:
    _refuse_zero(right)
    if not pa.types.is_decimal(result):
        return pc.divide(left, right)
    # One digit more than the result has, so that the last one can be rounded: Arrow cuts digits off.
    one, other = left.type, right.type
    # Arrow's quotient has max(6, scale + other's precision + 1) digits after the point.
    scale = max(one.scale + 1, result.scale - other.precision)
    precision = one.precision + scale - one.scale
    if precision + other.precision + other.scale + 1 > 76:
        return _half_up(_exact_quotient(left, right, result), result)
    wide = pc.cast(left, pa.decimal256(precision, scale))
    return _half_up(pc.divide(wide, pc.cast(right, pa.decimal256(other.precision, other.scale))), result)


def _exact_quotient(left: Values, right: Values, result: pa.DataType) -> pa.Array:
    """Divide decimals of so many digits that Arrow has no room for them, row by row."""
    rows = max(len(each) for each in (left, right) if isinstance(each, pa.Array))
    pairs = [
        each.to_pylist() if isinstance(each, pa.Array) else [each.as_py()] * rows for each in (left, right)
    ]
    with localcontext(prec=76):
        found = [None if a is None or b is None else a / b for a, b in zip(*pairs, strict=True)]
        digit = Decimal(1).scaleb(-result.scale - 1)
        cut = [None if each is None else each.quantize(digit, ROUND_DOWN) for each in found]
    return pa.array(cut, pa.decimal256(76, result.scale + 1))


def _half_up(values: Values, result: pa.DataType) -> Values:
    rounded = pc.round(values, ndigits=result.scale, round_mode="half_towards_infinity")
    try:
        return pc.cast(rounded, result)
    except pa.ArrowInvalid:
        raise RowsFailed(
            "NUMERIC_VALUE_OUT_OF_RANGE", f"the result does not fit {text_of(result)}; try_ gives null"
        ) from None


def _quotient(given: Types) -> Signature | None:
    found = _numbers(given)
    if found is None:
        return None
    if all(is_integer(kind) or pa.types.is_floating(kind) for kind in found):
        return Signature((pa.float64(), pa.float64()), pa.float64())
    return _judge(_quotient_type)(given)


def _integral(given: Types) -> Signature | None:
    found = _numbers(given)
    if found is None or not all(map(is_integer, found)):
        return None
    return Signature((pa.int64(), pa.int64()), pa.int64())


def _div(result: pa.DataType, left: Values, right: Values) -> Values:
    _refuse_zero(right)
    return _checked(pc.divide_checked, result, left, right)


def _remainder(result: pa.DataType, left: Values, right: Values) -> Values:
    zero = pc.equal(right, pa.scalar(0, right.type))
    if (zero if isinstance(zero, pa.Scalar) else pc.any(zero)).as_py():
        raise RowsFailed("REMAINDER_BY_ZERO", "remainder of a division by zero; try_mod gives null")
    if pa.types.is_floating(result):
        import numpy as np

        return _by_numpy(np.fmod, left, right, result)
    # Dividing the least integer by -1 overflows, while its remainder is 0.
    safe = (
        pc.if_else(pc.equal(right, pa.scalar(-1, right.type)), pa.scalar(1, right.type), right)
        if is_integer(result)
        else right
    )
    whole = pc.divide(left, safe) if is_integer(result) else pc.trunc(pc.divide(left, safe))
    return _checked(lambda a, b, q: pc.subtract(a, pc.multiply(b, q)), result, left, safe, whole)


def _by_numpy(kernel: Callable[..., Any], left: Values, right: Values, result: pa.DataType) -> Values:
    arrays = [each if isinstance(each, pa.Array) else each.as_py() for each in (left, right)]
    if all(not isinstance(each, pa.Array) for each in arrays):
        return pa.scalar(None if None in arrays else float(kernel(*arrays)), result)
    length = next(len(each) for each in arrays if isinstance(each, pa.Array))
    plain = [
        pc.fill_null(each, 1).to_numpy(zero_copy_only=False)
        if isinstance(each, pa.Array)
        else (1.0 if each is None else each)
        for each in arrays
    ]
    missing = pc.or_(*[pc.is_null(each) for each in (left, right)])
    found = pa.array(kernel(*plain), result)
    return found if len(found) != length else pc.if_else(missing, pa.scalar(None, result), found)


def _negative(result: pa.DataType, value: Values) -> Values:
    return _checked(pc.negate_checked, result, value)


def _abs(result: pa.DataType, value: Values) -> Values:
    return _checked(pc.abs_checked, result, value)


def _one_number(given: Types) -> Signature | None:
    if len(given) != 1:
        return None
    kind = pa.float64() if pa.types.is_string(given[0]) or pa.types.is_null(given[0]) else given[0]
    return Signature((kind,), kind) if is_numeric(kind) else None


def _arithmetic(kernel: Callable[..., Values]) -> Callable[..., Values]:
    return partial(_checked, kernel)


def _register() -> None:
    pairs: dict[str, tuple[Judge, Callable[..., Values]]] = {
        "+": (_judge(_sum_type), _arithmetic(pc.add_checked)),
        "-": (_judge(_sum_type), _arithmetic(pc.subtract_checked)),
        "*": (_judge(_product_type), _arithmetic(pc.multiply_checked)),
        "/": (_quotient, _divide),
        "%": (_judge(_remainder_type), _remainder),
        "div": (_integral, _div),
    }
    for name, (judge, kernel) in pairs.items():
        add(Rule(name, FAMILY, judge, kernel, _PAIR, fails=True))
    add(Rule("negative", FAMILY, _one_number, _negative, "a number", fails=True))
    add(Rule("abs", FAMILY, _one_number, _abs, "a number", fails=True))


_register()
