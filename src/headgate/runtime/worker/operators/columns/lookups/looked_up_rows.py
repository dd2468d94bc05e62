"""The rows of a table that is looked up, by key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.key_values import alike
from headgate.runtime.worker.operators.columns.updating.by_key.key_index import ABSENT
from headgate.runtime.worker.operators.columns.updating.by_key.key_numbers import KeyNumbers
from headgate.runtime.worker.operators.columns.updating.by_key.keyed_bags import KeyedBags

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s


class LookedUpRows:
    """The rows of `table` by the columns `keys`; those with a null key are left out: they equal nothing."""

    def __init__(self, table: pa.Table, keys: Sequence[str]) -> None:
        self._keys = keys
        known = _known([table.column(name) for name in keys])
        of_keys = _alike(table.filter(pa.array(known)), keys)
        self._numbers = KeyNumbers(of_keys.schema)
        values = table.select([name for name in table.column_names if name not in keys])
        self._bags = KeyedBags(values.schema)
        self._bags.add(self._numbers.of(of_keys), values.filter(pa.array(known)))

    def numbers(self, rows: pa.Table) -> Int64s:
        """Return for each of `rows` the number of its key; ABSENT: no row has it."""
        known = _known([rows.column(name) for name in self._keys])
        numbers = np.full(len(known), ABSENT, np.int64)
        if known.any():
            numbers[known] = self._numbers.known(_alike(rows.filter(pa.array(known)), self._keys))
        return numbers

    def find(self, numbers: Int64s) -> tuple[Int64s, pa.Table]:
        """Return pairs of (index into `numbers`, a row with this key), the rows as a table without keys."""
        found, places = self._bags.find(numbers)
        return found, self._bags.take(places)


def _known(keys: list[pa.ChunkedArray]) -> NDArray[np.bool_]:
    found = reduce(pc.and_, (pc.is_valid(key) for key in keys))
    known: NDArray[np.bool_] = found.combine_chunks().to_numpy(zero_copy_only=False)
    return known


def _alike(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    return pa.table([alike(rows.column(name).combine_chunks()) for name in names], names=list(names))
