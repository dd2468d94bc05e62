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
import pyarrow.compute as pc

from headgate.common.keys.keygroups_vectorised import groups_of_hashes
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.runtime.worker.operators.columns.kept_windows import PANE, ROWS, Ended, WindowsView
from headgate.runtime.worker.operators.columns.panes import hashes_of_rows
from headgate.runtime.worker.operators.columns.session_grouping import END, SessionGrouping
from headgate.runtime.worker.operators.columns.sessions import SessionWindows, sessions_after
from headgate.runtime.worker.operators.columns.spilled import spill as portions
from headgate.runtime.worker.operators.columns.spilled.spill import Spill
from headgate.runtime.worker.operators.columns.spilled.spilled_panes import SpilledWindows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

_PLACE: Final = 0
"""All chunks lie at one place: a session has none of its own."""
_FOR_SNAPSHOT: Final = 1
"""The place of copies of what is in memory, which are there only while a snapshot is taken."""
_PASSES_MAX: Final = 16
"""So often at most chunks are read in the time that a session is open, however little memory there is."""


class SpilledSessions(SpilledWindows):
    """Open sessions by key with a budget of `memory` bytes, for event time from the watermark `mark` on."""

    def __init__(self, spill: Spill, grouping: SessionGrouping, mark: int, memory: int) -> None:
        super().__init__(spill, mark, memory)
        self._grouping, self._limit = grouping, memory
        self._loaded = mark
        self._let_go()

    # -- what comes in

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        late = _ends(rows) - 1 <= self._ahead.marks_of(rows, marks)
        if not late.any():
            self._put_in_time(rows.drop_columns(ROWS))
            return 0
        self._put_in_time(rows.filter(pa.array(~late)).drop_columns(ROWS))
        too_late = rows.filter(pa.array(late))
        self._take_out(too_late)
        return self._memory.put_late(too_late)

    def _still_open(self, table: pa.Table, mark: int) -> pa.Table:
        return sessions_after(table, mark)

    def _put_in_time(self, table: pa.Table) -> None:
        if self._chunks and len(table):
            soon = _ends(table) <= self._loaded
            if soon.any():
                self._take_out(table.filter(pa.array(soon)))
        self.put(table)

    def _take_out(self, rows: pa.Table) -> None:
        # Moves stored sessions that `rows` may touch into memory; all stored ones end later than `rows`.
        if not self._chunks:
            return
        hashes, until = np.unique(hashes_of_rows(rows, self._spill.columns.keys)), int(_ends(rows).max())
        stored = set(self._chunks.groups_at([_PLACE]))
        groups = np.unique(groups_of_hashes(hashes, self._spill.columns.max_parallelism)).tolist()
        for group in stored.intersection(groups):
            tables = self._spill.tables(group, [_PLACE])
            found = [self._of_hashes(each, hashes) & (_starts(each) <= until) for each in tables]
            if any(each.any() for each in found):
                rest = [t.filter(pa.array(~hit)) for t, hit in zip(tables, found, strict=True)]
                self._replace(group, len(tables), rest)
                for table, hit in zip(tables, found, strict=True):
                    self._memory.put(table.filter(pa.array(hit)))

    def _of_hashes(self, table: pa.Table, hashes: NDArray[np.uint32]) -> NDArray[np.bool_]:
        mine = pa.array(hashes_of_rows(table, self._spill.columns.keys))
        found: NDArray[np.bool_] = pc.is_in(mine, pa.array(hashes)).to_numpy(zero_copy_only=False)
        return found

    def _replace(self, group: int, chunks: int, tables: list[pa.Table]) -> None:
        pieces = [self._spill.columns.piece(group, _PLACE, table) for table in tables if len(table)]
        self._chunks.replace(group, _PLACE, chunks, pieces)

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
        whole = self._whole()
        if whole is None:
            return
        ends = _ends(whole)
        most = self._loaded if self._chunks else WATERMARK_MAX
        self._loaded = self._bound(ends, self._rows_of(whole, self._limit // 4), most)
        self._let_go()
        self._memory.put(whole.filter(pa.array(ends <= self._loaded)))
        self._spill.write(whole.filter(pa.array(ends > self._loaded)), _PLACE)

    def _whole(self) -> pa.Table | None:
        tables = [table for view in self.at_snapshot() for table in view.tables() if len(table)]
        return self._spill.columns.in_order(pa.concat_tables(tables)) if tables else None

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
        whole = self._whole()
        if whole is not None:
            self._spill.write(whole, _FOR_SNAPSHOT)

    def stored(self) -> None:
        self._chunks.drop([_FOR_SNAPSHOT])

    def restored(self) -> None:
        """Move restored copies of sessions that were in memory to the chunks of the other sessions."""
        for group in self._chunks.groups_at([_FOR_SNAPSHOT]):
            tables = self._spill.tables(group, [_FOR_SNAPSHOT])
            self._chunks.add(self._spill.columns.piece(group, _PLACE, table) for table in tables)
        self._chunks.drop([_FOR_SNAPSHOT])
        self._loaded = self._mark

    # -- event time

    def reached(self, mark: int) -> Iterator[Ended]:
        before, self._mark = self._mark, mark
        self._ahead.reached(mark)
        if self._chunks and mark >= self._loaded:
            yield from self._read_on(before)
        yield from self._memory.reached(mark)

    def _read_on(self, before: int) -> Iterator[Ended]:
        # Yields ended sessions (sent at `before`), keeps in memory what ends soon, and stores the rest again.
        whole = self._whole()
        memory = {} if whole is None else self._spill.columns.by_group(whole)
        self._let_go()
        stored = self._chunks.groups_at([_PLACE])
        kept = [table for group, table in memory.items() if group not in set(stored)]
        over, bound = list[pa.Table](), None
        for group in stored:
            tables = self._spill.tables(group, [_PLACE])
            found = self._merged([*tables, *([memory[group]] if group in memory else [])])
            gone = _ends(found) - 1 <= self._mark
            over.append(found.filter(pa.array(gone)))
            left = found.filter(pa.array(~gone))
            bound = self._new_bound(left, len(stored)) if bound is None else bound
            soon = _ends(left) <= bound
            kept.append(left.filter(pa.array(soon)))
            self._replace(group, len(tables), [left.filter(pa.array(~soon))])
            if sum(map(len, over)) >= portions.PORTION_ROWS:
                yield from _ended(over, before)
                over = []
        yield from _ended(over, before)
        self._loaded = WATERMARK_MAX if bound is None else bound
        self.put(pa.concat_tables(kept))

    def _new_bound(self, left: pa.Table, groups: int) -> int:
        rows = max(self._rows_of(left, self._limit // 2) // groups, len(left) // _PASSES_MAX, 1)
        return self._bound(_ends(left), rows, WATERMARK_MAX)

    def _merged(self, tables: list[pa.Table]) -> pa.Table:
        if len(tables) == 1:
            return tables[0]
        largest = max(range(len(tables)), key=lambda place: len(tables[place]))
        others = [table for place, table in enumerate(tables) if place != largest]
        hashes = [hashes_of_rows(table, self._spill.columns.keys) for table in others]
        met = self._of_hashes(tables[largest], np.unique(np.concatenate(hashes)))
        alone = tables[largest].filter(pa.array(~met))
        tables[largest] = tables[largest].filter(pa.array(met))
        merged = self._grouping.merged(pa.concat_tables(tables))
        return pa.concat_tables([alone, self._spill.columns.in_order(merged)])


def _ended(tables: list[pa.Table], before: int) -> Iterator[Ended]:
    if any(map(len, tables)):
        whole = pa.concat_tables(tables)
        whole = whole.take(pa.array(np.argsort(_ends(whole), kind="stable"))).combine_chunks()
        yield Ended(whole, _starts(whole), _ends(whole), before)


def _ends(table: pa.Table) -> Int64s:
    found: Int64s = table.column(END).to_numpy()
    return found


def _starts(table: pa.Table) -> Int64s:
    found: Int64s = table.column(PANE).to_numpy()
    return found
