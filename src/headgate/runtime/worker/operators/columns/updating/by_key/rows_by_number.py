"""One row for each number, found and replaced a whole batch at a time.

Rows are only appended, to tables that never change. An array says where the present row of each number is. A
replaced row is garbage until its table is merged; a snapshot is the list of tables with a copy of that array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.updating.by_key.appended_rows import Piece, taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

_TOGETHER: Final = 4
"""So many tables for which as many were merged become one."""
_SPARE: Final = 1 << 16
"""So many rows, and as many as are present, may be replaced ones before all tables become one."""
_GONE: Final = -1
"""The place of the row of a number that has none."""


class RowsByNumber:
    """The present row of each number, in the columns of `values`."""

    def __init__(self, values: pa.Schema) -> None:
        self._values = values
        self._pieces: list[Piece] = []
        self._numbers: list[Int64s] = []  # of each piece's rows
        self._merged: list[int] = []  # how often tables were merged for each piece
        self._living = 0
        self._where = np.full(1 << 10, _GONE, np.int64)

    @property
    def count(self) -> int:
        """How many rows there are, about: with those that were replaced and not dropped yet."""
        return sum(len(each) for each in self._numbers)

    def there(self, numbers: Int64s) -> NDArray[np.bool_]:
        """Return for each number whether it has a row."""
        found = np.zeros(len(numbers), np.bool_)
        known = np.flatnonzero(numbers < len(self._where))
        found[known] = self._where[numbers[known]] != _GONE
        return found

    def rows(self, numbers: Int64s) -> pa.Table:
        """Return the present rows of numbers, all of which have one."""
        return taken(self._pieces, self._where[numbers], self._values)

    def put(self, numbers: Int64s, rows: pa.Table) -> None:
        """Make `rows`, one for each number, the present ones."""
        if not len(numbers):
            return
        self._make_room(int(numbers.max()) + 1)
        self._living += len(numbers) - self._there(numbers)
        first = self._pieces[-1].places_end if self._pieces else 0
        self._where[numbers] = np.arange(first, first + len(numbers))
        self._pieces.append(Piece(first, rows.select(self._values.names).combine_chunks()))
        self._numbers.append(numbers)
        self._merged.append(0)
        while len(self._merged) >= _TOGETHER and self._merged[-_TOGETHER] == self._merged[-1]:
            self._merge(_TOGETHER)
        if self.count > 2 * self._living + _SPARE:
            self._merge(len(self._pieces))

    def _make_room(self, numbers: int) -> None:
        if numbers > len(self._where):
            grown = np.full(max(numbers, 2 * len(self._where)), _GONE, np.int64)
            grown[: len(self._where)] = self._where
            self._where = grown

    def remove(self, numbers: Int64s) -> None:
        """Remove the rows of numbers, of which some may have none."""
        if len(numbers):
            self._make_room(int(numbers.max()) + 1)
            self._living -= self._there(numbers)
            self._where[numbers] = _GONE

    def _there(self, numbers: Int64s) -> int:
        return int(np.count_nonzero(self._where[numbers] != _GONE))

    def _merge(self, newest: int) -> None:
        first = self._pieces[-newest].first
        parts = list(_present(self._pieces[-newest:], self._numbers[-newest:], self._where))
        merged = pa.concat_tables([rows for _, rows in parts]).combine_chunks()
        numbers = np.concatenate([mine for mine, _ in parts])
        self._where[numbers] = np.arange(first, first + len(numbers))
        self._pieces[-newest:], self._numbers[-newest:] = [Piece(first, merged)], [numbers]
        self._merged[-newest:] = [self._merged[-newest] + 1]

    def view(self) -> RowsView:
        """Return the rows as they are now, for a snapshot; later changes do not reach the view."""
        return RowsView(list(self._pieces), list(self._numbers), self._where.copy(), self._values)


class RowsView:
    """The rows as they were at a snapshot, for the thread that writes it."""

    def __init__(self, pieces: list[Piece], numbers: list[Int64s], where: Int64s, values: pa.Schema) -> None:
        self._pieces, self._numbers, self._where, self._values = pieces, numbers, where, values

    def rows(self, numbers: Int64s) -> pa.Table:
        """Return the rows of numbers, all of which have one, in this order."""
        return taken(self._pieces, self._where[numbers], self._values)

    def parts(self) -> Iterator[tuple[Int64s, pa.Table]]:
        """Yield the numbers that have a row, and these rows."""
        yield from _present(self._pieces, self._numbers, self._where)


def _present(
    pieces: Sequence[Piece], numbers: Sequence[Int64s], where: Int64s
) -> Iterator[tuple[Int64s, pa.Table]]:
    for piece, mine in zip(pieces, numbers, strict=True):
        present = where[mine] == piece.places
        if present.all():
            yield mine, piece.table
        else:
            yield mine[present], piece.table.filter(pa.array(present))
