"""Windows of processing time: a row is in the window in which it comes to the subtask that keeps its key.

Rows become accumulators before the exchange, without a pane: the clock of the receiving subtask decides it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.records.arrow_batch import ArrowBatch
from headgate.runtime.worker.operators.columns.accumulating import AccumulatingOperator
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.paned_windows import PanedWindows
from headgate.runtime.worker.operators.columns.row_columns import columns_of
from headgate.runtime.worker.operators.columns.session_grouping import END
from headgate.runtime.worker.operators.columns.sessions import SessionWindows
from headgate.runtime.worker.operators.columns.window_aggregate import WindowAggregateOperator
from headgate.runtime.worker.operators.columns.window_times import SessionTimes

if TYPE_CHECKING:
    from headgate.records.batch import Batch


class ProcessingAccumulatingOperator(AccumulatingOperator):
    """Sends accumulators in place of a batch's rows; their pane is 0, since the receiver's clock gives it."""

    def process(self, batch: Batch) -> None:
        columns = columns_of(self.context, batch, self._plan.child.schema)
        rows = self._rows(columns, batch)
        unknown = pa.array(np.zeros(len(rows), dtype=np.int64))
        rows = rows.add_column(0, PANE, unknown)
        if isinstance(self._times, SessionTimes):
            rows = rows.append_column(END, unknown)
        (found,) = self._grouped(rows).combine_chunks().to_batches()
        self._give(found, batch)

    def _give(self, found: pa.RecordBatch, batch: Batch) -> None:
        if batch.timestamps is None or batch.watermarks is None:
            self.next.process(ArrowBatch(found))
            return
        # Of the rows that became one, none is told from the others.
        times = np.full(len(found), batch.timestamps[-1])
        self.next.process(ArrowBatch(found, times, np.full(len(found), batch.watermarks[0])))


class ProcessingWindowsOperator(WindowAggregateOperator):
    """Runs an aggregation in windows of the wall clock (its context's) for the key groups of its subtask.
    The clock takes the place of the watermark: a window ends when the clock reaches its end. A row is in the
    window of the time at which its batch comes. Restored windows that have ended emit when timers fire next.
    """

    _in_memory = True
    _kept: PanedWindows | SessionWindows
    _next_end: int | None = None
    _watermark = WATERMARK_MIN

    def open(self) -> None:
        super().open()
        # Former subtasks may have seen other clocks: no row may be late for windows of a faster one.
        self._earliest = max((at for each in self.context.restored if (at := each.watermark) is not None),
                             default=WATERMARK_MIN)  # fmt: skip
        self._look_ahead()

    def process(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch)  # of our own sender
        if batch.watermarks is not None:
            self._watermark = max(self._watermark, int(batch.watermarks[-1]))
        self._reach(self.context.clock.now_ms() - 1)
        rows = self._received_or_refused(batch.columns)
        panes = self._times.panes_of(np.full(len(rows), self._mark + 1))
        rows = rows.set_column(0, PANE, pa.array(panes))
        if isinstance(self._times, SessionTimes):
            rows = rows.set_column(rows.column_names.index(END), END, pa.array(self._times.last_ends(panes)))
        with failing_clearly(self.context, "a window"):
            self._add(rows, np.full(len(rows), self._mark))
        self._look_ahead()

    def watermark(self, timestamp: int) -> None:
        # A watermark ends no window, but results are sent with the last one.
        if timestamp < WATERMARK_MAX:
            self._watermark = max(self._watermark, timestamp)
        self.next.watermark(timestamp)

    def next_processing_time(self) -> int | None:
        return self._next_end

    def fire_processing_time(self, now_ms: int) -> None:
        self._reach(now_ms - 1)
        self._look_ahead()

    def _reach(self, mark: int) -> None:
        # Nothing is emitted if the clock was set back.
        mark = max(mark, self._earliest)
        if mark <= self._mark:
            return
        self._mark = mark
        with failing_clearly(self.context, "a window"):
            ended = self._kept.reached(mark)
        results = [found for each in ended if len(found := self._results(each)[0])]
        if results:
            columns = pa.concat_batches(results)
            at = None if self._watermark == WATERMARK_MIN else np.full(len(columns), self._watermark)
            self.next.process(ArrowBatch(columns, at, at))

    def _look_ahead(self) -> None:
        self._next_end = self._kept.next_end()
