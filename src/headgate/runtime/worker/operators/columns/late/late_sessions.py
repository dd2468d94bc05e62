"""Session windows with allowed lateness: they take late rows for a while after their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.common.time import WATERMARK_MAX
from headgate.relational.aggregating.accumulators import Accumulator
from headgate.runtime.worker.operators.columns.kept_windows import PANE, Ended
from headgate.runtime.worker.operators.columns.late.patient_windows import Again, Taken, horizon, horizons
from headgate.runtime.worker.operators.columns.late.running_results import nth_of_key
from headgate.runtime.worker.operators.columns.panes import hashes_of_rows
from headgate.runtime.worker.operators.columns.session_grouping import END, SessionGrouping, key_numbers
from headgate.runtime.worker.operators.columns.sessions import SessionWindows
from headgate.runtime.worker.operators.columns.sorting import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

_PLACE: Final = "__place"
_PARTS: Final = "__parts"
_NONE: Final = 2**62
"""The place of a session that no late row is in."""


class LateSessions(SessionWindows):
    """Sessions by key, kept until the watermark passes their end by `lateness_ms`.
    Sessions whose last ms is `forgotten` or before were dropped by an earlier run; late rows make none new.
    """

    def __init__(
        self, grouping: SessionGrouping, mark: int, max_parallelism: int, lateness_ms: int, forgotten: int
    ) -> None:
        super().__init__(grouping, mark, max_parallelism)
        self._lateness, self._forgotten = lateness_ms, forgotten
        self._names = [*grouping.keys, *(name for name, _ in grouping.fields)]
        more = ((_PLACE, Accumulator("place", pa.int64(), "min", "min")),
                (_PARTS, Accumulator("parts", pa.int64(), "sum", "sum")))  # fmt: skip
        self._placing = SessionGrouping(grouping.keys, (*grouping.columns, *more))

    @property
    def forgotten(self) -> int:
        return max(self._forgotten, horizon(self._mark, self._lateness))

    def _still_open(self, table: pa.Table, mark: int) -> pa.Table:
        return table  # also those that have ended: late rows may still come

    def marks_of(self, rows: pa.Table, marks: Int64s) -> Int64s:
        return self._ahead.marks_of(rows, marks)

    def may_be_late(self, rows: pa.Table, marks: Int64s) -> NDArray[np.bool_]:
        # By its own time: a session that such a row would extend may have ended.
        return np.asarray(rows.column(PANE).to_numpy() <= marks)

    def add_late(self, rows: pa.Table, marks: Int64s) -> Taken:
        dropped, fired = np.zeros(len(rows), dtype=np.bool_), list[Again]()
        for places in _one_of_each_key(rows, self._keys):
            part = rows.take(pa.array(places)).select(self._names)
            found = self._placed(part, places, int(marks[places].max()))
            of = found.column(_PLACE).to_numpy()
            late, last = of < _NONE, found.column(END).to_numpy() - 1
            at = marks[np.where(late, of, 0)]
            limits = np.maximum(horizons(at, self._lateness), self._forgotten)
            gone = late & (found.column(_PARTS).to_numpy() == 1) & (last <= limits)
            dropped[of[gone]] = True
            self.put(found.filter(pa.array(~gone)).select(self._names))
            again = np.flatnonzero(late & ~gone & (last <= at))
            again = again[np.argsort(last[again], kind="stable")]
            if len(again):
                fired.append(Again(_as_ended(found.take(pa.array(again)).select(self._names)), of[again]))
        return Taken(fired, dropped)

    def _placed(self, rows: pa.Table, places: Int64s, mark: int) -> pa.Table:
        # Takes out the sessions that late `rows` (one per key at most) may touch, and merges both. `mark`:
        # greatest watermark of `rows`. `_PLACE`: the place (of `places`) of the late row in a session, else
        # `_NONE`; `_PARTS`: of how many sessions it was merged.
        until = max(int(rows.column(END).to_numpy().max()), min(mark, WATERMARK_MAX - 1) + 1)
        mine = rows.append_column(_PLACE, pa.array(places)).append_column(_PARTS, _ones(len(rows)))
        if not self._layers:
            return self._placing.merged(mine)
        known = self._sessions_of(rows, until)
        none = pa.array(np.full(len(known), _NONE))
        marked = known.select(self._names).append_column(_PLACE, none)
        return self._placing.merged(pa.concat_tables([mine, marked.append_column(_PARTS, _ones(len(known)))]))

    def _sessions_of(self, rows: pa.Table, until: int) -> pa.Table:
        found = self._taken(distinct(hashes_of_rows(rows, self._keys)), until)
        return self._grouping.merged(found) if len(found) else found.select(self._names)

    def open_now(self, touched: pa.Table) -> list[Ended]:
        if not self._layers:
            return []
        known = self._sessions_of(touched, WATERMARK_MAX)
        self.put(known)
        spans = [*self._grouping.keys, END]
        flags = SessionGrouping(self._grouping.keys, (*self._grouping.columns[:1], self._placing.columns[-2]))
        both = pa.concat_tables(
            [
                known.select(spans).append_column(_PLACE, pa.array(np.full(len(known), _NONE))),
                touched.select(spans).append_column(_PLACE, pa.array(np.zeros(len(touched), dtype=np.int64))),
            ]
        )
        found = flags.merged(both) if len(both) else both
        found = found.filter(pa.array(found.column(_PLACE).to_numpy() < _NONE)).select(self._grouping.keys)
        numbers = key_numbers(
            pa.concat_tables([known.select(self._grouping.keys), found]), self._grouping.keys
        )
        mine = np.isin(numbers[: len(known)], numbers[len(known) :])
        marks = self.marks_of(known, np.full(len(known), self._mark))
        mine &= known.column(END).to_numpy() - 1 > marks
        return [_as_ended(known.filter(pa.array(mine)))] if mine.any() else []

    def reached(self, mark: int) -> list[Ended]:
        before, self._mark = self._mark, mark
        limit = horizon(mark, self._lateness)
        due = [hashes for layer in self._layers if len(hashes := layer.due(before, mark, limit))]
        if not due:
            self._ahead.reached(mark)
            return []
        # What would make such a session longer begins at its end at the latest.
        until = min(mark, WATERMARK_MAX - 1) + 1
        found = self._grouping.merged(self._taken(distinct(np.concatenate(due)), until))
        last = found.column(END).to_numpy() - 1
        since = self.marks_of(found, np.full(len(found), before))  # what has ended then was emitted then
        self._ahead.reached(mark)
        self.put(found.filter(pa.array(last > limit)))
        over = (last > since) & (last <= mark)
        return [_as_ended(found.filter(pa.array(over)))] if over.any() else []


def _one_of_each_key(rows: pa.Table, keys: tuple[str, ...]) -> list[Int64s]:
    # In rounds: the first row of each key, then the second of each, and so on.
    nth = nth_of_key(rows, keys)
    return [np.flatnonzero(nth == number) for number in range(int(nth.max()) + 1)]


def _as_ended(table: pa.Table) -> Ended:
    table = table.combine_chunks()
    table = table.take(pa.array(np.argsort(table.column(END).to_numpy(), kind="stable")))
    return Ended(table, table.column(PANE).to_numpy(), table.column(END).to_numpy())


def _ones(count: int) -> pa.Array:
    return pa.array(np.ones(count, dtype=np.int64))
