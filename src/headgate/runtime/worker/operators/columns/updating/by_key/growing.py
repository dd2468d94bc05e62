"""Columns of integers that grow by whole batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.updating.by_key.key_index import Same


class Growing:
    """Columns of integers to which rows are appended, and of which the last ones may be cut off."""

    def __init__(self, columns: int) -> None:
        self._arrays = [np.zeros(1 << 10, np.int64) for _ in range(columns)]
        self._zero = [True] * columns  # whether a column has had zeros only
        self.count = 0

    @property
    def columns(self) -> list[Int64s]:
        """The columns, as they are until the next change."""
        return [each[: self.count] for each in self._arrays]

    def extend(self, columns: Sequence[Int64s]) -> None:
        """Append a row for each index of `columns`."""
        end = self.count + len(columns[0])
        if end > len(self._arrays[0]):
            self._arrays = [grown(each, len(each) + end) for each in self._arrays]
        for place, (array, column) in enumerate(zip(self._arrays, columns, strict=True)):
            array[self.count : end] = column
            self._zero[place] = self._zero[place] and not column.any()
        self.count = end

    def equal_to(self, columns: Sequence[Int64s]) -> Same:
        """Return a function that says for pairs (index into `columns`, row of these) which are equal; it
        knows rows that are appended later, if they are of `columns`.
        """
        # Of a hidden column that says which keys are odd, all are zero in most programs.
        asked = [
            place for place, mine in enumerate(columns) if place == 0 or not self._zero[place] or mine.any()
        ]

        def same(rows: Int64s, numbers: Int64s) -> NDArray[np.bool_]:
            found: NDArray[np.bool_] = columns[0][rows] == self._arrays[0][numbers]
            for place in asked[1:]:
                found &= columns[place][rows] == self._arrays[place][numbers]
            return found

        return same

    def cut(self, count: int) -> None:
        """Keep the first `count` rows."""
        self.count = count


def grown(array: Int64s, size: int) -> Int64s:
    """Return a copy with zeros up to `size`, whose memory is taken as it is written to."""
    found = np.zeros(size, np.int64)
    found[: len(array)] = array
    return found
