"""Rows of which the last one before a time is looked up: the versions of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import pyarrow as pa

from headgate.common.time import WATERMARK_MIN
from headgate.runtime.worker.operators.columns.panes import hashes_of_rows
from headgate.runtime.worker.operators.columns.timed.layers import Layer, merged
from headgate.runtime.worker.operators.columns.timed.timed_rows import TimedRows

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.timed.layers import Bools

NONE: Final = -1
"""Instead of a place: there is no row."""


class Versions(TimedRows):
    """Timed rows that are looked up one for each key and time.

    Attributes:
        mark: the watermark. Of a key's rows up to it only the last one is asked for again, if `one_each`; the
            others go when tables are merged, so they are never more than the rows that are there.
    """

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...], *, one_each: bool) -> None:
        super().__init__(schema, keys)
        self._one_each, self.mark = one_each, WATERMARK_MIN

    def _merged(self, older: Layer, newer: Layer) -> Layer:
        whole = merged(older, newer)
        if not self._one_each:
            return whole
        replaced = self._replaced(whole)
        return whole.only(~replaced) if replaced.any() else whole

    def _replaced(self, layer: Layer) -> Bools:
        # Rows of another key with the same hash may lie between: then one more row stays.
        hashes, times = layer.rows
        last = np.zeros(len(times), np.bool_)
        next_ = np.flatnonzero((hashes[:-1] == hashes[1:]) & (times[1:] <= self.mark))
        last[next_] = self._same(layer.table, next_, layer, next_ + 1)
        return last

    def before(self, asked: pa.Table, times: Int64s, *, exact: bool) -> tuple[Int64s, Int64s]:
        """Return for each row of `asked` the place of the last row of its key before its time, and the time
        of that row. `exact`: or at its time. The place is `NONE` where there is no such row. Of rows with
        equal times it is the one that was added last.
        """
        return self._nearest(asked, times, -1, "right" if exact else "left")

    def after(self, asked: pa.Table, times: Int64s, *, exact: bool) -> tuple[Int64s, Int64s]:
        """Return the same of the first row after the time, or at it."""
        _, found = self._nearest(asked, times, 1, "left" if exact else "right")
        return self.before(asked, found, exact=True)

    def _nearest(
        self, asked: pa.Table, times: Int64s, step: Literal[-1, 1], side: Literal["left", "right"]
    ) -> tuple[Int64s, Int64s]:
        hashes = hashes_of_rows(asked, self._keys)
        places, found = np.full(len(times), NONE), np.full(len(times), WATERMARK_MIN)
        for first, layer in self._placed():
            low, high = layer.rows.run_of(hashes)
            at = layer.rows.bounds(hashes, times, side) - (step < 0)
            rows = np.flatnonzero((low <= at) & (at < high))
            while len(rows):
                same = self._same(asked, rows, layer, at[rows])
                mine = rows[same]
                there = layer.rows.times[at[mine]]
                # Layers come from the oldest to the newest: of equal times the last one counts.
                nearer = there >= found[mine] if step < 0 else there <= found[mine]
                mine, there = (each[nearer | (places[mine] == NONE)] for each in (mine, there))
                places[mine], found[mine] = first + at[mine], there
                # The others met rows of another key with the same hash, and look at the next ones.
                rows = rows[~same]
                at[rows] += step
                rows = rows[(low[rows] <= at[rows]) & (at[rows] < high[rows])]
        return places, found
