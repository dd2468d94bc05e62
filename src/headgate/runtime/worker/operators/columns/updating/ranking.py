"""The first rows of each key in some order: before the exchange within a batch, after it of all that came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.api.tables.row_state import FIRST
from headgate.common.errors import InternalError
from headgate.core.marks import Mark
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.relations import Rank
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.keys_checked import checked_keys
from headgate.runtime.worker.operators.columns.kept_windows import Ended
from headgate.runtime.worker.operators.columns.row_columns import columns_of
from headgate.runtime.worker.operators.columns.updating.ranked_rows import PLACE, RankedRows, Reranked, first_rows, key_codes
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT, changes_of, net_rows
from headgate.runtime.worker.operators.columns.windows_operator import WindowsOperator
from headgate.runtime.worker.operators.operator_contract import Operator

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.spilled.windows_on_disk import WindowsOnDisk
    from headgate.state.rocksdb.chunk_store import ChunkStore


class FirstRowsOperator(Operator):
    """Leaves out rows of a batch that so many of the same batch precede that they cannot be among the first."""

    def __init__(self, context: OperatorContext, plan: Rank) -> None:
        super().__init__(context)
        self._plan = plan

    def process(self, batch: Batch) -> None:
        columns = columns_of(self.context, batch, self._plan.child.schema)
        names = self._plan.key_names
        keys = checked_keys(self.context, columns, names, batch)
        rows = pa.table([*keys, *columns.columns[len(keys) :]], columns.schema.names)
        with failing_clearly(self.context, "a batch"):
            found, _ = first_rows(rows, key_codes(rows.select(names)), self._plan.order, self._plan.n)
        rows = rows.take(pa.array(np.sort(found)))
        self.next.process(ArrowBatch(rows.combine_chunks().to_batches()[0]))


class RankOperator(WindowsOperator):
    """Keeps the first rows of each key of its subtask, and sends what changes of them at marks and at the end."""

    _in_memory: ClassVar = True
    _name: ClassVar = FIRST

    def __init__(
        self, context: OperatorContext, plan: Rank, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        fields = plan.child.schema.fields
        self._came = pa.schema([pa.field(each.name, each.type) for each in fields])
        values = pa.schema(list(self._came)[plan.keys :])
        super().__init__(context, fields[: plan.keys], values, None, function)
        self._plan = plan

    def _windows_from(self, mark: int) -> RankedRows:
        self._ranked = RankedRows(self._came, self._plan.keys, self._plan.order, self._plan.n)
        return self._ranked

    def _windows_on_disk(self, chunks: ChunkStore, mark: int) -> WindowsOnDisk:
        raise InternalError("rows of a rank are kept in memory; please report this")

    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        rows = pa.table(batch).select(self._came.names)
        return pa.Table.from_arrays(rows.columns, schema=self._came)

    def _results(self, ended: Ended) -> tuple[pa.RecordBatch, Int64s]:
        raise InternalError("a rank has no end; please report this")

    def process(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch)  # of our own sender
        with failing_clearly(self.context, "a rank"):
            self._ranked.gather(self._received_or_refused(batch.columns))

    def watermark(self, timestamp: int) -> None:
        self._mark = max(self._mark, timestamp)
        self.next.watermark(timestamp)

    def mark(self, mark: Mark) -> None:
        self._send_changes()
        self.next.mark(mark)

    def end_of_data(self) -> None:
        self._send_changes()
        self.next.end_of_data()

    def _send_changes(self) -> None:
        with failing_clearly(self.context, "a rank"):
            found = self._ranked.at_mark()
            if found is None:
                return
            changed = self._changes(found)
        if changed.num_rows:
            (columns,) = changed.combine_chunks().to_batches()
            schema = self._plan.schema.to_arrow()
            self.next.process(ArrowBatch(pa.RecordBatch.from_arrays(columns.columns, schema=schema)))

    def _changes(self, found: Reranked) -> pa.Table:
        both = [self._shown(found.before, -1), self._shown(found.after, 1)]
        return changes_of(net_rows(pa.concat_tables(both)))

    def _shown(self, rows: pa.Table, weight: int) -> pa.Table:
        names = [name for name in self._plan.schema.names[:-1] if name != self._plan.rank]
        shown = rows.select(names)
        if self._plan.rank is not None:
            shown = shown.append_column(self._plan.rank, rows.column(PLACE))
        return shown.append_column(WEIGHT, pa.array(np.full(rows.num_rows, weight, np.int64)))
