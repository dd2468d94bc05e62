"""Evaluates resolved expressions for the rows of a record batch, by the kernels of the registry.

A part that may fail, or is costly, is evaluated only for rows that ask for it: behind a condition, behind the
first operand of `and` and `or`, and behind the first arguments of `coalesce`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.casts import cast_values
from headgate.relational.function_families import load_families
from headgate.relational.functions.kernels import any_true
from headgate.relational.functions.strings.pieces import piece_of
from headgate.relational.python_calls import called_by_row
from headgate.relational.resolved import (
    Apply,
    Choice,
    Column,
    Constant,
    Conversion,
    Member,
    PieceOf,
    PythonApply,
    Shared,
    Typed,
    Values,
    WindowsOf,
    parts_of,
)
from headgate.relational.rows import Rows
from headgate.relational.rules import RULES, RowsFailed
from headgate.relational.windows_of import windows_of

Wanted: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
"""A boolean for each row: whether an expression is evaluated for it."""


def evaluate(expression: Typed, batch: pa.RecordBatch | Rows) -> pa.Array:
    """Return the values of an expression for all rows of a batch, or for the rows of a `Rows` object.

    Pass one `Rows` object for several expressions, and the parts that they share are computed once.

    Raises:
        RowsFailed: a value cannot be computed, such as 1 / 0; :func:`first_failing` finds its row.
        PythonFailed: a function of the program raised, or returned a value that does not fit its type.
    """
    load_families()
    found = _values(expression, batch if isinstance(batch, Rows) else Rows(batch))
    if isinstance(found, pa.Scalar):
        # Arrow repeats no array or map zero times.
        return pa.repeat(found, batch.num_rows) if batch.num_rows else pa.array([], found.type)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def first_failing(expression: Typed, batch: pa.RecordBatch) -> int:
    """Return the index, from 0, of the first row for which evaluating `expression` raises RowsFailed.
    At least one row must fail. The row is found by halving, so the expression is evaluated several times.
    """
    low, high = 0, batch.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        try:
            evaluate(expression, batch.slice(low, middle - low))
            low = middle
        except RowsFailed:
            high = middle
    return low


def _values(expression: Typed, batch: Rows) -> Values:
    return _KINDS[type(expression)](expression, batch)


def _column(expression: Column, batch: Rows) -> Values:
    return batch.column(expression.index)


def _constant(expression: Constant, _batch: Rows) -> Values:
    return expression.value


def _member(expression: Member, batch: Rows) -> Values:
    return pc.struct_field(_values(expression.child, batch), expression.name)


def _windows(expression: WindowsOf, batch: Rows) -> Values:
    return windows_of(expression, _values(expression.child, batch), batch.num_rows)


def _conversion(expression: Conversion, batch: Rows) -> Values:
    return cast_values(_values(expression.child, batch), expression.type, expression.strict)


def _apply(expression: Apply, batch: Rows) -> Values:
    if expression.function in _LAZY and any(_by_need(part) for part in expression.arguments[1:]):
        return _LAZY[expression.function](expression, batch)
    values = [_values(argument, batch) for argument in expression.arguments]
    kernel = RULES[expression.function].kernel
    if not expression.tolerant:
        return kernel(expression.type, *values)
    return _tolerant(kernel, expression.type, values, batch.num_rows)


def _tolerant(kernel: Callable[..., Values], kind: pa.DataType, values: list[Values], rows: int) -> Values:
    # Halves of what raises are tried, down to single rows, which get null.
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


def _python(expression: PythonApply, batch: Rows) -> Values:
    arguments = [evaluate(argument, batch).to_pylist() for argument in expression.arguments]
    rows = zip(*arguments, strict=True) if arguments else [()] * batch.num_rows
    return called_by_row(expression, rows)


# -- parts that are evaluated for some rows only


def _by_need(expression: Typed) -> bool:
    costly = (isinstance(part, Apply) and RULES[part.function].costly for part in parts_of(expression))
    return expression.may_fail or any(costly)


def _for_rows(expression: Typed, batch: Rows, wanted: Wanted) -> Values:
    if not _by_need(expression) or wanted.all():
        return _without_nesting(expression, batch)
    if not wanted.any():
        # Not even a constant that cannot be cast fails where no row asks for it.
        return pa.nulls(batch.num_rows, expression.type)
    part = evaluate(expression, batch.some(wanted))
    return part.take(pa.array(np.cumsum(wanted) - 1, mask=~wanted))


def _without_nesting(expression: Typed, batch: Rows) -> Values:
    # Nested values must be arrays: Arrow cannot choose between nested scalars.
    return (evaluate if pa.types.is_nested(expression.type) else _values)(expression, batch)


def _mask(values: Values, rows: int, of_null: bool) -> Wanted:
    if isinstance(values, pa.Scalar):
        known = values.as_py()
        return np.full(rows, of_null if known is None else known)
    filled: Wanted = pc.fill_null(values, of_null).to_numpy(zero_copy_only=False)
    return filled


def _choice(expression: Choice, batch: Rows) -> Values:
    values = [*(value for _, value in expression.branches), expression.otherwise]
    if not any(_by_need(part) for part in expression.inner[1:]):
        conditions = [_values(condition, batch) for condition, _ in expression.branches]
        return _picked(conditions, [_values(value, batch) for value in values])
    left, found = np.ones(batch.num_rows, np.bool_), cast("Values | None", None)
    for condition, value in expression.branches:
        met = _mask(_for_rows(condition, batch, left), batch.num_rows, False) & left
        found = _merged(found, _for_rows(value, batch, met), met)
        left &= ~met
    return _merged(found, _for_rows(expression.otherwise, batch, left), left)


def _shared(expression: Shared, batch: Rows) -> Values:
    found = batch.known(expression.slot)
    if found is None:
        found = batch.computed[expression.slot] = _values(expression.child, batch)
    return found


def _piece(expression: PieceOf, batch: Rows) -> Values:
    return piece_of(_values(expression.child, batch), expression.number)


def _picked(conditions: list[Values], values: list[Values]) -> Values:
    found = values[-1]
    for condition, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        if any_true(condition):
            found = pc.if_else(pc.fill_null(condition, False), value, found)
    return found


def _merged(found: Values | None, more: Values, rows: Wanted) -> Values:
    return more if found is None else pc.if_else(pa.array(rows), more, found)


def _lazy_and(expression: Apply, batch: Rows) -> Values:
    first, second = expression.arguments
    known = evaluate(first, batch)
    return pc.and_kleene(known, _for_rows(second, batch, _mask(known, batch.num_rows, True)))


def _lazy_or(expression: Apply, batch: Rows) -> Values:
    first, second = expression.arguments
    known = evaluate(first, batch)
    return pc.or_kleene(known, _for_rows(second, batch, ~_mask(known, batch.num_rows, False)))


def _lazy_coalesce(expression: Apply, batch: Rows) -> Values:
    def or_next(found: pa.Array, argument: Typed) -> pa.Array:
        missing = _mask(pc.is_null(found), batch.num_rows, True)
        return pc.coalesce(found, _for_rows(argument, batch, missing))

    first, *rest = expression.arguments
    return reduce(or_next, rest, evaluate(first, batch))


_LAZY: Final[dict[str, Callable[[Apply, Rows], Values]]] = {
    "and": _lazy_and,
    "or": _lazy_or,
    "coalesce": _lazy_coalesce,
}
_KINDS: Final[dict[type[Typed], Callable[[Any, Rows], Values]]] = {
    Column: _column,
    Constant: _constant,
    Member: _member,
    Conversion: _conversion,
    Apply: _apply,
    Choice: _choice,
    WindowsOf: _windows,
    PieceOf: _piece,
    Shared: _shared,
    PythonApply: _python,
}
