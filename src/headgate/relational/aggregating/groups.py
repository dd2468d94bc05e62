"""Rows sorted by group, as kernels of accumulators take them, with where each group begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    Doubles = NDArray[np.float64]


class Groups(NamedTuple):
    """Groups of rows that lie one after the other; none is empty.

    `starts` has the index of each group's first row, ascending from 0; there are `rows` rows.
    """

    starts: Int64s
    rows: int

    @property
    def lengths(self) -> Int64s:
        return np.diff(self.starts, append=self.rows)

    @property
    def numbers(self) -> Int64s:
        """For each row the number of its group, from 0."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of each group's values; `values` has one for each row."""
        found: NDArray[Any] = np.add.reduceat(values, self.starts)
        return found

    def first(self, wanted: NDArray[np.bool_]) -> Int64s:
        """Return for each group the index of its first row that is `wanted`; -1 if there is none."""
        places = np.where(wanted, np.arange(self.rows), self.rows)
        found = np.minimum.reduceat(places, self.starts)
        return np.where(found == self.rows, -1, found)

    def last(self, wanted: NDArray[np.bool_]) -> Int64s:
        """Return for each group the index of its last row that is `wanted`; -1 if there is none."""
        found: Int64s = np.maximum.reduceat(np.where(wanted, np.arange(self.rows), -1), self.starts)
        return found


def present(values: pa.Array) -> NDArray[np.bool_]:
    """Return for each value whether it is not null, as a numpy array."""
    found: NDArray[np.bool_] = pc.is_valid(values).to_numpy(zero_copy_only=False)
    return found


def doubles(values: pa.Array) -> Doubles:
    """Return doubles as a numpy array, with 0 for null."""
    filled: Doubles = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    return filled


def picked(values: pa.Array, places: Int64s) -> pa.Array:
    """Return the values at the indices `places`; null for an index of -1."""
    return values.take(pa.array(places, mask=places < 0))


def nullable(values: NDArray[Any], kind: pa.DataType, known: NDArray[np.bool_]) -> pa.Array:
    """Return values as an Arrow array of type `kind`, with null where `known` is false."""
    return pa.array(values, kind, mask=~known)
