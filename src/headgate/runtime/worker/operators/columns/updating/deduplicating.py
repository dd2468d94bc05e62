"""Sends the row of each key that comes first, at once; rows keep their event time."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.api.tables.row_state import SEEN
from headgate.common.errors import InternalError
from headgate.common.time import WATERMARK_MAX
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.relations import Deduplicate
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.row_columns import columns_of
from headgate.runtime.worker.operators.columns.updating.lasting_operator import LastingOperator
from headgate.runtime.worker.operators.columns.updating.seen_keys import UNTIL, SeenKeys


class DeduplicateOperator(LastingOperator):
    """Sends of the rows of each key of its subtask the first one. Where event time bounds what is a
    duplicate, rows behind the watermark are dropped and counted, as their keys may be forgotten.
    """

    _name: ClassVar = SEEN
    _what: ClassVar = "keys"

    def __init__(
        self, context: OperatorContext, plan: Deduplicate, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        keys = plan.child.schema.fields[: plan.keys]
        super().__init__(context, keys, pa.schema([pa.field(UNTIL, pa.int64())]), None, function)
        self._plan, self._gives = plan, plan.schema.to_arrow()
        self._ttl_ms = plan.ttl_ms

    def _windows_from(self, mark: int) -> SeenKeys:
        self._seen = SeenKeys(self._of_keys, self._plan.within_ms)
        return self._seen

    def process(self, batch: Batch) -> None:
        columns = columns_of(self.context, batch, self._plan.child.schema)
        whole = ArrowBatch(columns, batch.timestamps, batch.watermarks)
        if self._plan.within_ms is not None:
            whole = self._in_time(whole)
        arrays = whole.columns.select(self._of_keys.names).columns
        keys = pa.Table.from_arrays(arrays, schema=self._of_keys)
        with failing_clearly(self.context, "keys"):
            self._forget_old()
            self._touch(keys)
            found = self._seen.first(keys, whole.timestamps)
        if len(found):
            self._give(whole.take(found))

    def _give(self, rows: ArrowBatch) -> None:
        shown = rows.columns.columns[self._plan.keys :]
        columns = pa.RecordBatch.from_arrays(shown, schema=self._gives)
        self.next.process(ArrowBatch(columns, rows.timestamps, rows.watermarks))

    def _in_time(self, batch: ArrowBatch) -> ArrowBatch:
        assert batch.timestamps is not None
        assert batch.watermarks is not None  # the program was refused otherwise
        in_time = np.flatnonzero(batch.timestamps > np.maximum(batch.watermarks, self._mark))
        self._late += len(batch) - len(in_time)
        return batch if len(in_time) == len(batch) else batch.take(in_time)

    def watermark(self, timestamp: int) -> None:
        self._mark = max(self._mark, timestamp)
        if timestamp < WATERMARK_MAX:
            self._seen.expire(self._mark)
        self.next.watermark(timestamp)

    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        raise InternalError("rows of no window are kept; please report this")
