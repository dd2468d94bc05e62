"""Windows that are cut into panes: tumbling, sliding and cumulative ones, and those of windows' results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns.kept_windows import PANE, ROWS, Ended, Restoring, WindowsView
from headgate.runtime.worker.operators.columns.panes_of_groups import PanesOfGroups
from headgate.runtime.worker.operators.columns.window_times import PanedTimes

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class PanedWindows:
    """Tumbling, sliding or cumulative windows in memory: accumulators by pane, from watermark `mark` on.
    A pane is dropped when the last window that contains it has ended.
    """

    def __init__(self, grouping: Grouping, times: PanedTimes, mark: int, max_parallelism: int) -> None:
        self._times, self._mark = times, mark
        # No window ends before this watermark.
        self._earliest = WATERMARK_MAX
        self._panes = PanesOfGroups(grouping, mark, max_parallelism)

    @property
    def ahead(self) -> list[tuple[int, int]]:
        return self._panes.groups.listed()

    def of_group(self, group: int, mark: int) -> Restoring:
        self._earliest = WATERMARK_MIN
        return self._panes.of_group(group, mark)

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        panes = rows.column(PANE).to_numpy()
        self._earliest = min(
            self._earliest, int(self._times.first_ends(panes).min(initial=WATERMARK_MAX)) - 1
        )
        late = self._times.last_ends(panes) - 1 <= self._panes.groups.marks_of(rows, marks)
        if not late.any():
            self._panes.add(rows.drop_columns(ROWS))
            return 0
        self._panes.add(rows.filter(pa.array(~late)).drop_columns(ROWS))
        return int(rows.column(ROWS).to_numpy()[late].sum())

    def reached(self, mark: int) -> list[Ended]:
        before, self._mark = self._mark, mark
        if mark < self._earliest:
            self._panes.reached(mark)
            return []
        panes = self._panes.starts()
        ends = {end for pane in panes for end in self._times.ends_over(pane) if before < end - 1 <= mark}
        found = [ended for end in sorted(ends) if (ended := self._ended(end)) is not None]
        self._panes.reached(mark)
        kept = [pane for pane in panes if self._times.ends_over(pane)[-1] - 1 > mark]
        self._panes.drop_before(kept[0] if kept else WATERMARK_MAX)
        to_come = (end - 1 for pane in kept for end in self._times.ends_over(pane) if end - 1 > mark)
        self._earliest = min(to_come, default=WATERMARK_MAX)
        return found

    def _ended(self, end: int) -> Ended | None:
        start = self._times.start_of(end)
        whole = self._panes.merged(start, end)
        if whole is None:
            return None
        return Ended(whole, np.full(len(whole), start), np.full(len(whole), end))

    def next_end(self) -> int | None:
        """Return the end (ms) of the window that ends next; None: there is none."""
        ends = (end for pane in self._panes.starts() for end in self._times.ends_over(pane))
        return min((end for end in ends if end - 1 > self._mark), default=None)

    def at_snapshot(self) -> list[WindowsView]:
        return self._panes.at_snapshot()
