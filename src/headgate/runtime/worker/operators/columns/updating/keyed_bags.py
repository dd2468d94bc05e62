"""Any number of rows for each key, added and found a whole batch at a time.

Rows lie in tables that never change, sorted by the number of their key, so the rows of a key in a table are one
run. The runs of a key are linked, from the newest table to the oldest. Eight tables of about one size become
one, so a key has few runs, and each row is moved a logarithmic number of times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.updating.appended_rows import Piece, taken
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT, net_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.records.batch import Int64s

_TOGETHER: Final = 8
"""So many tables of one size become one."""

_NUMBER: Final = "__number"
_END: Final = -1
"""Instead of a run: there are no more."""


class Runs(NamedTuple):
    """Runs of rows: `first` places, `counts`, the `numbers` of their keys, and for each the key's next older
    run, which is in an older table.
    """

    firsts: Int64s
    counts: Int64s
    numbers: Int64s
    older: Int64s


class Part(NamedTuple):
    """A table of rows, run after run: of each the number of its key, and how many rows it has."""

    numbers: Int64s
    counts: Int64s
    table: pa.Table


class _Sorted(NamedTuple):
    piece: Piece
    numbers: Int64s  # of its runs' keys
    counts: Int64s  # of rows in its runs
    runs: int  # the number of its first run
    size: int  # how often tables were merged for it


class KeyedBags:
    """Rows of the columns `values`, each for a key by its number (see `KeyNumbers`)."""

    def __init__(self, values: pa.Schema) -> None:
        self._values = values
        self._weighted = WEIGHT in values.names
        self._tables: list[_Sorted] = []
        self._runs = _Growing(4)
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
        ordered = numbers[order]
        runs = self._linked(ordered, self._end, self._newest)
        self._append(rows.select(self._values.names).take(pa.array(order)), runs, 0)
        while len(self._tables) >= _TOGETHER and self._tables[-_TOGETHER].size == self._tables[-1].size:
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
        return np.concatenate(indices), np.concatenate(places)

    def view(self) -> list[Part]:
        """Return the rows as they are now; later changes do not reach the parts."""
        return [Part(each.numbers, each.counts, each.piece.table) for each in self._tables]

    def take(self, places: Int64s) -> pa.Table:
        """Return the rows at places that :meth:`find` returned, in order."""
        return taken([each.piece for each in self._tables], places, self._values)

    @property
    def _end(self) -> int:
        return self._tables[-1].piece.places_end if self._tables else 0

    def _make_room(self, keys: int) -> None:
        if keys > len(self._newest):
            grown = np.full(max(keys, 2 * len(self._newest)), _END, np.int64)
            grown[: len(self._newest)] = self._newest
            self._newest = grown

    def _linked(self, ordered: Int64s, first: int, older: Int64s) -> Runs:
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        numbers = ordered[starts]
        return Runs(first + starts, np.diff(starts, append=len(ordered)), numbers, older[numbers])

    def _append(self, table: pa.Table, runs: Runs, size: int) -> None:
        number, piece = self._runs.count, Piece(self._end, table.combine_chunks())
        self._tables.append(_Sorted(piece, runs.numbers, runs.counts, number, size))
        self._runs.extend(runs)
        self._newest[runs.numbers] = np.arange(number, self._runs.count)

    def _merge_last(self) -> None:
        merged, self._tables = self._tables[-_TOGETHER:], self._tables[:-_TOGETHER]
        _, counts, numbers, older = (column[merged[0].runs :] for column in self._runs.columns)
        numbers_of_rows = np.repeat(numbers, counts)
        whole = pa.concat_tables([each.piece.table for each in merged])
        if self._weighted:
            numbers_of_rows, whole = _net(numbers_of_rows, whole)
        order = np.argsort(numbers_of_rows, kind="stable")
        whole = whole.take(pa.array(order))
        # The oldest of a key's runs knows what is older still.
        keys, oldest = np.unique(numbers, return_index=True)
        before = np.full(int(keys[-1]) + 1, _END, np.int64)
        before[keys] = older[oldest]
        self._runs.cut(merged[0].runs)
        self._newest[keys] = before[keys]
        if whole.num_rows:
            runs = self._linked(numbers_of_rows[order], merged[0].piece.first, before)
            self._append(whole, runs, merged[0].size + 1)


def _net(numbers: Int64s, rows: pa.Table) -> tuple[Int64s, pa.Table]:
    found = net_rows(rows.append_column(_NUMBER, pa.array(numbers)))
    return found.column(_NUMBER).to_numpy(), found.drop_columns(_NUMBER)


def _spread(rows: Int64s, firsts: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return for each run its row, repeated, with each of the run's places."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    within = np.arange(total) - np.repeat(ends - counts, counts)
    return np.repeat(rows, counts), np.repeat(firsts, counts) + within


class _Growing:
    """Columns of integers to which rows are appended, and of which the last ones may be cut off."""

    def __init__(self, columns: int) -> None:
        self._arrays = [np.zeros(1 << 10, np.int64) for _ in range(columns)]
        self.count = 0

    @property
    def columns(self) -> list[Int64s]:
        return [each[: self.count] for each in self._arrays]

    def extend(self, columns: Sequence[Int64s]) -> None:
        end = self.count + len(columns[0])
        if end > len(self._arrays[0]):
            self._arrays = [np.concatenate([each, np.zeros(end, np.int64)]) for each in self._arrays]
        for array, column in zip(self._arrays, columns, strict=True):
            array[self.count : end] = column
        self.count = end

    def cut(self, count: int) -> None:
        self.count = count
