"""Rules of functions that choose between arguments: `coalesce`, `if`, `nvl2`, `nullif`, `greatest`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.comparison import _compare
from headgate.relational.functions.kernels import refuse
from headgate.relational.resolved import Apply, Choice, Typed, Values
from headgate.relational.rules import Judge, Rule, Signature, Types, add, exactly
from headgate.relational.spark_types import common_type, is_numeric

FAMILY: Final = "conditional"


def _common(least: int, most: int | None = None) -> Judge:
    def judge(given: Types) -> Signature | None:
        if len(given) < least or (most is not None and len(given) > most):
            return None
        kind: pa.DataType | None = given[0]
        for other in given[1:]:
            kind = None if kind is None else common_type(kind, other)
        return None if kind is None else Signature((kind,) * len(given), kind)

    return judge


def _nullif(given: Types) -> Signature | None:
    # They are compared in a type in common, but the result is the first value, of its own type.
    return Signature(given, given[0], nullable=True) if _common(2, 2)(given) else None


def _null_if(result: pa.DataType, value: Values, other: Values) -> Values:
    from headgate.relational.casts import cast_values

    kind = common_type(value.type, other.type)
    pair = (cast_values(each, kind, strict=True) for each in (value, other))
    same = pc.fill_null(_compare(pc.equal, "=", pa.bool_(), *pair), False)
    return pc.if_else(same, pa.scalar(None, result), value)


def _nanvl(given: Types) -> Signature | None:
    found = _common(2, 2)(given)
    if found is None or not (pa.types.is_floating(found.result) or pa.types.is_null(found.result)):
        return None
    return found


def _nan_value(_result: pa.DataType, value: Values, other: Values) -> Values:
    return pc.if_else(pc.is_nan(value), other, value)


def _extreme(comparison: str, kernel: Callable[..., Values], _result: pa.DataType, *values: Values) -> Values:
    # Null only where all values are null.
    def better(one: Values, other: Values) -> Values:
        takes_one = _compare(kernel, comparison, pa.bool_(), one, other)
        chosen = pc.if_else(pc.fill_null(takes_one, False), one, other)
        return pc.if_else(pc.is_null(one), other, pc.if_else(pc.is_null(other), one, chosen))

    return reduce(better, values)


# -- by a condition


def _after(first: pa.DataType | None) -> Judge:
    def judge(given: Types) -> Signature | None:
        found = _common(2, 2)(given[1:])
        if found is None or (first is not None and given[0] not in (first, pa.null())):
            return None
        return Signature((first or given[0], *found.arguments), found.result)

    return judge


def _if(_result: pa.DataType, condition: Values, value: Values, other: Values) -> Values:
    return pc.if_else(pc.fill_null(condition, False), value, other)


def _nvl2(_result: pa.DataType, tested: Values, value: Values, other: Values) -> Values:
    return pc.if_else(pc.is_valid(tested), value, other)


def _choice(parts: Sequence[Typed]) -> Typed:
    condition, value, other = parts
    return Choice(value.type, value.nullable or other.nullable, ((condition, value),), other)


def _nvl2_choice(parts: Sequence[Typed]) -> Typed:
    return _choice((Apply(pa.bool_(), False, "isnotnull", (parts[0],)), *parts[1:]))


# -- nulls and zeros


def _number(given: Types) -> Signature | None:
    known = len(given) == 1 and is_numeric(given[0])
    return Signature(given, given[0], nullable=True) if known else None


def _null_if_zero(result: pa.DataType, value: Values) -> Values:
    return _null_if(result, value, pa.scalar(0, value.type))


def _zeroed(given: Types) -> Signature | None:
    # The zero is an `int`, with which a decimal may become wider.
    kind = common_type(given[0], pa.int32()) if _number(given) else None
    return None if kind is None else Signature((kind,), kind, nullable=False)


def _zero_if_null(result: pa.DataType, value: Values) -> Values:
    return pc.fill_null(value, pa.scalar(0, result))


def _assert_true(result: pa.DataType, condition: Values, message: Values | None = None) -> Values:
    wrong = pc.invert(pc.fill_null(condition, False))
    text = message.as_py() if isinstance(message, pa.Scalar) else None
    refuse(wrong, "USER_RAISED_EXCEPTION", text or "a condition of assert_true() does not hold")
    return pa.scalar(None, result) if isinstance(condition, pa.Scalar) else pa.nulls(len(condition), result)


def _asserted(given: Types) -> Signature | None:
    return (
        exactly((pa.bool_(), pa.string())[: len(given)], pa.null(), nullable=True)(given) if given else None
    )


def _register() -> None:
    several = "values of a type in common"
    # `coalesce` is evaluated argument by argument (see `evaluation.py`), so its kernel sees one at a time.
    add(Rule("coalesce", FAMILY, _common(1), lambda _, *values: pc.coalesce(*values), several))
    add(Rule("nullif", FAMILY, _nullif, _null_if, f"two {several}", fails=True))
    add(Rule("nanvl", FAMILY, _nanvl, _nan_value, "two doubles"))
    takes = "a condition and two values of a type in common"
    add(Rule("if", FAMILY, _after(pa.bool_()), _if, takes, choice=_choice))
    add(
        Rule("nvl2", FAMILY, _after(None), _nvl2, "a value, and two of a type in common", choice=_nvl2_choice)
    )
    add(Rule("nullifzero", FAMILY, _number, _null_if_zero, "a number"))
    add(Rule("zeroifnull", FAMILY, _zeroed, _zero_if_null, "a number"))
    add(
        Rule(
            "assert_true",
            FAMILY,
            _asserted,
            _assert_true,
            "a condition, and a message or nothing",
            fails=True,
        )
    )
    add(Rule("greatest", FAMILY, _common(2), partial(_extreme, ">", pc.greater), f"two or more {several}"))
    add(Rule("least", FAMILY, _common(2), partial(_extreme, "<", pc.less), f"two or more {several}"))


_register()
