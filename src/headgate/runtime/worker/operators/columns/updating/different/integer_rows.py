"""Numbers different rows of integers, a whole batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from headgate.runtime.worker.operators.columns.updating.by_key.growing import Growing
from headgate.runtime.worker.operators.columns.updating.by_key.key_index import ABSENT, KeyIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

_FACTORS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
"""Odd numbers without a pattern: of those by which hashes are multiplied in turn."""


class NumberedRows:
    """Rows of integers in so many columns, each with its place in the order in which they came first."""

    def __init__(self, columns: int) -> None:
        self._index, self._rows = KeyIndex(), Growing(columns)

    @property
    def count(self) -> int:
        """How many different rows there are."""
        return self._index.count

    def of(self, columns: Sequence[Int64s]) -> Int64s:
        """Return the number of each row; new rows get one."""
        hashes = _hashes(columns)
        numbers = self._found(columns, hashes)
        new = np.flatnonzero(numbers == ABSENT)
        while len(new):
            # One row for each hash: different ones of the same hash come in the next turn.
            first = new[np.unique(hashes[new], return_index=True)[1]]
            self._index.add(hashes[first])
            self._rows.extend([each[first] for each in columns])
            numbers[new] = self._found([each[new] for each in columns], hashes[new])
            new = new[numbers[new] == ABSENT]
        return numbers

    def _found(self, columns: Sequence[Int64s], hashes: NDArray[np.uint32]) -> Int64s:
        pairs = list(zip(columns, self._rows.columns, strict=True))

        def same(rows: Int64s, numbers: Int64s) -> NDArray[np.bool_]:
            found: NDArray[np.bool_] = pairs[0][0][rows] == pairs[0][1][numbers]
            for mine, known in pairs[1:]:
                found &= mine[rows] == known[numbers]
            return found

        return self._index.find(hashes, same)

    @property
    def columns(self) -> list[Int64s]:
        """The different rows, by number; later ones do not reach these arrays."""
        return self._rows.columns


def _hashes(columns: Sequence[Int64s]) -> NDArray[np.uint32]:
    total = np.zeros(len(columns[0]), np.uint64)
    for each in columns:
        total = (total ^ each.view(np.uint64)) * _FACTORS[0]
        total = (total ^ (total >> np.uint64(32))) * _FACTORS[1]
    found: NDArray[np.uint32] = (total >> np.uint64(32)).astype(np.uint32)
    return found
