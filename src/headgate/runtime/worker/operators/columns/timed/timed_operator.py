"""The base of operators that join by event time: rows that come, late ones, results, and the watermark."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.common.errors import InternalError, UsageError
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.joins.equal_joins import SIDE
from headgate.relational.joins.timed_joins import MATCHED, TIMED, IntervalJoin, TimedJoin
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.kept_windows import PANE, Ended
from headgate.runtime.worker.operators.columns.timed.kept_sides import KeptSides, columns_of_side
from headgate.runtime.worker.operators.columns.timed.timed_rows import TimedRows
from headgate.runtime.worker.operators.columns.updating.joined_rows import sides_of
from headgate.runtime.worker.operators.columns.window_join import as_given
from headgate.runtime.worker.operators.columns.windows_operator import WindowsOperator

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.spilled.windows_on_disk import WindowsOnDisk
    from headgate.state.rocksdb.chunk_store import ChunkStore


class Joined(NamedTuple):
    """Rows that come out: keys with hidden columns, the columns of each side (None: null), and times (ms)."""

    keys: pa.Table
    left: pa.Table | None
    right: pa.Table | None
    times: Int64s


class TimedJoinOperator(WindowsOperator):
    """Base of joins by time, for the key groups of their subtask; the input has the rows of both tables."""

    _in_memory: ClassVar = True
    _name: ClassVar = TIMED
    _kept: KeptSides

    def __init__(
        self, context: OperatorContext, plan: TimedJoin, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        schema = plan.left.schema
        keys = [schema.fields[schema.place(name)] for name in plan.keys]
        others = [pa.field(each.name, each.type) for each in schema if each.name not in (SIDE, *plan.keys)]
        flags = [pa.field(MATCHED, pa.bool_())] if isinstance(plan, IntervalJoin) else []
        values = pa.schema([pa.field(SIDE, pa.int32()), *flags, *others])
        super().__init__(context, keys, values, None, function)
        self._join, self._gives = plan, plan.schema.to_arrow()
        self._came = pa.schema([*self._of_keys, pa.field(SIDE, pa.int32()), *others])
        self._columns = [columns_of_side(side, self._of_keys, values) for side in (0, 1)]

    @abstractmethod
    def _came_of(self, side: int, rows: pa.Table) -> None:
        """Take rows of one side, with their times in `PANE`, of which none is late."""

    @abstractmethod
    def _passed(self, mark: int) -> None:
        """Send what the watermark `mark` decides, and forget what no row that is not late can join."""

    def _windows_from(self, mark: int) -> KeptSides:
        sides = [self._rows_of(side) for side in (0, 1)]
        return KeptSides(self._keys, self._values_kept, sides, mark, self.context.max_parallelism)

    def _rows_of(self, side: int) -> TimedRows:
        return TimedRows(self._columns[side], self._keys)

    def process(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch)  # of our own sender
        if batch.timestamps is None or batch.watermarks is None:
            raise UsageError(
                f"{self.context.label} joins by time, and its records have no event time; call "
                "with_event_time() on the stream before to_table()"
            )
        marks = np.maximum(batch.watermarks, self._mark)
        rows = self._received_or_refused(batch.columns).add_column(0, PANE, pa.array(batch.timestamps))
        self._advance(int(marks[0]))
        late = self._kept.late(rows, marks)
        if late.any():
            self._late += int(late.sum())
            rows = rows.filter(pa.array(~late))
        with failing_clearly(self.context, "a join by time"):
            for side, mine in sides_of(rows):
                self._came_of(side, mine.select(self._columns[side].names))
        self._advance(int(marks[-1]))

    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        return pa.Table.from_arrays(pa.table(batch).select(self._came.names).columns, schema=self._came)

    def watermark(self, timestamp: int) -> None:
        self._advance(timestamp)
        self.next.watermark(self._join.sent_on(self._mark))

    def _advance(self, mark: int) -> None:
        if mark <= self._mark:
            return
        with failing_clearly(self.context, "a join by time"):
            self._passed(mark)
        self._mark = mark
        self._kept.passed(mark)

    def _columns_of(self, joined: Joined, fields: pa.Schema) -> pa.RecordBatch:
        names = list(self._join.shown_keys)
        arrays = as_given(joined.keys, names)
        of_sides = [each.name for each in self._came if each.name.startswith(("left/", "right/"))][
            : len(fields) - len(names)
        ]
        for name in of_sides:
            rows = joined.right if name.startswith("right/") else joined.left
            kind = self._came.field(name).type
            column = pa.nulls(len(joined.times), kind) if rows is None else rows.column(name)
            arrays.append(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
        return pa.RecordBatch.from_arrays(arrays, schema=fields)

    def _give(self, columns: pa.RecordBatch, times: Int64s, mark: int) -> None:
        """Send results: `times` are their event times, and `mark` is the watermark of the input."""
        if len(times):
            # Those that a watermark decides come in the order of their times, each as of its own.
            least, most = self._join.sent_on(self._mark), self._join.sent_on(mark)
            self.next.process(ArrowBatch(columns, times, np.clip(times - 1, least, most)))

    def _windows_on_disk(self, chunks: ChunkStore, mark: int) -> WindowsOnDisk:
        raise InternalError("a join by time is kept in memory; please report this")

    def _results(self, ended: Ended) -> tuple[pa.RecordBatch, Int64s]:
        raise InternalError("a join by time has no windows; please report this")
