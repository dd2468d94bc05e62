"""Sets of rows: how many of each come out follows from how many there are on either side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.relational.changes import Change
from headgate.relational.relations import Copies
from headgate.runtime.worker.operators.columns.updating.running_aggregate import RunningAggregateOperator
from headgate.runtime.worker.operators.columns.updating.running_groups import Changed

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


def copies_of(copies: Copies, left: Int64s, right: Int64s) -> Int64s:
    """Return how often a row comes out that is on the left side and on the right side so often."""
    match copies:
        case "distinct":
            return (left > 0).astype(np.int64)
        case "intersect":
            return ((left > 0) & (right > 0)).astype(np.int64)
        case "intersect_all":
            return np.maximum(np.minimum(left, right), 0)
        case "subtract":
            return ((left > 0) & (right <= 0)).astype(np.int64)
    return np.maximum(left - np.maximum(right, 0), 0)


class CountedRowsOperator(RunningAggregateOperator):
    """Keeps of each row how often it is on either side, and sends it as often as the operation says."""

    def _between(self, changed: Changed) -> pa.RecordBatch:
        assert self._plan.copies is not None
        after = self._sides(changed.after)
        before = [np.zeros(changed.after.num_rows, np.int64) for _ in after]
        for mine, known in zip(before, self._sides(changed.before), strict=True):
            mine[changed.known] = known
        more = copies_of(self._plan.copies, *after) - copies_of(self._plan.copies, *before)
        gone = pa.array((after[0] == 0) & (after[1] == 0))
        self._groups_kept.forget(changed.after.filter(gone))
        # Rows that go are sent before those that come.
        order = np.argsort(more > 0, kind="stable")
        places = np.repeat(order, np.abs(more[order]))
        kinds = np.where(more[places] > 0, Change.INSERT, Change.DELETE).astype(np.int8)
        shown = changed.after.select(self._shown).take(pa.array(places))
        columns = [column.combine_chunks() for column in shown.columns]
        return pa.RecordBatch.from_arrays([*columns, pa.array(kinds)], schema=self._gives)

    def _sides(self, accumulators: pa.Table) -> list[Int64s]:
        return [np.asarray(each.fill_null(0)) for each in self._answers(accumulators)]
