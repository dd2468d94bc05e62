"""One row for each key, found and replaced a whole batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.updating.by_key.appended_rows import Piece, taken
from headgate.runtime.worker.operators.columns.updating.by_key.key_numbers import KeyNumbers
from headgate.runtime.worker.operators.columns.updating.by_key.rows_by_number import RowsByNumber, RowsView

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s


class KeyedRows:
    """The present row of each key: columns `values`, for keys in the columns `keys`."""

    def __init__(self, keys: pa.Schema, values: pa.Schema) -> None:
        self._of_keys = keys
        self._keys, self._rows = KeyNumbers(keys), RowsByNumber(values)

    def numbers(self, keys: pa.Table) -> Int64s:
        """Return the numbers of keys, which the others are then called with; new ones get one."""
        return self._keys.of(keys)

    def there(self, numbers: Int64s) -> NDArray[np.bool_]:
        """Return for each key whether it has a row."""
        return self._rows.there(numbers)

    def rows(self, numbers: Int64s) -> pa.Table:
        """Return the present rows of keys, all of which have one."""
        return self._rows.rows(numbers)

    @property
    def count(self) -> int:
        """How many rows there are, about: with those that were replaced and not dropped yet."""
        return self._rows.count

    def keys(self, numbers: Int64s) -> pa.Table:
        """Return the keys of numbers, in order."""
        return self._keys.keys(numbers)

    def with_keys(self, numbers: Int64s) -> pa.Table:
        """Return the present rows of keys, all of which have one, keys first."""
        return beside(self._keys.keys(numbers), self.rows(numbers))

    def put(self, numbers: Int64s, rows: pa.Table) -> None:
        """Make `rows`, one for each key, the present ones."""
        self._rows.put(numbers, rows)

    def remove(self, numbers: Int64s) -> None:
        """Remove the rows of keys."""
        self._rows.remove(numbers)

    def view_of_keys(self) -> list[Piece]:
        """Return all keys as they are now, for `taken`; the place of a key is its number."""
        return self._keys.view()

    def view(self) -> KeyedRowsView:
        """Return the rows as they are now, for a snapshot; later changes do not reach the view."""
        return KeyedRowsView(self._of_keys, self._keys.view(), self._rows.view())


class KeyedRowsView:
    """The rows as they were at a snapshot, for the thread that writes it."""

    def __init__(self, of_keys: pa.Schema, keys: list[Piece], rows: RowsView) -> None:
        self._of_keys, self._keys, self._rows = of_keys, keys, rows

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows with their keys, keys first."""
        for numbers, rows in self._rows.parts():
            yield beside(taken(self._keys, numbers, self._of_keys), rows)


def beside(keys: pa.Table, rows: pa.Table) -> pa.Table:
    """Return a table of the columns of both, whose rows belong together."""
    return pa.table([*keys.columns, *rows.columns], [*keys.column_names, *rows.column_names])
