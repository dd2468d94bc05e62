"""One table of rows that are sorted by key and time, and what of it the watermark has passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.panes import hashes_of_rows
from headgate.runtime.worker.operators.columns.timed.finding_partners import Sorted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

    Bools = NDArray[np.bool_]

_GONE: Final = 2
"""A table of which one in so many rows has gone is written anew."""


class Layer:
    """Rows with the column `PANE`, their time, sorted by hash of the key and time; only `flags` ever change.

    Attributes:
        rows: the hashes and times of the rows.
        by_time: indices of the rows, ascending by time.
        gone: so many rows have gone, the first ones of `by_time`.
    """

    __slots__ = ("_times", "by_time", "flags", "gone", "rows", "table")

    def __init__(self, table: pa.Table, rows: Sorted, flags: Bools) -> None:
        self.table, self.rows, self.flags = table, rows, flags
        self.by_time: Int64s = np.argsort(rows.times, kind="stable")
        self._times = rows.times[self.by_time]
        self.gone = 0

    @property
    def there(self) -> int:
        """How many rows have not gone."""
        return len(self.by_time) - self.gone

    def go(self, limit: int) -> Int64s:
        """Let all rows go whose time is at most `limit`, and return their indices, ascending by time."""
        end = int(np.searchsorted(self._times, limit, "right"))
        gone = self.by_time[self.gone : end]
        self.gone = max(self.gone, end)
        return gone

    @property
    def sparse(self) -> bool:
        """Whether so many rows have gone that the table should be written anew."""
        return self.gone * _GONE > len(self.by_time)

    def kept(self) -> Bools:
        """Return which rows have not gone."""
        return kept_of(self.by_time, self.gone)

    def only(self, keep: Bools) -> Layer:
        """Return the rows that `keep` says, none of which has gone, in a new table."""
        rows = Sorted(self.rows.hashes[keep], self.rows.times[keep])
        return Layer(self.table.filter(pa.array(keep)).combine_chunks(), rows, self.flags[keep])


def kept_of(by_time: Int64s, gone: int) -> Bools:
    """Return which rows are there, if the first `gone` of `by_time` are not."""
    kept = np.ones(len(by_time), np.bool_)
    kept[by_time[:gone]] = False
    return kept


def layer_of(table: pa.Table, flags: Bools, keys: Sequence[str]) -> Layer:
    """Return rows in any order, with their times in `PANE`, as a layer; `keys` are the columns of the key."""
    hashes, times = hashes_of_rows(table, keys), table.column(PANE).to_numpy()
    order = np.lexsort((times, hashes))
    rows = Sorted(hashes[order], times[order])
    return Layer(table.take(pa.array(order)).combine_chunks(), rows, flags[order])


def merged(older: Layer, newer: Layer) -> Layer:
    """Return the rows of both; of those with equal key and time the older layer's come first."""
    parts = [each if not each.gone else each.only(each.kept()) for each in (older, newer)]
    hashes = np.concatenate([each.rows.hashes for each in parts])
    times = np.concatenate([each.rows.times for each in parts])
    order = np.lexsort((times, hashes))
    table = pa.concat_tables([each.table for each in parts]).take(pa.array(order)).combine_chunks()
    flags = np.concatenate([each.flags for each in parts])[order]
    return Layer(table, Sorted(hashes[order], times[order]), flags)
