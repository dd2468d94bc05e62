"""Evaluates resolved expressions for the rows of a record batch, by the kernels of the registry.

A part that may fail is evaluated only for rows that ask for it: behind a condition, behind the first operand
of `and` and `or`, and behind the first arguments of `coalesce`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.casts import cast_values
from headgate.relational.function_families import load_families
from headgate.relational.key_values import key_values
from headgate.relational.python_calls import called_by_row
from headgate.relational.resolved import (
    Apply,
    Choice,
    Column,
    Constant,
    Conversion,
    Key,
    Member,
    PythonApply,
    Typed,
    Values,
    WindowsOf,
)
from headgate.relational.rules import RULES, RowsFailed
from headgate.relational.windows_of import windows_of


def evaluate(expression: Typed, batch: pa.RecordBatch) -> pa.Array:
    """Return the values of an expression for all rows of a batch.

    Raises:
        RowsFailed: a value cannot be computed, such as 1 / 0; :func:`first_failing` finds its row.
    """
    load_families()
    found = _values(expression, batch)
    if isinstance(found, pa.Scalar):
        # Arrow repeats no array or map zero times.
        return pa.repeat(found, batch.num_rows) if batch.num_rows else pa.array([], found.type)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def first_failing(expression: Typed, batch: pa.RecordBatch) -> int:
    """Return the first row for which an expression raises, given that it raises for the batch."""
    low, high = 0, batch.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        try:
            evaluate(expression, batch.slice(low, middle - low))
            low = middle
        except RowsFailed:
            high = middle
    return low


def _values(expression: Typed, batch: pa.RecordBatch) -> Values:
    return _KINDS[type(expression)](expression, batch)


def _column(expression: Column, batch: pa.RecordBatch) -> Values:
    return batch.column(expression.index)


def _constant(expression: Constant, _batch: pa.RecordBatch) -> Values:
    return expression.value


def _member(expression: Member, batch: pa.RecordBatch) -> Values:
    return pc.struct_field(_values(expression.child, batch), expression.name)


def _key(expression: Key, batch: pa.RecordBatch) -> Values:
    return key_values(_values(expression.child, batch))


def _windows(expression: WindowsOf, batch: pa.RecordBatch) -> Values:
    return windows_of(expression, _values(expression.child, batch), batch.num_rows)


def _conversion(expression: Conversion, batch: pa.RecordBatch) -> Values:
    return cast_values(_values(expression.child, batch), expression.type, expression.strict)


def _apply(expression: Apply, batch: pa.RecordBatch) -> Values:
    if expression.function in _LAZY and any(part.may_fail for part in expression.arguments[1:]):
        return _LAZY[expression.function](expression, batch)
    values = [_values(argument, batch) for argument in expression.arguments]
    kernel = RULES[expression.function].kernel
    if not expression.tolerant:
        return kernel(expression.type, *values)
    return _tolerant(kernel, expression.type, values, batch.num_rows)


def _tolerant(kernel: Callable[..., Values], kind: pa.DataType, values: list[Values], rows: int) -> Values:
    """Call a kernel so that a row for which it raises gets null: halves of a part that raises are tried."""
    try:
        return kernel(kind, *values)
    except RowsFailed:
        if rows <= 1 or all(isinstance(value, pa.Scalar) for value in values):
            return pa.scalar(None, kind)
    half = rows // 2
    found = []
    for start, stop in ((0, half), (half, rows)):
        part = [v if isinstance(v, pa.Scalar) else v.slice(start, stop - start) for v in values]
        got = _tolerant(kernel, kind, part, stop - start)
        found.append(pa.repeat(got, stop - start) if isinstance(got, pa.Scalar) else got)
    return pa.concat_arrays(found)


def _python(expression: PythonApply, batch: pa.RecordBatch) -> Values:
    arguments = [evaluate(argument, batch).to_pylist() for argument in expression.arguments]
    rows = zip(*arguments, strict=True) if arguments else [()] * batch.num_rows
    return called_by_row(expression, rows)


# -- parts that are evaluated for some rows only


def _for_rows(expression: Typed, batch: pa.RecordBatch, wanted: np.ndarray[Any, Any]) -> pa.Array:
    """Return the values of an expression for the rows that are `wanted`, and null for the others."""
    if wanted.all():
        return evaluate(expression, batch)
    places = np.flatnonzero(wanted)
    part = evaluate(expression, batch.take(pa.array(places)))
    back = np.full(batch.num_rows, -1, np.int64)
    back[places] = np.arange(len(places))
    return part.take(pa.array(back, mask=back < 0))


def _mask(values: Values, rows: int, of_null: bool) -> np.ndarray[Any, Any]:
    """Return truth values as a numpy array, with `of_null` for null."""
    if isinstance(values, pa.Scalar):
        known = values.as_py()
        return np.full(rows, of_null if known is None else known)
    filled: np.ndarray[Any, Any] = pc.fill_null(values, of_null).to_numpy(zero_copy_only=False)
    return filled


def _choice(expression: Choice, batch: pa.RecordBatch) -> Values:
    values = [*(value for _, value in expression.branches), expression.otherwise]
    if not any(part.may_fail for part in expression.inner[1:]):
        conditions = [_values(condition, batch) for condition, _ in expression.branches]
        return _picked(conditions, [_values(value, batch) for value in values])
    left, found = np.ones(batch.num_rows, np.bool_), None
    for condition, value in expression.branches:
        met = _mask(_for_rows(condition, batch, left), batch.num_rows, False) & left
        found = _merged(found, _for_rows(value, batch, met), met)
        left &= ~met
    return _merged(found, _for_rows(expression.otherwise, batch, left), left)


def _picked(conditions: list[Values], values: list[Values]) -> Values:
    found = values[-1]
    for condition, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        found = pc.if_else(pc.fill_null(condition, False), value, found)
    return found


def _merged(found: pa.Array | None, more: pa.Array, rows: np.ndarray[Any, Any]) -> pa.Array:
    return more if found is None else pc.if_else(pa.array(rows), more, found)


def _lazy_and(expression: Apply, batch: pa.RecordBatch) -> Values:
    first, second = expression.arguments
    known = evaluate(first, batch)
    return pc.and_kleene(known, _for_rows(second, batch, _mask(known, batch.num_rows, True)))


def _lazy_or(expression: Apply, batch: pa.RecordBatch) -> Values:
    first, second = expression.arguments
    known = evaluate(first, batch)
    return pc.or_kleene(known, _for_rows(second, batch, ~_mask(known, batch.num_rows, False)))


def _lazy_coalesce(expression: Apply, batch: pa.RecordBatch) -> Values:
    def or_next(found: pa.Array, argument: Typed) -> pa.Array:
        missing = _mask(pc.is_null(found), batch.num_rows, True)
        return pc.coalesce(found, _for_rows(argument, batch, missing))

    first, *rest = expression.arguments
    return reduce(or_next, rest, evaluate(first, batch))


_LAZY: Final[dict[str, Callable[[Apply, pa.RecordBatch], Values]]] = {
    "and": _lazy_and,
    "or": _lazy_or,
    "coalesce": _lazy_coalesce,
}
_KINDS: Final[dict[type[Typed], Callable[[Any, pa.RecordBatch], Values]]] = {
    Column: _column,
    Constant: _constant,
    Member: _member,
    Conversion: _conversion,
    Key: _key,
    Apply: _apply,
    Choice: _choice,
    WindowsOf: _windows,
    PythonApply: _python,
}
