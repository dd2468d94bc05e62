"""Finds the conditions of a table that its source can test: comparisons of a column with constants.

A record that fails one of them is dropped by the table's first filters in any case, and nothing that comes
before it in these filters could have failed or called the program. Floats are left to the filters: NaN and
-0.0 have no place in the bounds by which sources leave records out.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final, TypeAlias

import pyarrow as pa

from headgate.relational.casts import cast_values
from headgate.relational.column_tests import ColumnTest, Comparison, Known
from headgate.relational.passes.fused_steps import AnyStep, Step
from headgate.relational.resolved import Apply, Column, Constant, Conversion, Typed, with_inner
from headgate.relational.rules import RowsFailed
from headgate.relational.spark_types import LOCAL_TIMESTAMP, TIMESTAMP, is_integer

_TURNED: Final[dict[str, Comparison]] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Comparison -> what it is with its two sides exchanged."""

_TESTED: Final = (pa.bool_(), pa.string(), pa.binary(), pa.date32(), TIMESTAMP, LOCAL_TIMESTAMP)
"""The types of columns that are tested, beside integers and decimals."""

_Names: TypeAlias = "Sequence[str | None]"
"""For each column of a step's input, the source's column that it is; None: it is computed."""


def conditions_for_source(steps: Sequence[AnyStep]) -> tuple[ColumnTest, ...]:
    """Return the conditions that every record of the source passes that comes out of the steps' filters.

    `steps` come directly after the source. A condition counts only if no earlier one, and nothing computed
    before it, may fail: a record at which the job fails must not be left out.
    """
    found: list[ColumnTest] = []
    names: _Names = list(steps[0].reads.names) if steps else []
    for step in steps:
        if not isinstance(step, Step):
            break
        for condition in map(_with_known_constants, step.conditions):
            found += _tests(condition, names)
            if condition.may_fail:
                return tuple(found)
        if any(each.may_fail for each in step.columns):
            break
        names = [names[each.index] if isinstance(each, Column) else None for each in step.columns]
    return tuple(dict.fromkeys(found))


def _with_known_constants(expression: Typed) -> Typed:
    # A cast of a constant fails for all rows or for none: F.col("day") >= "2024-05-06" does not.
    found = with_inner(expression, tuple(map(_with_known_constants, expression.inner)))
    if not isinstance(found, Conversion) or not isinstance(found.child, Constant):
        return found
    try:
        value = cast_values(found.child.value, found.type, found.strict)
    except RowsFailed:
        return found
    return Constant(found.type, found.nullable, value) if isinstance(value, pa.Scalar) else found


def _tests(condition: Typed, names: _Names) -> list[ColumnTest]:
    found = []
    parts = _conjuncts(condition)
    for place, part in enumerate(parts):
        if part.may_fail:
            break
        # Of null the rest of the condition is evaluated, too, so the source must not leave it out.
        null_matters = any(later.may_fail for later in parts[place + 1 :])
        test = _test(part, names, null_matters)
        found += [] if test is None else [test]
    return found


def _conjuncts(condition: Typed) -> list[Typed]:
    if isinstance(condition, Apply) and condition.function == "and":
        return [each for part in condition.arguments for each in _conjuncts(part)]
    return [condition]


def _test(part: Typed, names: _Names, or_null: bool) -> ColumnTest | None:
    match part:
        case Column():
            return _made(part, names, "=", [Constant(part.type, False, pa.scalar(True))], or_null)
        case Apply(function="not", arguments=(Column() as column,)):
            return _made(column, names, "=", [Constant(column.type, False, pa.scalar(False))], or_null)
        case Apply(function="isnull", arguments=(Column() as column,)):
            return _made(column, names, "is null", [], False)
        case Apply(function="isnotnull", arguments=(Column() as column,)):
            return _made(column, names, "is not null", [], False)
        case Apply(function="in", arguments=(first, *options)):
            return _in(first, options, names, or_null)
        case Apply(function=comparison, arguments=(first, second)) if comparison in _TURNED:
            if isinstance(first, Constant):
                return _made(second, names, _TURNED[comparison], [first], or_null)
            return _made(first, names, _TURNED[_TURNED[comparison]], [second], or_null)
    return None


def _in(first: Typed, options: Sequence[Typed], names: _Names, or_null: bool) -> ColumnTest | None:
    known = [each for each in options if not (isinstance(each, Constant) and not each.value.is_valid)]
    if or_null and len(known) < len(options):
        return None  # beside null among the options no value is surely different from all of them
    return _made(first, names, "in", known, or_null)


def _made(
    tested: Typed, names: _Names, comparison: Comparison, options: Sequence[Typed], or_null: bool
) -> ColumnTest | None:
    column = tested.child if isinstance(tested, Conversion) and _is_exact(tested) else tested
    name = names[column.index] if isinstance(column, Column) else None
    kind = column.type
    if name is None or not (kind in _TESTED or is_integer(kind) or pa.types.is_decimal(kind)):
        return None
    values = [_value(each, kind) for each in options]
    known = tuple(each for each in values if each is not None)
    return ColumnTest(name, kind, comparison, known, or_null) if len(known) == len(values) else None


def _is_exact(conversion: Conversion) -> bool:
    # A safe cast among integers and decimals keeps all values, and so their order.
    both = (conversion.child.type, conversion.type)
    return conversion.safe and all(is_integer(each) or pa.types.is_decimal(each) for each in both)


def _value(option: Typed, kind: pa.DataType) -> Known | None:
    # None: it is no constant, is null, or has no exact value of the column's type in Python.
    if not isinstance(option, Constant):
        return None
    try:
        value: Known | None = option.value.as_py()
    except (OverflowError, ValueError):  # a time beyond the years of Python
        return None
    if is_integer(kind) and isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else None
    return value
