"""Session windows of a subtask: sessions that are open, in tables ordered by the hashes of their keys.

Each batch adds a table of sessions. Sessions of one key that overlap may lie in several tables. They are
merged when one of them would end, or when newer tables have grown as large as an older one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.time import WATERMARK_MAX
from headgate.relational.aggregating.accumulators import Accumulator
from headgate.runtime.worker.operators.columns.groups_ahead import RestoredByGroup
from headgate.runtime.worker.operators.columns.kept_windows import (
    PANE,
    ROWS,
    Ended,
    WindowsView,
)
from headgate.runtime.worker.operators.columns.panes import hashes_of_rows
from headgate.runtime.worker.operators.columns.session_grouping import END, InOrder, SessionGrouping
from headgate.runtime.worker.operators.columns.sorting import distinct, order_of_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

    Hashes = NDArray[np.uint32]

_LATE = "__late"
_MERGED_TOGETHER: Final = 4
"""So many tables become one, unless the oldest is larger than all others together."""


class Layer:
    """A table of sessions, ordered by the hash of their keys; sessions can be taken out of it.
    One batch, or several merged ones, make a layer; the table itself never changes.
    """

    def __init__(self, table: pa.Table, hashes: Hashes) -> None:
        self._table, self._hashes = table, hashes
        self._starts, self._ends = self._table.column(PANE).to_numpy(), self._table.column(END).to_numpy()
        self._there = np.ones(len(hashes), dtype=np.bool_)
        self.rows = len(hashes)

    def ended(self, mark: int) -> Hashes:
        """Return the key hashes of sessions that watermark `mark` (ms) ends; the sessions stay here.
        A hash may be there several times, and keys that differ may have one hash.
        """
        over: Hashes = self._hashes[self._there & (self._ends - 1 <= mark)]
        return over

    def due(self, after: int, mark: int, limit: int) -> Hashes:
        """Return the key hashes of sessions whose last ms is in (`after`, `mark`], or at `limit` or before.
        The sessions stay here. A hash may be there several times.
        """
        last = self._ends - 1
        found: Hashes = self._hashes[self._there & (((last > after) & (last <= mark)) | (last <= limit))]
        return found

    def taken(self, wanted: Hashes, until: int) -> pa.Table:
        """Remove and return the sessions with key hashes in `wanted` (ascending) that begin by `until` (ms).
        Keys that differ may have one hash, so there may be sessions of other keys; all columns are returned.
        """
        first = np.searchsorted(self._hashes, wanted, side="left")
        found = _ranges(first, np.searchsorted(self._hashes, wanted, side="right") - first)
        found = found[self._there[found] & (self._starts[found] <= until)]
        self._there[found] = False
        self.rows -= len(found)
        return self._table.take(pa.array(found))

    def first_end(self) -> int | None:
        return int(self._ends[self._there].min()) if self.rows else None

    @property
    def size(self) -> int:
        return int(self._table.nbytes) + 5 * len(self._there)

    def in_order(self) -> InOrder:
        if self.rows == len(self._there):
            return InOrder(self._table, self._hashes)
        return InOrder(self._table, self._hashes).where(self._there)

    def left(self) -> tuple[pa.Table, pa.Array]:
        return self._table, pa.array(self._there.copy())


def sessions_after(table: pa.Table, mark: int) -> pa.Table:
    """Return the restored sessions that had not ended at the watermark `mark` (ms).
    Others were kept for late rows only, which the present program does not take any more.
    """
    return table.filter(pa.array(table.column(END).to_numpy() - 1 > mark))


class SessionWindows(RestoredByGroup):
    """The open sessions by key of a subtask, in memory, from its watermark `mark` on.
    A late session is merged into an open one that it meets; late ones of a batch are looked at together.
    """

    def __init__(self, grouping: SessionGrouping, mark: int, max_parallelism: int) -> None:
        self._grouping, self._keys = grouping, grouping.keys[1:]
        super().__init__(self._keys, mark, max_parallelism)
        self._layers: list[Layer] = []

    def _still_open(self, table: pa.Table, mark: int) -> pa.Table:
        return sessions_after(table, mark)

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        late = rows.column(END).to_numpy() - 1 <= self._ahead.marks_of(rows, marks)
        if not late.any():
            self.put(rows.drop_columns(ROWS))
            return 0
        self.put(rows.filter(pa.array(~late)).drop_columns(ROWS))
        return self.put_late(rows.filter(pa.array(late)))

    def put_late(self, rows: pa.Table) -> int:
        """Add late sessions that meet an open one, and drop the others; return the number of input rows
        dropped. `rows` have the column `ROWS`: how many input rows each session was made of.
        """
        if not self._layers:
            return int(rows.column(ROWS).to_numpy().sum())
        until = int(rows.column(END).to_numpy().max())
        found = self._taken(distinct(hashes_of_rows(rows, self._keys)), until)
        both = pa.concat_tables(
            [
                rows.append_column(_LATE, pa.array(np.ones(len(rows), dtype=np.int64))),
                found.append_column(ROWS, _zeros(len(found))).append_column(_LATE, _zeros(len(found))),
            ]
        )
        merged = _with_late(self._grouping).merged(both)
        lost = merged.column(_LATE).to_numpy() > 0
        self.put(merged.filter(pa.array(~lost)).drop_columns([ROWS, _LATE]))
        return int(merged.column(ROWS).to_numpy()[lost].sum())

    def put(self, table: pa.Table) -> None:
        """Add sessions, none of which is late; those that overlap open ones are merged with them later on."""
        if not len(table):
            return
        self.put_in_order(self._grouping.in_order(table, hashes_of_rows(table, self._keys)))

    def put_in_order(self, found: InOrder) -> None:
        """As :meth:`put`, for sessions that are merged among themselves and in order."""
        if not len(found.hashes):
            return
        layers = self._layers
        layers.append(Layer(*found))
        while len(last := layers[-_MERGED_TOGETHER:]) == _MERGED_TOGETHER:
            if last[0].rows > sum(layer.rows for layer in last[1:]):
                break
            layers[-_MERGED_TOGETHER:] = [Layer(*self._merged(last))]

    def _merged(self, layers: list[Layer]) -> InOrder:
        left = [layer.in_order() for layer in layers]
        tables = pa.concat_tables([each.table for each in left])
        return self._grouping.in_order(tables, np.concatenate([each.hashes for each in left]))

    def whole(self) -> InOrder | None:
        """Return all sessions; they stay here, in one table from now on. None: there is none."""
        if len(self._layers) > 1:
            self._layers = [Layer(*self._merged(self._layers))]
        return self._layers[0].in_order() if self._layers else None

    def _taken(self, wanted: Hashes, until: int) -> pa.Table:
        found = pa.concat_tables([layer.taken(wanted, until) for layer in self._layers])
        self._layers = [layer for layer in self._layers if layer.rows]
        return found

    def reached(self, mark: int) -> list[Ended]:
        """Return the sessions that the watermark `mark` (ms) ends, ascending by end, and forget them."""
        self._mark = mark
        self._ahead.reached(mark)
        ended = [hashes for layer in self._layers if len(hashes := layer.ended(mark))]
        if not ended:
            return []
        # What would make such a session longer begins at its end at the latest.
        until = min(mark, WATERMARK_MAX - 1) + 1
        found = self._grouping.merged(self._taken(distinct(np.concatenate(ended)), until))
        over = found.column(END).to_numpy() - 1 <= mark
        self.put(found.filter(pa.array(~over)))
        done = found.filter(pa.array(over)).combine_chunks()
        if not len(done):
            return []
        done = done.take(pa.array(order_of_numbers(done.column(END).to_numpy())))
        return [Ended(done, done.column(PANE).to_numpy(), done.column(END).to_numpy())]

    def next_end(self) -> int | None:
        """Return when the next session ends (ms), too early if rows extended it; None: there is none."""
        return min((end for layer in self._layers if (end := layer.first_end()) is not None), default=None)

    def size(self) -> int:
        return sum(layer.size for layer in self._layers)

    def at_snapshot(self) -> list[WindowsView]:
        return [SessionsView(self._grouping, [layer.left() for layer in self._layers])]


class SessionsView:
    """The sessions as they were at a snapshot, for the thread that writes them: tables, each with a mask."""

    def __init__(self, grouping: SessionGrouping, tables: list[tuple[pa.Table, pa.Array]]) -> None:
        self._grouping, self._tables = grouping, tables

    def tables(self) -> Iterator[pa.Table]:
        if self._tables:
            yield self._grouping.merged(_concatenated(self._tables))

    def where(self, keep: Callable[[pa.Table], NDArray[np.bool_]]) -> SessionsView:
        found = [(table, pc.and_(left, pa.array(keep(table)))) for table, left in self._tables]
        return SessionsView(self._grouping, found)

    def release(self) -> None:
        self._tables = []


def _with_late(grouping: SessionGrouping) -> SessionGrouping:
    more = (
        (ROWS, Accumulator("rows", pa.int64(), "sum", "sum")),
        (_LATE, Accumulator("late", pa.int64(), "min", "min")),
    )
    return SessionGrouping(grouping.keys, (*grouping.columns, *more))


def _concatenated(tables: list[tuple[pa.Table, pa.Array]]) -> pa.Table:
    return pa.concat_tables([table.filter(left) for table, left in tables])


def _zeros(count: int) -> pa.Array:
    return pa.array(np.zeros(count, dtype=np.int64))


def _ranges(first: Int64s, counts: Int64s) -> Int64s:
    before = np.cumsum(counts) - counts
    return np.repeat(first - before, counts) + np.arange(int(counts.sum()))
