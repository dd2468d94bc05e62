"""Keys of columns and their numbers, by which state of keys is kept in arrays."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.runtime.worker.operators.columns.panes import hashes_of_rows
from headgate.runtime.worker.operators.columns.updating.by_key.appended_rows import AppendedRows, Piece
from headgate.runtime.worker.operators.columns.updating.by_key.growing import Growing
from headgate.runtime.worker.operators.columns.updating.by_key.key_index import ABSENT, KeyIndex
from headgate.runtime.worker.operators.columns.updating.by_key.packed_sort import key_integers, sorted_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.updating.by_key.key_index import Hashes


class KeyNumbers:
    """Numbers keys, in the columns of `schema` and never null, in the order in which they come first."""

    def __init__(self, schema: pa.Schema) -> None:
        self._names, self._index, self._keys = schema.names, KeyIndex(), AppendedRows(schema)
        # Integers are compared without Arrow, which takes as long for one row as for hundreds.
        whole = all(pa.types.is_integer(field.type) for field in schema)
        self._integers = Growing(len(schema)) if whole else None

    @property
    def count(self) -> int:
        """How many keys have a number."""
        return self._index.count

    def of(self, table: pa.Table) -> Int64s:
        """Return the number of each row's key; new keys get one."""
        keys = table.select(self._names)
        hashes = hashes_of_rows(keys, self._names)
        if self._integers is not None:
            return self._of_integers(keys, hashes, self._integers)
        numbers = self._found(keys, hashes)
        new = np.flatnonzero(numbers == ABSENT)
        if len(new):
            fresh = keys.take(pa.array(new))
            firsts, each = _different(fresh)
            numbers[new] = self._index.add(hashes[new[firsts]])[each]
            self._keys.append(fresh.take(pa.array(firsts)))
        return numbers

    def _of_integers(self, keys: pa.Table, hashes: Hashes, known: Growing) -> Int64s:
        columns = [column.to_numpy() for column in keys.columns]
        new: list[Int64s] = []

        def append(rows: Int64s) -> None:
            new.append(rows)
            known.extend([each[rows] for each in columns])

        numbers = self._index.find_or_add(hashes, known.equal_to(columns), append)
        if new:
            self._keys.append(keys.take(pa.array(np.concatenate(new))))
        return numbers

    def known(self, table: pa.Table) -> Int64s:
        """Return the number of each row's key; ABSENT for keys that have none."""
        keys = table.select(self._names)
        return self._found(keys, hashes_of_rows(keys, self._names))

    def _found(self, keys: pa.Table, hashes: Hashes) -> Int64s:
        def same(rows: Int64s, numbers: Int64s) -> NDArray[np.bool_]:
            # Rows ascend: as many as there are are all.
            mine = keys if len(rows) == keys.num_rows else keys.take(pa.array(rows))
            return _equal(mine, self._keys.take(numbers))

        if self._integers is None:
            return self._index.find(hashes, same)
        columns = [column.to_numpy() for column in keys.columns]
        return self._index.find(hashes, self._integers.equal_to(columns))

    def keys(self, numbers: Int64s) -> pa.Table:
        """Return the keys of numbers, in order."""
        return self._keys.take(numbers)

    def view(self) -> list[Piece]:
        """Return the keys as they are now, for `taken`; the place of a key is its number."""
        return self._keys.view()


def _different(keys: pa.Table) -> tuple[Int64s, Int64s]:
    """Return of each different key the first row that has it, ascending, and for each row which of these its
    key is.
    """
    order, same = sorted_by(key_integers(keys))
    firsts = order[~same]
    by_coming = np.argsort(firsts)
    places = np.empty(len(firsts), np.int64)
    places[by_coming] = np.arange(len(firsts))
    each = np.empty(len(order), np.int64)
    each[order] = places[np.cumsum(~same) - 1]
    return firsts[by_coming], each


def _equal(one: pa.Table, other: pa.Table) -> NDArray[np.bool_]:
    columns = zip(one.columns, other.columns, strict=True)
    found: NDArray[np.bool_] = reduce(pc.and_, (pc.equal(a, b) for a, b in columns)).to_numpy()
    return found
