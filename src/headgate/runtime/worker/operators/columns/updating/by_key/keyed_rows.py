"""One row for each key, found and replaced a whole batch at a time.

Rows are only appended, to tables that never change. An array says where the present row of each key is. A
replaced row is garbage until its table is merged; a snapshot is the list of tables with a copy of that array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.updating.by_key.appended_rows import Piece, taken
from headgate.runtime.worker.operators.columns.updating.by_key.key_index import ABSENT
from headgate.runtime.worker.operators.columns.updating.by_key.key_numbers import KeyNumbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

_GONE: Final = -1
"""The place of the row of a key that has none."""


class KeyedRows:
    """The present row of each key: columns `values`, for keys in the columns `keys`."""

    def __init__(self, keys: pa.Schema, values: pa.Schema) -> None:
        self._of_keys, self._values = keys, values
        self._keys = KeyNumbers(keys)
        self._pieces: list[Piece] = []
        self._numbers: list[Int64s] = []  # of each piece's rows: the numbers of their keys
        self._where = np.zeros(0, np.int64)

    def numbers(self, keys: pa.Table) -> Int64s:
        """Return the numbers of keys, which the others are then called with; new ones get one."""
        numbers = self._keys.of(keys)
        new = self._keys.count - len(self._where)
        if new:
            self._where = np.concatenate([self._where, np.full(new, _GONE, np.int64)])
        return numbers

    def numbers_if_known(self, keys: pa.Table) -> Int64s:
        """Return the numbers of keys, ABSENT for new ones."""
        return self._keys.known(keys)

    def there(self, numbers: Int64s) -> NDArray[np.bool_]:
        """Return for each key whether it has a row."""
        found = np.zeros(len(numbers), np.bool_)
        known = numbers != ABSENT
        found[known] = self._where[numbers[known]] != _GONE
        return found

    def rows(self, numbers: Int64s) -> pa.Table:
        """Return the present rows of keys, all of which have one."""
        return taken(self._pieces, self._where[numbers], self._values)

    @property
    def count(self) -> int:
        """How many rows there are, about: with those that were replaced and not dropped yet."""
        return sum(len(each) for each in self._numbers)

    def keys(self, numbers: Int64s) -> pa.Table:
        """Return the keys of numbers, in order."""
        return self._keys.keys(numbers)

    def with_keys(self, numbers: Int64s) -> pa.Table:
        """Return the present rows of keys, all of which have one, keys first."""
        keys, rows = self._keys.keys(numbers), self.rows(numbers)
        return pa.table([*keys.columns, *rows.columns], [*keys.column_names, *rows.column_names])

    def put(self, numbers: Int64s, rows: pa.Table) -> None:
        """Make `rows`, one for each key, the present ones."""
        if not len(numbers):
            return
        first = self._pieces[-1].first + self._pieces[-1].table.num_rows if self._pieces else 0
        self._where[numbers] = np.arange(first, first + len(numbers))
        self._pieces.append(Piece(first, rows.select(self._values.names).combine_chunks()))
        self._numbers.append(numbers)
        while len(self._pieces) > 1 and self._pieces[-1].table.num_rows * 2 > self._pieces[-2].table.num_rows:
            self._merge_last()

    def remove(self, numbers: Int64s) -> None:
        """Remove the rows of keys."""
        self._where[numbers] = _GONE

    def _merge_last(self) -> None:
        tables, kept = [], []
        first = self._pieces[-2].first
        for piece, numbers in zip(self._pieces[-2:], self._numbers[-2:], strict=True):
            present = self._where[numbers] == piece.places
            tables.append(piece.table.filter(pa.array(present)))
            kept.append(numbers[present])
        merged, of_merged = pa.concat_tables(tables).combine_chunks(), np.concatenate(kept)
        self._where[of_merged] = np.arange(first, first + len(of_merged))
        self._pieces[-2:], self._numbers[-2:] = [Piece(first, merged)], [of_merged]

    def view_of_keys(self) -> list[Piece]:
        """Return all keys as they are now, for `taken`; the place of a key is its number."""
        return self._keys.view()

    def view(self) -> RowsView:
        """Return the rows as they are now, for a snapshot; later changes do not reach the view."""
        keys = self._of_keys, self._keys.view()
        return RowsView(*keys, list(self._pieces), list(self._numbers), self._where.copy())


class RowsView:
    """The rows as they were at a snapshot, for the thread that writes it."""

    def __init__(
        self,
        of_keys: pa.Schema,
        keys: list[Piece],
        pieces: list[Piece],
        numbers: Sequence[Int64s],
        where: Int64s,
    ) -> None:
        self._of_keys, self._keys = of_keys, keys
        self._pieces, self._numbers, self._where = pieces, numbers, where

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows with their keys, keys first."""
        for piece, numbers in zip(self._pieces, self._numbers, strict=True):
            present = self._where[numbers] == piece.places
            keys = taken(self._keys, numbers[present], self._of_keys)
            rows = piece.table.filter(pa.array(present))
            yield pa.table([*keys.columns, *rows.columns], [*keys.column_names, *rows.column_names])
