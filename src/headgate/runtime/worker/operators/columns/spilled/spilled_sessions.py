"""Session windows with what exceeds a budget in RocksDB: those that end soon and new ones are in memory.

Sessions that end until the event time `_loaded` are all in memory. Of the others the latest additions are,
the rest lies in chunks by key group. When the watermark passes `_loaded`, each group's chunks are read, and
merged with what is in memory of the group; then they are written again without what ends soon. So a watermark
in between reads nothing.

No session in memory that ends until `_loaded` touches one in a chunk: else it would be emitted too early. A
new session that ends that soon, which is long after its time, takes what it touches out of the chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.runtime.worker.operators.columns.kept_windows import PANE, ROWS, Ended, WindowsView
from headgate.runtime.worker.operators.columns.panes import hashes_of_rows
from headgate.runtime.worker.operators.columns.session_grouping import END, SessionGrouping
from headgate.runtime.worker.operators.columns.sessions import SessionWindows, sessions_after
from headgate.runtime.worker.operators.columns.sorting import distinct, order_of_numbers
from headgate.runtime.worker.operators.columns.spilled import spill as portions
from headgate.runtime.worker.operators.columns.spilled.spill import Spill
from headgate.runtime.worker.operators.columns.spilled.spilled_panes import SpilledWindows
from headgate.runtime.worker.operators.columns.spilled.stored_sessions import StoredSessions

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.session_grouping import Hashes

_PASSES_MAX: Final = 16
"""So often at most chunks are read in the time that a session is open, however little memory there is."""


class SpilledSessions(SpilledWindows):
    """Open sessions by key with a budget of `memory` bytes, for event time from the watermark `mark` on.

    Stored ones end later than `_loaded`, so a watermark below it ends none of them. But sessions in memory
    that would end may touch stored ones: those that came since the chunks were read are `_unchecked`.
    """

    def __init__(self, spill: Spill, grouping: SessionGrouping, mark: int, memory: int) -> None:
        super().__init__(spill, mark, memory)
        self._grouping, self._limit = grouping, memory
        self._stored = StoredSessions(spill, grouping, memory // 4)
        self._loaded = mark
        self._unchecked: list[Hashes] = []
        self._first_unchecked: int = WATERMARK_MAX
        self._let_go()

    # -- what comes in

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        late = _ends(rows) - 1 <= self._ahead.marks_of(rows, marks)
        if not late.any():
            self._put_in_time(rows.drop_columns(ROWS))
            return 0
        self._put_in_time(rows.filter(pa.array(~late)).drop_columns(ROWS))
        too_late = rows.filter(pa.array(late))
        if self._stored:
            self._take_out(self._hashes(too_late), int(_ends(too_late).max()))
        return self._memory.put_late(too_late)

    def _still_open(self, table: pa.Table, mark: int) -> pa.Table:
        return sessions_after(table, mark)

    def _put_in_time(self, table: pa.Table) -> None:
        if self._stored and len(table):
            soon = _ends(table) <= self._loaded
            if soon.any():
                self._unchecked.append(self._hashes(table.filter(pa.array(soon))))
                self._first_unchecked = min(self._first_unchecked, int(_ends(table).min()))
        self.put(table)
        if sum(map(len, self._unchecked)) > portions.PORTION_ROWS:
            self._check()

    def _hashes(self, table: pa.Table) -> Hashes:
        return hashes_of_rows(table, self._spill.columns.keys)

    def _check(self) -> None:
        # Seldom, and for many rows at once: all that is stored may have to be read.
        hashes = np.concatenate(self._unchecked)
        self._checked()
        self._take_out(hashes, self._loaded)

    def _checked(self) -> None:
        self._unchecked, self._first_unchecked = [], WATERMARK_MAX

    def _take_out(self, hashes: Hashes, until: int) -> None:
        # Moves stored sessions into memory that those with these hashes may touch, which end by `until`.
        found = self._stored.take_out(distinct(hashes), until)
        if found:
            self._memory.put(pa.concat_tables(found))

    # -- memory

    def _hold(self, table: pa.Table) -> None:
        self._memory.put(table)

    def _size(self) -> int:
        return self._memory.size()

    def _let_go(self) -> None:
        self._memory = SessionWindows(self._grouping, WATERMARK_MIN, self._spill.columns.max_parallelism)

    def at_snapshot(self) -> list[WindowsView]:
        return self._memory.at_snapshot()

    def spill(self) -> None:
        self._budget.emptied()
        whole = self._memory.whole()
        if whole is None:
            return
        ends = _ends(whole.table)
        most = self._loaded if self._stored else WATERMARK_MAX
        self._loaded = self._bound(ends, self._rows_of(whole.table, self._limit // 4), most)
        soon = ends <= self._loaded
        self._let_go()
        self._memory.put_in_order(whole.where(soon))
        self._stored.write(whole.where(~soon))

    def _rows_of(self, table: pa.Table, size: int) -> int:
        return max(1, len(table) * size // max(1, int(table.nbytes)))

    def _bound(self, ends: Int64s, rows: int, most: int) -> int:
        # A time up to which at most `rows` of `ends` lie; it is at most `most`, but after the watermark.
        if len(ends) > rows:
            most = min(most, int(np.partition(ends, rows)[rows]) - 1)
        return max(most, min(self._mark, WATERMARK_MAX - 1) + 1)

    def store_all(self) -> None:
        """Write all that is in memory to chunks for a snapshot; sessions that end soon as copies."""
        self.spill()
        whole = self._memory.whole()
        if whole is not None:
            self._stored.write_copies(whole)

    def stored(self) -> None:
        self._stored.drop_copies()

    def restored(self) -> None:
        self._stored.restored()
        self._loaded = self._mark

    # -- event time

    def reached(self, mark: int) -> Iterator[Ended]:
        before, self._mark = self._mark, mark
        self._ahead.reached(mark)
        if self._stored and mark >= self._loaded:
            yield from self._read_on(before)
        elif self._stored and mark >= self._first_unchecked - 1:
            self._check()
        yield from self._memory.reached(mark)

    def _read_on(self, before: int) -> Iterator[Ended]:
        # Yields ended sessions (sent at `before`), keeps in memory what ends soon, and stores the rest again.
        whole = self._memory.whole()
        memory = {} if whole is None else self._stored.split(whole)
        self._checked()
        self._let_go()
        stored, bound = self._stored.groups(), None
        over, kept = list[pa.Table](), list[pa.Table]()
        for group in stored:
            found = self._stored.read(group, memory.pop(group, None))
            ends = _ends(found.table)
            gone = ends - 1 <= self._mark
            bound = (
                self._new_bound(found.table.filter(pa.array(~gone)), len(stored)) if bound is None else bound
            )
            over.append(found.table.filter(pa.array(gone)))
            kept.append(found.table.filter(pa.array(~gone & (ends <= bound))))
            self._stored.replace(group, found.where(~gone & (ends > bound)))
            if sum(map(len, over)) >= portions.PORTION_ROWS:
                yield from _ended(over, before)
                over = []
        yield from _ended(over, before)
        self._loaded = WATERMARK_MAX if bound is None else bound
        self.put(pa.concat_tables([*kept, *(each.table for each in memory.values())]))

    def _new_bound(self, left: pa.Table, groups: int) -> int:
        rows = max(self._rows_of(left, self._limit // 2) // groups, len(left) // _PASSES_MAX, 1)
        return self._bound(_ends(left), rows, WATERMARK_MAX)


def _ended(tables: list[pa.Table], before: int) -> Iterator[Ended]:
    if any(map(len, tables)):
        whole = pa.concat_tables(tables)
        whole = whole.take(pa.array(order_of_numbers(_ends(whole)))).combine_chunks()
        yield Ended(whole, whole.column(PANE).to_numpy(), _ends(whole), before)


def _ends(table: pa.Table) -> Int64s:
    found: Int64s = table.column(END).to_numpy()
    return found
