"""Joins two tables by equal columns, without windows; its input has the rows of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.api.tables.row_state import ROWS
from headgate.common.errors import InternalError
from headgate.core.marks import Mark
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.changes import CHANGE, Change
from headgate.relational.relations import SIDE, Join
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.kept_windows import Ended
from headgate.runtime.worker.operators.columns.updating.joined_rows import Found, JoinedRows, Side, sides_of
from headgate.runtime.worker.operators.columns.updating.kept_join import KeptJoin, columns_of_sides
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT, changes_of, net_rows, weighted
from headgate.runtime.worker.operators.columns.window_join import as_given
from headgate.runtime.worker.operators.columns.windows_operator import WindowsOperator

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.spilled.windows_on_disk import WindowsOnDisk
    from headgate.state.rocksdb.chunk_store import ChunkStore


class JoinOperator(WindowsOperator):
    """Joins the rows of two tables for the key groups of its subtask: at once, where rows only come, else at
    marks and at the end.
    """

    _in_memory: ClassVar = True
    _name: ClassVar = ROWS

    def __init__(
        self, context: OperatorContext, plan: Join, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        schema = plan.left.schema
        keys = [schema.fields[schema.place(name)] for name in plan.keys]
        values = pa.schema([pa.field(each.name, each.type) for each in schema if each.name not in plan.keys])
        super().__init__(context, keys, values, None, function)
        self._plan = plan
        self._sides = columns_of_sides(values, weights=not plan.grows_only)
        self._came = pa.schema([*self._of_keys, *values])

    def _windows_from(self, mark: int) -> KeptJoin:
        rows = JoinedRows(self._plan.how, self._of_keys, self._sides)
        self._join = KeptJoin(rows, self._came, self._sides)
        return self._join

    def _windows_on_disk(self, chunks: ChunkStore, mark: int) -> WindowsOnDisk:
        raise InternalError("rows of a join are kept in memory; please report this")

    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        rows = pa.table(batch).select(self._came.names)
        return pa.Table.from_arrays(rows.columns, schema=self._came)

    def _results(self, ended: Ended) -> tuple[pa.RecordBatch, Int64s]:
        raise InternalError("a join without windows has no end; please report this")

    def process(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch)  # of our own sender
        rows = self._received_or_refused(batch.columns)
        if not self._plan.grows_only:
            self._join.gather(rows)
            return
        with failing_clearly(self.context, "a join"):
            self._send(self._join.grow(rows))

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
        with failing_clearly(self.context, "a join"):
            self._send(self._join.at_mark())

    def _send(self, found: Iterable[Found]) -> None:
        tables = [self._shown(each) for each in found if len(each.numbers)]
        if not tables:
            return
        whole = pa.concat_tables(tables)
        if self._plan.schema.updating:
            whole = changes_of(net_rows(whole))
        (columns,) = whole.combine_chunks().to_batches() or [None]
        if columns is not None:
            schema = self._plan.schema.to_arrow()
            self.next.process(ArrowBatch(pa.RecordBatch.from_arrays(columns.columns, schema=schema)))

    def _shown(self, found: Found) -> pa.Table:
        keys = self._join.rows.keys.keys(found.numbers)
        names = list(self._plan.shown_keys)
        arrays = as_given(keys, names)
        left, right = found.sides
        count = len(found.numbers)
        for side, rows in enumerate((left, right)):
            if side and self._plan.how in ("semi", "anti"):
                break
            for field in self._sides[side]:
                if field.name == WEIGHT:
                    continue
                names.append(field.name)
                arrays.append(pa.nulls(count, field.type) if rows is None else rows.column(field.name))
        if self._plan.schema.updating:
            names.append(WEIGHT)
            arrays.append(pa.array(found.weights))
        return pa.table(arrays, names)
