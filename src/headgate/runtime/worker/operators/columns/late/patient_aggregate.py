"""Aggregations whose windows emit more than once: at late rows, and before their end by the wall clock."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.common.time import WATERMARK_MIN
from headgate.records.arrow_batch import ArrowBatch
from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.kept_windows import PANE, ROWS, KeptWindows
from headgate.runtime.worker.operators.columns.late.accumulating_late import LATE_ROW, LATE_TIME
from headgate.runtime.worker.operators.columns.late.late_panes import LatePanes
from headgate.runtime.worker.operators.columns.late.late_sessions import LateSessions
from headgate.runtime.worker.operators.columns.late.patient_windows import (
    Again,
    PatientWindows,
    horizons,
)
from headgate.runtime.worker.operators.columns.session_grouping import END, SessionGrouping
from headgate.runtime.worker.operators.columns.window_aggregate import WindowAggregateOperator
from headgate.runtime.worker.operators.columns.window_state import FORGOTTEN
from headgate.runtime.worker.operators.columns.window_times import SessionTimes, ends_passed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

_FEW: Final = 10_000
"""Rows noted for early results up to which it does not pay to remove duplicates."""


class PatientAggregateOperator(WindowAggregateOperator):
    """Runs a windowed aggregation with allowed lateness or early results, for key groups of a subtask.
    Late rows make their windows emit again. Early results of open windows come by the wall clock, at each
    multiple of an interval, of those windows that got new rows since. All state is in memory.
    """

    _in_memory = True
    _kept: PatientWindows
    _next_early: int | None = None
    _touched: list[pa.Table]
    _touched_rows, _different = 0, _FEW

    def open(self) -> None:
        self._touched = []
        super().open()
        if self._plan.firing.early_ms is not None:
            parts = [table for view in self._kept.at_snapshot() for table in view.tables()]
            self._touch([table.select(self._places) for table in parts if len(table)])

    @property
    def _places(self) -> list[str]:
        # The columns that decide in which windows a row is.
        return [PANE, *self._keys, *([END] if isinstance(self._times, SessionTimes) else [])]

    def _windows_from(self, mark: int) -> KeptWindows:
        groups, columns = self.context.max_parallelism, self._merging.columns
        lateness, forgotten = self._plan.firing.lateness_ms, self._forgotten()
        if isinstance(self._times, SessionTimes):
            sessions = SessionGrouping((PANE, *self._keys), columns)
            return LateSessions(sessions, mark, groups, lateness, forgotten)
        return LatePanes(self._merging, self._times, mark, groups, lateness, forgotten)

    def _forgotten(self) -> int:
        first, last = self._groups
        stored = self._own.handles[FORGOTTEN].get()
        mine = [until for low, high, until in stored if low <= last and high >= first]
        if not stored:  # of a version without lateness, or a new job
            mine = [each.watermark for each in self.context.restored if each.watermark is not None]
        return max(mine, default=WATERMARK_MIN)

    # -- rows

    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        found = super()._received(batch)
        for name in (LATE_ROW, LATE_TIME):
            if name in batch.schema.names:
                found = found.append_column(name, batch.column(batch.schema.get_field_index(name)))
        return found

    def _stretches(self, marks: Int64s) -> Iterable[tuple[int, int]]:
        if isinstance(self._times, SessionTimes):
            return super()._stretches(marks)
        # Where neither a window ends nor one is forgotten, late rows may be added together.
        ended = ends_passed(self._times, marks)
        gone = ends_passed(self._times, horizons(marks, self._plan.firing.lateness_ms))
        borders = np.flatnonzero((np.diff(ended) != 0) | (np.diff(gone) != 0)) + 1
        return pairwise([0, *borders.tolist(), len(marks)])

    def _add(self, rows: pa.Table, marks: Int64s) -> None:
        marks = self._kept.marks_of(rows, marks)
        late = self._kept.may_be_late(rows, marks)
        if self._plan.firing.early_ms is not None:
            self._touch([rows.select(self._places)])
        for part in _runs(late):
            if late[part[0]]:
                self._add_late(rows.take(pa.array(part)), marks[part])
            else:
                names = [name for name in rows.column_names if name not in (LATE_ROW, LATE_TIME)]
                self._kept.add(rows.take(pa.array(part)).select(names), marks[part])

    def _add_late(self, rows: pa.Table, marks: Int64s) -> None:
        fired, dropped = self._kept.add_late(rows, marks)
        if dropped.any():
            self._drop(rows.filter(pa.array(dropped)), marks[dropped])
        if fired:
            self._emit_again(fired, marks)

    def _drop(self, rows: pa.Table, marks: Int64s) -> None:
        tag, late = self._plan.firing.late_tag, self._plan.late
        if tag is None or late is None or LATE_ROW not in rows.column_names:
            self._late += int(rows.column(ROWS).to_numpy().sum())
            return
        (were,) = rows.select([LATE_ROW, LATE_TIME]).combine_chunks().to_batches()
        columns = pa.RecordBatch.from_arrays(were.column(0).flatten(), schema=late.to_arrow())
        self.emit_side(tag, ArrowBatch(columns, were.column(1).to_numpy(), marks))

    def _emit_again(self, fired: list[Again], marks: Int64s) -> None:
        results = [self._results(each.windows) for each in fired]
        places = np.concatenate([each.places for each in fired])
        order = np.argsort(places, kind="stable")
        columns = pa.concat_batches([each for each, _ in results]).take(pa.array(order))
        times = np.concatenate([at for _, at in results])[order]
        self.next.process(ArrowBatch(columns, times, marks[places[order]]))

    # -- early results

    def _touch(self, parts: list[pa.Table]) -> None:
        interval = self._plan.firing.early_ms
        assert interval is not None
        if not parts:
            return
        self._touched += parts
        self._touched_rows += sum(map(len, parts))
        if self._touched_rows > 2 * self._different:
            self._touched = [self._touched_once()]
            self._touched_rows = len(self._touched[0])
            self._different = max(_FEW, self._touched_rows)
        if self._next_early is None:
            now = self.context.clock.now_ms()
            self._next_early = now - now % interval + interval

    def _touched_once(self) -> pa.Table:
        touched = pa.concat_tables(self._touched)
        return Grouping(tuple(touched.column_names), ()).merged(touched)

    def next_processing_time(self) -> int | None:
        return self._next_early

    def fire_processing_time(self, now_ms: int) -> None:
        if self._next_early is None or now_ms < self._next_early:
            return
        different = self._touched_once()
        self._next_early, self._touched, self._touched_rows = None, [], 0
        with failing_clearly(self.context, "a window"):
            results = [self._results(each) for each in self._kept.open_now(different)]
        if results:
            times = np.concatenate([at for _, at in results])
            columns = pa.concat_batches([each for each, _ in results])
            self.next.process(ArrowBatch(columns, times, np.full(len(times), self._mark)))

    @property
    def _forgotten_until(self) -> int:
        return self._kept.forgotten


def _runs(flags: NDArray[np.bool_]) -> list[Int64s]:
    return np.split(np.arange(len(flags)), np.flatnonzero(np.diff(flags)) + 1) if len(flags) else []
