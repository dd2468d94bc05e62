"""Any number of rows for each key, found by key and event time, and dropped behind the watermark.

Rows lie in tables sorted by hash of the key and time, so the rows of a key in an interval of time are one run
of each table. A key is its hash here, as numbers of keys would have to be kept for ever; the keys of rows
that are found are compared. Newer tables are merged as they grow, so there are few. Rows that the watermark
has passed are only counted: a table of which half has gone is written anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.runtime.worker.operators.columns.panes import hashes_of_rows
from headgate.runtime.worker.operators.columns.timed.finding_partners import spread
from headgate.runtime.worker.operators.columns.timed.layers import Layer, kept_of, layer_of, merged
from headgate.runtime.worker.operators.columns.updating.by_key.appended_rows import Piece, taken

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.timed.layers import Bools

_TOGETHER: Final = 1 << 17
"""About so many pairs are found at once."""


class Pairs(NamedTuple):
    """Indices of the rows that were asked for, and for each the place of a row that was found."""

    asked: Int64s
    places: Int64s


class RowsView(NamedTuple):
    """A table of rows at a snapshot: the first `gone` of `by_time` are not there any more."""

    table: pa.Table
    flags: Bools
    by_time: Int64s
    gone: int

    def rows(self) -> tuple[pa.Table, Bools]:
        """Return the rows that are there, and their flags."""
        if not self.gone:
            return self.table, self.flags
        kept = kept_of(self.by_time, self.gone)
        return self.table.filter(pa.array(kept)), self.flags[kept]


class TimedRows:
    """Rows of the columns `schema`, each with a flag. `PANE` is their time (ms), and `keys` are their key."""

    def __init__(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        self._schema, self._keys = schema, keys
        self._layers: list[Layer] = []

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(layer.there for layer in self._layers)

    def add(self, table: pa.Table, flags: Bools | None = None) -> None:
        """Add rows; of those with equal key and time, earlier ones come first. None: no row is flagged."""
        if not table.num_rows:
            return
        flags = np.zeros(table.num_rows, np.bool_) if flags is None else flags
        # Rows that come have columns without nulls, restored ones do not say so.
        rows = pa.Table.from_arrays(table.select(self._schema.names).columns, schema=self._schema)
        self._layers.append(layer_of(rows, flags, self._keys))
        while len(self._layers) > 1 and self._layers[-1].there * 2 > self._layers[-2].there:
            newer, older = self._layers.pop(), self._layers.pop()
            self._layers.append(self._merged(older, newer))

    def _merged(self, older: Layer, newer: Layer) -> Layer:
        return merged(older, newer)

    def within(self, asked: pa.Table, lows: Int64s, highs: Int64s) -> Iterator[Pairs]:
        """Yield the rows with the key of a row of `asked` and a time from its low to its high, both included.
        Between two steps flags may be set, and nothing else may be changed.
        """
        hashes = hashes_of_rows(asked, self._keys)
        for first, layer in self._placed():
            starts = layer.rows.bounds(hashes, lows, "left")
            counts = layer.rows.bounds(hashes, highs, "right") - starts
            for part in _parts(counts):
                indices, places = spread(starts[part], counts[part])
                indices += part.start
                same = self._same(asked, indices, layer, places)
                yield Pairs(indices[same], first + places[same])

    def _same(self, asked: pa.Table, indices: Int64s, layer: Layer, places: Int64s) -> Bools:
        found = np.ones(len(indices), np.bool_)
        for name in self._keys:
            mine, others = asked.column(name).take(pa.array(indices)), layer.table.column(name)
            found &= pc.equal(mine, others.take(pa.array(places))).to_numpy()
        return found

    def _placed(self) -> Iterator[tuple[int, Layer]]:
        first = 0
        for layer in self._layers:
            yield first, layer
            first += layer.table.num_rows

    def take(self, places: Int64s) -> pa.Table:
        """Return the rows at places that were found since the last change, in order."""
        return taken([Piece(first, layer.table) for first, layer in self._placed()], places, self._schema)

    def flag(self, places: Int64s) -> Int64s:
        """Flag the rows at these places; return those of the places that had no flag, each once."""
        found, places = [np.zeros(0, np.int64)], np.unique(places)
        for first, layer in self._placed():
            start, stop = np.searchsorted(places, [first, first + layer.table.num_rows])
            mine = places[start:stop] - first
            new = mine[~layer.flags[mine]]
            layer.flags[new] = True
            found.append(new + first)
        return np.concatenate(found)

    def go(self, limit: int) -> list[tuple[Layer, Int64s]]:
        """Let all rows go whose time is at most `limit`; return them by table, each as indices."""
        gone = [(layer, layer.go(limit)) for layer in self._layers]
        if any(len(indices) for _, indices in gone):
            there = [layer for layer in self._layers if layer.there]
            self._layers = [layer.only(layer.kept()) if layer.sparse else layer for layer in there]
        return [each for each in gone if len(each[1])]

    def view(self) -> list[RowsView]:
        """Return the rows as they are now; later changes do not reach them."""
        return [RowsView(each.table, each.flags.copy(), each.by_time, each.gone) for each in self._layers]


def unflagged(gone: Sequence[tuple[Layer, Int64s]]) -> pa.Table | None:
    """Return the rows without a flag among those that went, ascending by time; None: there is none."""
    tables, times = [], []
    for layer, indices in gone:
        alone = indices[~layer.flags[indices]]
        tables.append(layer.table.take(pa.array(alone)))
        times.append(layer.rows.times[alone])
    if not sum(map(len, times)):
        return None
    return pa.concat_tables(tables).take(pa.array(np.argsort(np.concatenate(times), kind="stable")))


def passed(mark: int, kept_ms: int) -> int:
    """Return the last time of rows that the watermark `mark` has passed by `kept_ms`, all in ms."""
    return min(max(mark - kept_ms, WATERMARK_MIN), WATERMARK_MAX)


def _parts(counts: Int64s) -> Iterator[slice]:
    """Yield ranges of rows that have about `_TOGETHER` of `counts` together, without those after the last."""
    ends = np.cumsum(counts)
    if not len(ends) or not ends[-1]:
        return
    cuts = np.flatnonzero(np.diff((ends - 1) // _TOGETHER)) + 1
    for start, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), len(counts)], strict=True):
        yield slice(start, stop)
