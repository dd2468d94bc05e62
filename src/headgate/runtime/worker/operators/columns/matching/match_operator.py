"""The operators of a pattern: rows get their event time as a column, are exchanged by key, and matched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.api.tables.row_state import ROWS
from headgate.common.errors import InternalError, UsageError
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.patterns.match_plan import Match
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.kept_windows import PANE, Ended, KeptWindows
from headgate.runtime.worker.operators.columns.keys_checked import checked_keys
from headgate.runtime.worker.operators.columns.matching.kept_matches import KeptMatches
from headgate.runtime.worker.operators.columns.row_columns import columns_of
from headgate.runtime.worker.operators.columns.windows_operator import WindowsOperator
from headgate.runtime.worker.operators.operator_contract import Operator

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.spilled.windows_on_disk import WindowsOnDisk
    from headgate.state.rocksdb.chunk_store import ChunkStore


class TimedRowsOperator(Operator):
    """Passes rows on, before the exchange, with their event time as the column `PANE`, and keys checked."""

    def __init__(self, context: OperatorContext, plan: Match) -> None:
        super().__init__(context)
        self._schema, self._names = plan.child.schema, plan.key_names

    def process(self, batch: Batch) -> None:
        if batch.timestamps is None or batch.watermarks is None:
            raise UsageError(
                f"{self.context.label} matches a pattern in event time, and its records have none; call "
                "with_watermark() on the table"
            )
        columns = columns_of(self.context, batch, self._schema)
        keys = checked_keys(self.context, columns, self._names, batch)
        arrays = [pa.array(batch.timestamps), *keys, *columns.columns[len(keys) :]]
        whole = pa.RecordBatch.from_arrays(arrays, names=[PANE, *self._schema.names])
        self.next.process(ArrowBatch(whole, batch.timestamps, batch.watermarks))


class MatchOperator(WindowsOperator):
    """Finds the matches of a pattern for the keys of its subtask, in the order of event time."""

    _in_memory: ClassVar = True
    _name: ClassVar = ROWS
    _what: ClassVar = "a condition or measure of a pattern"

    def __init__(
        self, context: OperatorContext, plan: Match, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        fields = plan.child.schema.fields
        values = pa.schema([pa.field(each.name, each.type) for each in fields[plan.keys :]])
        super().__init__(context, fields[: plan.keys], values, None, function)
        self._plan, self._gives = plan, plan.schema.to_arrow()

    def _windows_from(self, mark: int) -> KeptWindows:
        return KeptMatches(self._plan, mark, self.context.max_parallelism)

    def _windows_on_disk(self, chunks: ChunkStore, mark: int) -> WindowsOnDisk:
        raise InternalError("a pattern's rows are kept in memory; please report this")

    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        return pa.table(batch).select([PANE, *self._plan.child.schema.names])

    def _results(self, ended: Ended) -> tuple[pa.RecordBatch, Int64s]:
        (whole,) = ended.table.combine_chunks().to_batches()
        return whole, np.asarray(ended.ends - 1)
