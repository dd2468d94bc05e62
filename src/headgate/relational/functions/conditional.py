"""Functions that choose between their arguments: `coalesce`, `nullif`, `nanvl`, `greatest`, `least`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.column_types import common_type
from headgate.relational.functions.comparison import _compare
from headgate.relational.resolved import Values
from headgate.relational.rules import Judge, Rule, Signature, Types, add

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
    found = _common(2, 2)(given)
    return found and found._replace(nullable=True)


def _null_if(result: pa.DataType, value: Values, other: Values) -> Values:
    same = pc.fill_null(_compare(pc.equal, "=", pa.bool_(), value, other), False)
    return pc.if_else(same, pa.scalar(None, result), value)


def _nanvl(given: Types) -> Signature | None:
    found = _common(2, 2)(given)
    if found is None or not (pa.types.is_floating(found.result) or pa.types.is_null(found.result)):
        return None
    return found


def _nan_value(_result: pa.DataType, value: Values, other: Values) -> Values:
    return pc.if_else(pc.is_nan(value), other, value)


def _extreme(comparison: str, kernel: Callable[..., Values], _result: pa.DataType, *values: Values) -> Values:
    """Return the greatest or least of the values that are not null."""

    def better(one: Values, other: Values) -> Values:
        takes_one = _compare(kernel, comparison, pa.bool_(), one, other)
        chosen = pc.if_else(pc.fill_null(takes_one, False), one, other)
        return pc.if_else(pc.is_null(one), other, pc.if_else(pc.is_null(other), one, chosen))

    return reduce(better, values)


def _register() -> None:
    several = "values of a type in common"
    # `coalesce` is evaluated argument by argument (see `evaluation.py`), so its kernel sees one at a time.
    add(Rule("coalesce", FAMILY, _common(1), lambda _, *values: pc.coalesce(*values), several))
    add(Rule("nullif", FAMILY, _nullif, _null_if, f"two {several}"))
    add(Rule("nanvl", FAMILY, _nanvl, _nan_value, "two doubles"))
    add(Rule("greatest", FAMILY, _common(2), partial(_extreme, ">", pc.greater), f"two or more {several}"))
    add(Rule("least", FAMILY, _common(2), partial(_extreme, "<", pc.less), f"two or more {several}"))


_register()
