"""Columns of integers that grow by whole batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class Growing:
    """Columns of integers to which rows are appended, and of which the last ones may be cut off."""

    def __init__(self, columns: int) -> None:
        self._arrays = [np.zeros(1 << 10, np.int64) for _ in range(columns)]
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
        for array, column in zip(self._arrays, columns, strict=True):
            array[self.count : end] = column
        self.count = end

    def cut(self, count: int) -> None:
        """Keep the first `count` rows."""
        self.count = count


def grown(array: Int64s, size: int) -> Int64s:
    """Return a copy with zeros up to `size`, whose memory is taken as it is written to."""
    found = np.zeros(size, np.int64)
    found[: len(array)] = array
    return found
