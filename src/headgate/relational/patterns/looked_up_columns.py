"""Computes conditions and measures for many rows of many keys at once, with what each remembers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregates import Aggregate
from headgate.relational.aggregating.grouping import Grouping, accumulator_column, columns_of_parts, fields_of
from headgate.relational.evaluation import evaluate
from headgate.relational.patterns.navigation import LookedUp
from headgate.relational.patterns.remembered_rows import NO_ROW, Memories, Memory
from headgate.relational.resolved import Typed
from headgate.relational.rows import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s: TypeAlias = NDArray[np.int64]
    Take: TypeAlias = Callable[[Int64s], pa.RecordBatch]
    """Returns the columns of rows by their numbers."""

_ASKED: Final = "__asked"


class Asked:
    """Rows for which expressions are computed: `rows`, by number, each with what it remembers.

    `take` returns rows by their numbers, `width` is the number of their columns; looked-up columns follow.
    """

    def __init__(
        self,
        take: Take,
        width: int,
        rows: Int64s,
        looked_up: Sequence[LookedUp],
        memories: Memories,
        remembered: Sequence[Memory],
    ) -> None:
        self._take, self._width, self._looked_up = take, width, looked_up
        self._rows, self._memories, self._remembered = rows, memories, remembered
        self._taken: pa.RecordBatch | None = None
        self.num_rows = len(rows)

    def values(self, expression: Typed) -> pa.Array:
        """Return the values of an expression; raises what `evaluate` raises."""
        return evaluate(expression, Rows(cast("Rows", self)))

    def column(self, index: int) -> pa.Array:
        """Return a column of the rows, or a looked-up one; called by the evaluation."""
        if index < self._width:
            if self._taken is None:
                self._taken = self._take(self._rows)
            return self._taken.column(index)
        each = self._looked_up[index - self._width]
        return self._picked(each, each.value) if each.value is not None else self._aggregated(each)

    def _picked(self, each: LookedUp, value: Typed) -> pa.Array:
        find = self._memories.first if each.kind == "first" else self._memories.last
        found = np.array([find(one, each.variable, each.offset) for one in self._remembered], np.int64)
        there = found != NO_ROW
        values = evaluate(value, self._take(found[there]))
        return values if there.all() else values.take(pa.array(np.cumsum(there) - 1, mask=~there))

    def _aggregated(self, each: LookedUp) -> pa.Array:
        assert each.aggregate is not None  # it has no value
        members = [self._memories.rows(one, each.variable) for one in self._remembered]
        counts = np.array([len(rows) for rows in members], np.int64)
        flat = np.array([row for rows in members for row in rows], np.int64)
        groups, results = _results(
            each.aggregate, self._take(flat), np.repeat(np.arange(len(counts)), counts)
        )
        places = np.full(len(counts), NO_ROW, np.int64)
        places[groups] = np.arange(len(groups))
        found = results.take(pa.array(places, mask=places == NO_ROW))
        return found if each.aggregate.nullable else pc.fill_null(found, 0)  # of no rows: a count


def _results(aggregate: Aggregate, rows: pa.RecordBatch, groups: Int64s) -> tuple[Int64s, pa.Array]:
    parts = aggregate.parts
    grouping = Grouping((_ASKED,), tuple(columns_of_parts(aggregate.name, parts.accumulators)))
    values = [evaluate(argument, rows) for argument in aggregate.arguments]
    arrays = {_ASKED: pa.array(groups)}
    for name, one in grouping.columns:
        names = [column for column, _ in fields_of(name, one)]
        arrays |= zip(names, one.prepared(*values), strict=False)  # a count of rows needs none
    found = grouping.of_rows(pa.table(arrays))
    inputs = [
        found.column(accumulator_column(aggregate.name, name)).combine_chunks() for name, _ in parts.fields
    ]
    results = parts.finish(parts.result, *inputs)
    if isinstance(results, pa.Scalar):
        results = pa.repeat(results, found.num_rows)
    return found.column(_ASKED).to_numpy(), results
