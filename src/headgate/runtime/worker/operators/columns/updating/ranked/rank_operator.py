"""The first rows of each key in some order: before the exchange within a batch, after it of all that came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.api.tables.row_state import FIRST, rows_kept
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.changes import CHANGE, Change
from headgate.relational.relations import Rank
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.keys_checked import checked_keys
from headgate.runtime.worker.operators.columns.row_columns import columns_of
from headgate.runtime.worker.operators.columns.updating.answering_operator import AnsweringOperator
from headgate.runtime.worker.operators.columns.updating.by_key.packed_sort import key_integers
from headgate.runtime.worker.operators.columns.updating.ranked.ranked_rows import RankedRows
from headgate.runtime.worker.operators.columns.updating.ranked.repeated_columns import Once
from headgate.runtime.worker.operators.columns.updating.ranked.row_order import RowOrder
from headgate.runtime.worker.operators.columns.updating.weights import netted
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class FirstRowsOperator(Operator):
    """Leaves out rows of a batch that so many of the same batch precede that they cannot be among the
    first, and columns that are there twice.
    """

    def __init__(self, context: OperatorContext, plan: Rank) -> None:
        super().__init__(context)
        self._plan, self._once = plan, Once(plan)
        self._by = RowOrder(self._once.schema, self._once.order(plan.order))

    def process(self, batch: Batch) -> None:
        columns = columns_of(self.context, batch, self._plan.child.schema)
        names = self._plan.key_names
        keys = checked_keys(self.context, columns, names, batch)
        others = columns.select(self._once.schema.names).columns[len(keys) :]
        rows = pa.RecordBatch.from_arrays([*keys, *others], schema=self._once.schema)
        with failing_clearly(self.context, "a batch"):
            found = self._first_of(rows)
        if len(found) < rows.num_rows:
            rows = rows.take(pa.array(np.sort(found)))
        self.next.process(ArrowBatch(rows))

    def _first_of(self, rows: pa.RecordBatch) -> Int64s:
        table = pa.table(rows)
        keys, codes = key_integers(table.select(self._plan.key_names)), self._by.codes(table)
        return self._by.first(keys, codes, self._plan.n, lambda which: table.take(pa.array(which))).rows


class RankOperator(AnsweringOperator):
    """Keeps the first rows of each key of its subtask, and sends what changes of them at marks and at the
    end.
    """

    _name: ClassVar = FIRST
    _what: ClassVar = "a rank"

    def __init__(
        self, context: OperatorContext, plan: Rank, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        fields, self._once = plan.child.schema.fields, Once(plan)
        self._came = self._once.schema
        values = pa.schema(list(self._once.whole)[plan.keys :])
        super().__init__(context, fields[: plan.keys], values, None, function)
        self._plan, self._gives, self._ttl_ms = plan, plan.schema.to_arrow(), plan.ttl_ms

    def snapshot(self, checkpoint: int) -> PendingState | None:
        self._own.handles[rows_kept(self._plan.n)].update([self._plan.n])
        return super().snapshot(checkpoint)

    def _windows_from(self, mark: int) -> RankedRows:
        self._ranked = RankedRows(self._plan, self._once)
        return self._ranked

    def _changes(self) -> pa.Table | None:
        found = self._ranked.at_mark()
        if found is None:
            return None
        names = [name for name in self._plan.schema.names[:-1] if name != self._plan.rank]
        changes = found.rows.select(names)
        if self._plan.rank is not None:
            changes = changes.append_column(self._plan.rank, pa.array(found.places))
        kinds = np.full(changes.num_rows, Change.INSERT, np.int8)
        kinds[: found.going] = Change.DELETE
        changes = changes.append_column(CHANGE, pa.array(kinds))
        # Rows that differ only in what they are ordered by look the same to whoever gets them.
        return netted(changes) if found.going and self._orders_by_more(names) else changes

    def _orders_by_more(self, shown: list[str]) -> bool:
        by = [self._once.schema.names[each.place] for each in self._once.order(self._plan.order)]
        return not set(by) <= set(shown)
