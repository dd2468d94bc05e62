"""Windows of panes with allowed lateness: tumbling, sliding and cumulative ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.common.time import WATERMARK_MAX
from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns.kept_windows import PANE, Ended
from headgate.runtime.worker.operators.columns.late.patient_windows import Again, Taken, horizon, horizons
from headgate.runtime.worker.operators.columns.late.rows_of_keys import RowsOfKeys
from headgate.runtime.worker.operators.columns.late.running_results import portions, running
from headgate.runtime.worker.operators.columns.paned_windows import PanedWindows
from headgate.runtime.worker.operators.columns.window_times import PanedTimes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s


class LatePanes(PanedWindows):
    """Accumulators by pane, kept until the watermark passes the end of their last window by `lateness_ms`.
    Windows whose last ms is `forgotten` or before were dropped by an earlier run; late rows make no new ones.
    """

    def __init__(
        self, grouping: Grouping, times: PanedTimes, mark: int, max_parallelism: int, lateness_ms: int,
        forgotten: int,
    ) -> None:  # fmt: skip
        super().__init__(grouping, times, mark, max_parallelism)
        self._grouping, self._lateness, self._forgotten = grouping, lateness_ms, forgotten
        self._names = [PANE, *grouping.keys, *(name for name, _ in grouping.fields)]
        self._rows_of = RowsOfKeys(grouping.keys)

    @property
    def forgotten(self) -> int:
        return max(self._forgotten, horizon(self._mark, self._lateness))

    def marks_of(self, rows: pa.Table, marks: Int64s) -> Int64s:
        return self._panes.groups.marks_of(rows, marks)

    def may_be_late(self, rows: pa.Table, marks: Int64s) -> NDArray[np.bool_]:
        return np.asarray(self._times.first_ends(rows.column(PANE).to_numpy()) - 1 <= marks)

    def add_late(self, rows: pa.Table, marks: Int64s) -> Taken:
        limits = np.maximum(horizons(marks, self._lateness), self._forgotten)
        dropped = self._times.last_ends(rows.column(PANE).to_numpy()) - 1 <= limits
        places, fired = np.flatnonzero(~dropped), list[Again]()
        kept = rows.take(pa.array(places)).select(self._names)
        for portion in portions(kept, self._grouping.keys):
            of_all, part = places[portion], kept.take(pa.array(portion))
            for found in self._fired(part, marks[of_all], limits[of_all]):
                fired.append(found._replace(places=of_all[found.places]))
            self._panes.add(part)
        return Taken(fired, dropped)

    def _fired(self, rows: pa.Table, marks: Int64s, limits: Int64s) -> list[Again]:
        # `rows` are not added yet. They change windows that `marks` have ended, with a last ms above
        # `limits`.
        found = []
        for end, inside in self._windows_over(rows):
            places = np.flatnonzero(inside & (end - 1 <= marks) & (end - 1 > limits))
            if len(places):
                mine = rows.take(pa.array(places))
                table = running(self._grouping, mine, self._window(end, mine))
                found.append(Again(self._ended_at(table, end), places))
        return found

    def _windows_over(self, rows: pa.Table) -> list[tuple[int, NDArray[np.bool_]]]:
        panes = rows.column(PANE).to_numpy()
        ends = {end for pane in np.unique(panes).tolist() for end in self._times.ends_over(pane)}
        return [(end, (panes >= self._times.start_of(end)) & (panes < end)) for end in sorted(ends)]

    def _window(self, end: int, wanted: pa.Table) -> pa.Table | None:
        tables = self._panes.tables_between(self._times.start_of(end), end)
        found = self._rows_of.found(tables, wanted)
        return self._grouping.merged(pa.concat_tables(found)).combine_chunks() if found else None

    def _ended_at(self, table: pa.Table, end: int) -> Ended:
        return Ended(table, np.full(len(table), self._times.start_of(end)), np.full(len(table), end))

    def open_now(self, touched: pa.Table) -> list[Ended]:
        marks, found = self.marks_of(touched, np.full(len(touched), self._mark)), []
        for end, inside in self._windows_over(touched):
            places = np.flatnonzero(inside & (end - 1 > marks))
            wanted = touched.take(pa.array(places))
            if len(places) and (table := self._window(end, wanted)) is not None:
                found.append(self._ended_at(table, end))
        return found

    def reached(self, mark: int) -> list[Ended]:
        before, self._mark = self._mark, mark
        panes = self._panes.starts()
        lasts = self._times.last_ends(np.array(panes, dtype=np.int64)) - 1
        emitting = panes[int(np.searchsorted(lasts, before, side="right")) :]
        ends = {end for pane in emitting for end in self._times.ends_over(pane) if before < end - 1 <= mark}
        found = [ended for end in sorted(ends) if (ended := self._ended(end)) is not None]
        self._panes.reached(mark)
        gone = int(np.searchsorted(lasts, horizon(mark, self._lateness), side="right"))
        self._panes.drop_before(panes[gone] if gone < len(panes) else WATERMARK_MAX)
        return found
