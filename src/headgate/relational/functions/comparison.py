"""Rules of comparisons: `= <> < <= > >= <=>`, `in`, tests for null. NaN equals itself and is the largest."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.resolved import Values
from headgate.relational.rules import Rule, Signature, Types, add
from headgate.relational.spark_types import common_type

FAMILY: Final = "comparison"
_TWO: Final = "two values of a type in common"


def _pair(given: Types) -> Signature | None:
    if len(given) != 2:
        return None
    kind = common_type(*given)
    if kind is None or pa.types.is_nested(kind):
        return None
    return Signature((kind, kind), pa.bool_())


def _null_safe(given: Types) -> Signature | None:
    found = _pair(given)
    return found and found._replace(nullable=False)


def _compare(
    kernel: Callable[..., Values], nan: str, _result: pa.DataType, left: Values, right: Values
) -> Values:
    # `nan` is the comparison whose rule holds where a value is NaN.
    found = kernel(left, right)
    if not pa.types.is_floating(left.type):
        return found
    a, b = pc.is_nan(left), pc.is_nan(right)
    by_nan = _NAN_RULES[nan](a, b)
    return pc.if_else(pc.or_(a, b), by_nan, found)


_NAN_RULES: Final[dict[str, Callable[[Values, Values], Values]]] = {
    "=": lambda a, b: pc.and_(a, b),
    "<>": lambda a, b: pc.invert(pc.and_(a, b)),
    "<": lambda a, b: pc.and_(pc.invert(a), b),
    "<=": lambda _a, b: b,
    ">": lambda a, b: pc.and_(a, pc.invert(b)),
    ">=": lambda a, _b: a,
}
"""For each comparison, its result where the first, the second or both values are NaN."""


def _equal_null_safe(_result: pa.DataType, left: Values, right: Values) -> Values:
    same = _compare(pc.equal, "=", pa.bool_(), left, right)
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.if_else(pc.is_null(same), both, same)


def _is_null(_result: pa.DataType, value: Values) -> Values:
    return pc.is_null(value)


def _is_not_null(_result: pa.DataType, value: Values) -> Values:
    return pc.is_valid(value)


def _is_nan(_result: pa.DataType, value: Values) -> Values:
    return pc.fill_null(pc.is_nan(value), False)


def _anything(given: Types) -> Signature | None:
    return Signature(given, pa.bool_(), nullable=False) if len(given) == 1 else None


def _one_float(given: Types) -> Signature | None:
    if len(given) != 1 or not (pa.types.is_floating(given[0]) or pa.types.is_null(given[0])):
        return None
    kind = pa.float64() if pa.types.is_null(given[0]) else given[0]
    return Signature((kind,), pa.bool_(), nullable=False)


def _in(given: Types) -> Signature | None:
    kind: pa.DataType | None = given[0] if len(given) > 1 else None
    for other in given[1:]:
        kind = None if kind is None else common_type(kind, other)
    return None if kind is None or pa.types.is_nested(kind) else Signature((kind,) * len(given), pa.bool_())


def _is_in(_result: pa.DataType, value: Values, *options: Values) -> Values:
    found = _compare(pc.equal, "=", pa.bool_(), value, options[0])
    for option in options[1:]:
        found = pc.or_kleene(found, _compare(pc.equal, "=", pa.bool_(), value, option))
    return found


def _register() -> None:
    kernels = {
        "=": pc.equal,
        "<>": pc.not_equal,
        "<": pc.less,
        "<=": pc.less_equal,
        ">": pc.greater,
        ">=": pc.greater_equal,
    }
    for name, kernel in kernels.items():
        add(Rule(name, FAMILY, _pair, partial(_compare, kernel, name), _TWO))
    add(Rule("<=>", FAMILY, _null_safe, _equal_null_safe, _TWO))
    add(Rule("in", FAMILY, _in, _is_in, "a value, and values of a type in common"))
    add(Rule("isnull", FAMILY, _anything, _is_null, "a value"))
    add(Rule("isnotnull", FAMILY, _anything, _is_not_null, "a value"))
    add(Rule("isnan", FAMILY, _one_float, _is_nan, "a float or double"))


_register()
