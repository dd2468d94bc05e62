"""Rows of partial matches, found by number. Tables never change; rows that are not needed go when they are
merged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

    Needed = Callable[["Rows"], NDArray[np.bool_]]
    """Says of each row of a table whether it is needed."""

_FEW: Final = 4_096
"""As long as so few rows have come, none is removed from older tables."""


class Rows(NamedTuple):
    """Rows in a table, in the order of their numbers, each with the number of its key."""

    numbers: Int64s
    keys: Int64s
    table: pa.Table

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """Return the rows for which `mask` is true."""
        return (
            self
            if mask.all()
            else Rows(self.numbers[mask], self.keys[mask], self.table.filter(pa.array(mask)))
        )


class NumberedRows:
    """Rows with numbers that grow, in tables of `schema`."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._tables: list[Rows] = []
        self._since = 0  # rows that have come or gone since the last look at all tables
        self.next_number = 0

    def add(self, keys: Int64s, table: pa.Table) -> Int64s:
        """Add rows with the numbers of their keys; return the rows' numbers."""
        numbers = np.arange(self.next_number, self.next_number + len(keys))
        self.next_number += len(keys)
        if len(keys):
            self._tables.append(Rows(numbers, keys, table.combine_chunks()))
        return numbers

    def take(self, numbers: Int64s) -> pa.RecordBatch:
        """Return the rows of these numbers, in order."""
        firsts = np.array([each.numbers[0] for each in self._tables], np.int64)
        owners = np.searchsorted(firsts, numbers, "right") - 1
        found, order = [], []
        for owner in np.unique(owners).tolist():
            rows = self._tables[owner]
            mine = np.flatnonzero(owners == owner)
            found.append(rows.table.take(pa.array(np.searchsorted(rows.numbers, numbers[mine]))))
            order.append(mine)
        if not found:
            return pa.RecordBatch.from_arrays(
                [pa.array([], each.type) for each in self._schema], schema=self._schema
            )
        whole = pa.concat_tables(found).combine_chunks()
        if len(found) > 1:
            whole = whole.take(pa.array(np.argsort(np.concatenate(order)))).combine_chunks()
        return pa.RecordBatch.from_arrays([column.chunk(0) for column in whole.columns], schema=self._schema)

    def tidy(self, needed: Needed, gone: int = 0) -> None:
        """Forget rows of the table that was added last, and, at times, of all, that are not needed any more.
        `gone`: about how many rows have become so.
        """
        if self._tables:
            self._since += len(self._tables[-1].numbers) + gone
            self._keep(needed, len(self._tables) - 1)
        while len(self._tables) > 1 and len(self._tables[-1].numbers) * 2 > len(self._tables[-2].numbers):
            self._merge(needed, len(self._tables) - 2)
        if self._since > max(_FEW, sum(len(each.numbers) for each in self._tables)):
            self._since = 0
            self._merge(needed, 0)

    def _keep(self, needed: Needed, first: int) -> None:
        kept = [each.where(needed(each)) for each in self._tables[first:]]
        self._tables[first:] = [each for each in kept if len(each.numbers)]

    def _merge(self, needed: Needed, first: int) -> None:
        self._keep(needed, first)
        parts = self._tables[first:]
        if len(parts) > 1:
            numbers, keys = (np.concatenate([each[place] for each in parts]) for place in (0, 1))
            self._tables[first:] = [
                Rows(numbers, keys, pa.concat_tables([each.table for each in parts]).combine_chunks())
            ]

    def renumber_keys(self, new: Int64s) -> None:
        """Replace the number of each key by that at its place in `new`; rows of keys below 0 are
        forgotten.
        """
        renamed = [Rows(each.numbers, new[each.keys], each.table) for each in self._tables]
        kept = [each.where(each.keys >= 0) for each in renamed]
        self._tables = [each for each in kept if len(each.numbers)]

    def tables(self) -> list[Rows]:
        """Return all rows, some of which may not be needed any more; the tables never change."""
        return list(self._tables)
