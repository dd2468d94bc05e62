"""Rules of arithmetic: `+ - * / % div pmod`, negation, `abs`; overflow and division by zero are errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.decimals import (
    divided,
    multiplied,
    positive_remainder,
    product_type,
    quotient_type,
    remainder,
    remainder_type,
    sum_type,
    summed,
)
from headgate.relational.functions.kernels import by_numpy, refuse
from headgate.relational.functions.times.durations import moved, moved_judge
from headgate.relational.resolved import Values
from headgate.relational.rules import Judge, Kernel, RowsFailed, Rule, Signature, Types, add, either
from headgate.relational.spark_types import (
    as_decimal,
    common_number,
    is_integer,
    is_numeric,
    text_of,
)

FAMILY: Final = "arithmetic"
_PAIR: Final = "two numbers"


def _numbers(given: Types) -> tuple[pa.DataType, pa.DataType] | None:
    # Text stands for double, and null for the type of the other operand.
    if len(given) != 2:
        return None
    left, right = (pa.float64() if pa.types.is_string(kind) else kind for kind in given)
    left, right = (right if pa.types.is_null(left) else left), (left if pa.types.is_null(right) else right)
    if pa.types.is_null(left):
        left = right = pa.float64()
    return (left, right) if is_numeric(left) and is_numeric(right) else None


N = TypeVar("N", np.int64, np.float64)
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


def _numbers_or_decimals(decimals: Kernel, kernel: Callable[..., Values]) -> Kernel:
    def either_kind(result: pa.DataType, left: Values, right: Values) -> Values:
        if pa.types.is_decimal(result):
            return decimals(result, left, right)
        return _checked(kernel, result, left, right)

    return either_kind


def _checked(kernel: Callable[..., Values], result: pa.DataType, *values: Values) -> Values:
    # Arrow raises ArrowInvalid on overflow.
    try:
        return kernel(*values)
    except pa.ArrowInvalid:
        small = pa.int8(), pa.int16()
        condition = (
            "BINARY_ARITHMETIC_OVERFLOW" if result in small and len(values) == 2 else "ARITHMETIC_OVERFLOW"
        )
        raise RowsFailed(condition, f"the result does not fit {text_of(result)}; try_ gives null") from None


def _refuse_zero(dividend: Values, divisor: Values, condition: str, why: str) -> None:
    # Beside null, a divisor does not count.
    refuse(pc.and_(pc.equal(divisor, pa.scalar(0, divisor.type)), pc.is_valid(dividend)), condition, why)


def _divide(result: pa.DataType, left: Values, right: Values) -> Values:
    _refuse_zero(left, right, "DIVIDE_BY_ZERO", "division by zero; try_divide gives null")
    if not pa.types.is_decimal(result):
        return pc.divide(left, right)
    return divided(result, left, right)


def _quotient(given: Types) -> Signature | None:
    found = _numbers(given)
    if found is None:
        return None
    if all(is_integer(kind) or pa.types.is_floating(kind) for kind in found):
        return Signature((pa.float64(), pa.float64()), pa.float64())
    return _judge(quotient_type)(given)


def _integral(given: Types) -> Signature | None:
    found = _numbers(given)
    if found is None or not all(map(is_integer, found)):
        return None
    return Signature((pa.int64(), pa.int64()), pa.int64())


def _div(result: pa.DataType, left: Values, right: Values) -> Values:
    _refuse_zero(left, right, "DIVIDE_BY_ZERO", "division by zero; try_divide gives null")
    return _checked(pc.divide_checked, result, left, _one_for_zero(right))


def _one_for_zero(divisor: Values) -> Values:
    return pc.if_else(pc.equal(divisor, pa.scalar(0, divisor.type)), pa.scalar(1, divisor.type), divisor)


def _remainder(result: pa.DataType, left: Values, right: Values) -> Values:
    _refuse_zero(left, right, "REMAINDER_BY_ZERO", "remainder of a division by zero; try_mod gives null")
    if pa.types.is_decimal(result):
        return remainder(result, left, right)
    return by_numpy(_rest)(result, left, right)


def _pmod(result: pa.DataType, left: Values, right: Values) -> Values:
    _refuse_zero(left, right, "REMAINDER_BY_ZERO", "remainder of a division by zero; try_mod gives null")
    if pa.types.is_decimal(result):
        return positive_remainder(result, left, right)
    return by_numpy(_positive_rest)(result, left, right)


def _rest(dividend: npt.NDArray[N], divisor: npt.NDArray[N]) -> npt.NDArray[N]:
    # A null's divisor is 0 here; the rest of the least integer by -1 is 0, as of all by -1.
    whole = np.issubdtype(divisor.dtype, np.integer)
    return np.fmod(dividend, np.where((divisor == 0) | (whole & (divisor == -1)), 1, divisor))


def _positive_rest(dividend: npt.NDArray[N], divisor: npt.NDArray[N]) -> npt.NDArray[N]:
    # The sum of a rest below 0 and the divisor wraps, as in Java.
    rest = _rest(dividend, divisor)
    return np.where(rest < 0, _rest(rest + divisor, divisor), rest)


def _moving(sign: int, kernel: Callable[..., Values]) -> Callable[..., Values]:
    def moving(result: pa.DataType, left: Values, right: Values) -> Values:
        times = pa.types.is_temporal(left.type) or pa.types.is_temporal(right.type)
        return moved(sign, result, left, right) if times else kernel(result, left, right)

    return moving


def _negative(result: pa.DataType, value: Values) -> Values:
    return _checked(pc.negate_checked, result, value)


def _abs(result: pa.DataType, value: Values) -> Values:
    return _checked(pc.abs_checked, result, value)


def _one_number(given: Types) -> Signature | None:
    if len(given) != 1:
        return None
    kind = pa.float64() if pa.types.is_string(given[0]) or pa.types.is_null(given[0]) else given[0]
    return Signature((kind,), kind) if is_numeric(kind) else None


def _register() -> None:
    pairs: dict[str, tuple[Judge, Callable[..., Values]]] = {
        "+": (
            either(_judge(sum_type), moved_judge(1)),
            _moving(1, _numbers_or_decimals(partial(summed, 1), pc.add_checked)),
        ),
        "-": (
            either(_judge(sum_type), moved_judge(-1)),
            _moving(-1, _numbers_or_decimals(partial(summed, -1), pc.subtract_checked)),
        ),
        "*": (_judge(product_type), _numbers_or_decimals(multiplied, pc.multiply_checked)),
        "/": (_quotient, _divide),
        "%": (_judge(remainder_type), _remainder),
        "pmod": (_judge(remainder_type), _pmod),
        "div": (_integral, _div),
    }
    for name, (judge, kernel) in pairs.items():
        add(Rule(name, FAMILY, judge, kernel, _PAIR, fails=True))
    add(Rule("negative", FAMILY, _one_number, _negative, "a number", fails=True))
    add(Rule("abs", FAMILY, _one_number, _abs, "a number", fails=True))


_register()
