"""Windows cut into panes, and rows kept until their window ends, with what exceeds a budget in RocksDB."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns.groups_ahead import RestoredByGroup
from headgate.runtime.worker.operators.columns.kept_rows import KeptRows
from headgate.runtime.worker.operators.columns.kept_windows import (
    PANE,
    ROWS,
    Ended,
    WindowsView,
)
from headgate.runtime.worker.operators.columns.panes import Panes
from headgate.runtime.worker.operators.columns.spilled.budget import Budget
from headgate.runtime.worker.operators.columns.spilled.spill import Spill
from headgate.runtime.worker.operators.columns.window_times import PanedTimes

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class SpilledWindows(RestoredByGroup):
    """Base of windows from watermark `mark` on that hold about `memory` bytes, and `spill` more to chunks."""

    def __init__(self, spill: Spill, mark: int, memory: int) -> None:
        super().__init__(spill.columns.keys, mark, spill.columns.max_parallelism)
        self._spill, self._chunks = spill, spill.chunks
        self._budget = Budget(memory, self._size)

    def put(self, table: pa.Table) -> None:
        """Add rows, none of which is late; if the budget is exceeded, write what is in memory to disk."""
        self._hold(table)
        if self._budget.exceeded_by(table.nbytes):
            self.spill()

    def spill(self) -> None:
        """Write all that is in memory to chunks on disk, and drop it from memory."""
        self._budget.emptied()
        tables = [table for view in self.at_snapshot() for table in view.tables()]
        self._let_go()
        if tables:
            self._spill.write(pa.concat_tables(map(self._spill.columns.in_order, tables)))

    def store_all(self) -> None:
        self.spill()

    def stored(self) -> None:
        """Do nothing once a snapshot is taken: what was written for it stays in its chunks."""

    def restored(self) -> None:
        """Do nothing after a restore of chunks: they are looked for when their windows end."""

    @abstractmethod
    def _hold(self, table: pa.Table) -> None:
        """Add rows with the column `PANE` to those in memory, whatever the budget."""

    @abstractmethod
    def _size(self) -> int:
        """Return how many bytes all that is in memory takes."""

    @abstractmethod
    def _let_go(self) -> None:
        """Forget all that is in memory; also called to begin with nothing."""

    @abstractmethod
    def at_snapshot(self) -> list[WindowsView]:
        """Return views of what is in memory, as it is now, for a snapshot; chunks are not in them."""

    def _places(self, start: int, stop: int) -> list[int]:
        return [place for place in self._chunks.places() if start <= place < stop]


class SpilledPanes(SpilledWindows):
    """Accumulators by pane, from watermark `mark` on; above `memory` bytes in chunks, one place per pane."""

    def __init__(self, spill: Spill, grouping: Grouping, times: PanedTimes, mark: int, memory: int) -> None:
        super().__init__(spill, mark, memory)
        self._grouping, self._times = grouping, times
        self._memory = Panes(grouping)

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        last = self._times.last_ends(rows.column(PANE).to_numpy())
        late = last - 1 <= self._ahead.marks_of(rows, marks)
        if not late.any():
            self.put(rows.drop_columns(ROWS))
            return 0
        self.put(rows.filter(pa.array(~late)).drop_columns(ROWS))
        return int(rows.column(ROWS).to_numpy()[late].sum())

    def _hold(self, table: pa.Table) -> None:
        self._memory.add(table)

    def _size(self) -> int:
        return self._memory.size()

    def _let_go(self) -> None:
        self._memory = Panes(self._grouping)

    def reached(self, mark: int) -> Iterator[Ended]:
        """Yield the windows that the watermark `mark` ends, a portion of their keys at a time.

        When all have been taken, panes that no later window contains are dropped.
        """
        before, self._mark = self._mark, mark
        panes = sorted({*self._memory.starts(), *self._chunks.places()})
        ends = {end for pane in panes for end in self._times.ends_over(pane) if before < end - 1 <= mark}
        for end in sorted(ends):
            yield from self._ended(end)
        self._ahead.reached(mark)
        kept = [pane for pane in panes if self._times.ends_over(pane)[-1] - 1 > mark]
        time = kept[0] if kept else WATERMARK_MAX
        self._memory.drop_before(time)
        self._chunks.drop([place for place in self._chunks.places() if place < time])

    def _ended(self, end: int) -> Iterator[Ended]:
        start = self._times.start_of(end)
        memory = self._memory.merged(start, end)
        places = self._places(start, end)
        if places:
            portions = self._spill.portions(places, memory)
            merged = self._grouping.merged
            found: Iterable[pa.Table] = (merged(portion).combine_chunks() for portion in portions)
        else:
            found = [] if memory is None else [memory]
        for each in found:
            whole = self._not_gone(each, end)
            if len(whole):
                yield Ended(whole, np.full(len(whole), start), np.full(len(whole), end))

    def _not_gone(self, whole: pa.Table, end: int) -> pa.Table:
        if not self._ahead:
            return whole
        marks = self._ahead.marks_of(whole, np.full(len(whole), WATERMARK_MIN))
        return whole.filter(pa.array(marks < end - 1)).combine_chunks()

    def at_snapshot(self) -> list[WindowsView]:
        return [self._memory.at_snapshot()]


class SpilledRows(SpilledWindows):
    """Rows by their window's last ms (`PANE`), from watermark `mark` on; above `memory` bytes in chunks.
    The rows of ended windows come some key groups at a time.
    """

    def __init__(self, spill: Spill, keys: Sequence[str], mark: int, memory: int) -> None:
        super().__init__(spill, mark, memory)
        self._keys = keys
        self._let_go()

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        late = rows.column(PANE).to_numpy() <= self._ahead.marks_of(rows, marks)
        self.put(rows.filter(pa.array(~late)) if late.any() else rows)
        return int(late.sum())

    def _hold(self, table: pa.Table) -> None:
        self._memory.put(table)

    def _size(self) -> int:
        return self._memory.size()

    def _let_go(self) -> None:
        self._memory = KeptRows(self._keys, WATERMARK_MIN, self._spill.columns.max_parallelism)

    def reached(self, mark: int) -> Iterator[Ended]:
        before, self._mark = self._mark, mark
        self._ahead.reached(mark)
        places = self._places(WATERMARK_MIN, mark + 1)
        found = self._memory.reached(mark)
        if not places:
            yield from found
            return
        memory = found[0].table if found else None
        for portion in self._spill.portions(places, memory):
            last = portion.column(PANE).to_numpy()
            yield Ended(portion, last, last + 1, before)
        self._chunks.drop(places)

    def at_snapshot(self) -> list[WindowsView]:
        return self._memory.at_snapshot()
