"""Any number of rows for each key, added and found a whole batch at a time.

Rows lie where they came, in tables that never change. Beside each table is an index: the places of its rows,
sorted by the number of their key, so those of a key are one run. The runs of a key are linked, from the
newest table to the oldest. Sixteen tables of about one size become one, so a key has few runs, and a row is
copied a logarithmic number of times. Their indices are sorted, so they are merged and not sorted anew, unless
rows were taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.updating.by_key.appended_rows import (
    Piece,
    taken,
    taken_by_piece,
)
from headgate.runtime.worker.operators.columns.updating.by_key.growing import Growing
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT, net_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

TOGETHER: Final = 16
"""So many tables of one size become one."""

_NUMBER: Final = "__number"
_END: Final = -1
"""Instead of a run: there are no more."""


class Runs(NamedTuple):
    """Runs of rows: where each begins in the index, `counts`, the `numbers` of their keys, and for each the
    key's next older run, which is of an older table.
    """

    firsts: Int64s
    counts: Int64s
    numbers: Int64s
    older: Int64s


class Part(NamedTuple):
    """A table of rows with its index: of each run the number of its key, and how many rows it has, and the
    indices of the rows, run after run.
    """

    numbers: Int64s
    counts: Int64s
    rows: Int64s
    table: pa.Table


class _Indexed(NamedTuple):
    piece: Piece
    order: Int64s  # indices of its rows, run after run
    numbers: Int64s  # of its runs' keys
    counts: Int64s  # of rows in its runs
    runs: int  # the number of its first run
    size: int  # how often tables were merged for it


class KeyedBags:
    """Rows of the columns `values`, each for a key by its number (see `KeyNumbers`)."""

    def __init__(self, values: pa.Schema) -> None:
        self._values = values
        self._weighted = WEIGHT in values.names
        self._tables: list[_Indexed] = []
        self._runs = Growing(4)
        self._places = Growing(1)
        self._newest = np.full(1 << 10, _END, np.int64)  # of each key: its newest run

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(each.piece.table.num_rows for each in self._tables)

    def add(self, numbers: Int64s, rows: pa.Table) -> None:
        """Add `rows`, each for the key of that number."""
        if not len(numbers):
            return
        self._make_room(int(numbers.max()) + 1)
        order = np.argsort(numbers, kind="stable")
        self._append(rows.select(self._values.names), order, numbers[order], self._newest, 0)
        while len(self._tables) >= TOGETHER and self._tables[-TOGETHER].size == self._tables[-1].size:
            self._merge_last()

    def find(self, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """Return pairs of (index into `numbers`, place of a row): one for each row of each of these keys."""
        known = numbers < len(self._newest)
        rows = np.flatnonzero(known)
        runs = self._newest[numbers[rows]]
        found: list[tuple[Int64s, Int64s]] = []
        firsts, counts, _, older = self._runs.columns
        while len(rows):
            left = runs != _END
            rows, runs = rows[left], runs[left]
            found.append(_spread(rows, firsts[runs], counts[runs]))
            runs = older[runs]
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        indices, places = zip(*found, strict=True)
        return np.concatenate(indices), self._places.columns[0][np.concatenate(places)]

    def there(self, numbers: Int64s) -> NDArray[np.bool_]:
        """Return for each of these keys whether it has rows."""
        found = np.zeros(len(numbers), np.bool_)
        known = np.flatnonzero(numbers < len(self._newest))
        found[known] = self._newest[numbers[known]] != _END
        return found

    @property
    def row_bytes(self) -> float:
        """How many bytes a row has, about: of those that came last."""
        newest = self._tables[-1].piece.table if self._tables else None
        return newest.nbytes / newest.num_rows if newest is not None and newest.num_rows else 0.0

    def view(self) -> list[Part]:
        """Return the rows as they are now; later changes do not reach the parts."""
        return [Part(each.numbers, each.counts, each.order, each.piece.table) for each in self._tables]

    def take(self, places: Int64s) -> pa.Table:
        """Return the rows at places that :meth:`find` returned, in order."""
        return taken([each.piece for each in self._tables], places, self._values)

    def take_together(self, indices: Int64s, places: Int64s) -> tuple[Int64s, pa.Table]:
        """Return the pairs that :meth:`find` returned, with rows for their places, in any order."""
        found, order = taken_by_piece([each.piece for each in self._tables], places, self._values)
        return (indices if order is None else indices[order]), found

    @property
    def _end(self) -> int:
        return self._tables[-1].piece.places_end if self._tables else 0

    def _make_room(self, keys: int) -> None:
        if keys > len(self._newest):
            grown = np.full(max(keys, 2 * len(self._newest)), _END, np.int64)
            grown[: len(self._newest)] = self._newest
            self._newest = grown

    def _append(self, table: pa.Table, order: Int64s, ordered: Int64s, older: Int64s, size: int) -> None:
        """Append `table`, whose rows are sorted in `order` by the numbers `ordered` of their keys."""
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        of_runs, counts = ordered[starts], np.diff(starts, append=len(ordered))
        first, piece = self._runs.count, Piece(self._end, table.combine_chunks())
        self._tables.append(_Indexed(piece, order, of_runs, counts, first, size))
        runs = Runs(self._places.count + starts, counts, of_runs, older[of_runs])
        self._places.extend([piece.first + order])
        self._runs.extend(runs)
        self._newest[of_runs] = np.arange(first, self._runs.count)

    def _merge_last(self) -> None:
        merged, self._tables = self._tables[-TOGETHER:], self._tables[:-TOGETHER]
        _, _, numbers, older = (column[merged[0].runs :] for column in self._runs.columns)
        # The oldest of a key's runs knows what is older still.
        keys, oldest = np.unique(numbers, return_index=True)
        before = np.full(int(keys[-1]) + 1, _END, np.int64)
        before[keys] = older[oldest]
        whole = pa.concat_tables([each.piece.table for each in merged])
        order, ordered = _merged_order(merged)
        if self._weighted and (whole.column(WEIGHT).to_numpy() < 0).any():
            whole, order, ordered = _net(whole, order, ordered)
        self._places.cut(self._places.count - sum(len(each.order) for each in merged))
        self._runs.cut(merged[0].runs)
        self._newest[keys] = before[keys]
        if whole.num_rows:
            self._append(whole, order, ordered, before, merged[0].size + 1)


def _merged_order(merged: list[_Indexed]) -> tuple[Int64s, Int64s]:
    """Return how the rows of all these tables, one after the other, are sorted, and their keys' numbers."""
    numbers = np.concatenate([np.repeat(each.numbers, each.counts) for each in merged])
    first = merged[0].piece.first
    rows = np.concatenate([each.order + (each.piece.first - first) for each in merged])
    # Each table's part is sorted: a stable sort merges them, in a fifth of the time of a whole one.
    order = np.argsort(numbers, kind="stable")
    return rows[order], numbers[order]


def _net(rows: pa.Table, order: Int64s, ordered: Int64s) -> tuple[pa.Table, Int64s, Int64s]:
    numbers = np.empty(len(order), np.int64)
    numbers[order] = ordered
    found = net_rows(rows.append_column(_NUMBER, pa.array(numbers)))
    numbers = found.column(_NUMBER).to_numpy()
    order = np.argsort(numbers, kind="stable")
    return found.drop_columns(_NUMBER), order, numbers[order]


def _spread(rows: Int64s, firsts: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return for each run its row, repeated, with each of the run's places."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    within = np.arange(total) - np.repeat(ends - counts, counts)
    return np.repeat(rows, counts), np.repeat(firsts, counts) + within
