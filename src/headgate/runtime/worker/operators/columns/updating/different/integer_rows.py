"""Numbers different rows of integers, a whole batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from headgate.runtime.worker.operators.columns.updating.by_key.growing import Growing
from headgate.runtime.worker.operators.columns.updating.by_key.key_index import KeyIndex

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

        def append(rows: Int64s) -> None:
            self._rows.extend([each[rows] for each in columns])

        return self._index.find_or_add(_hashes(columns), self._rows.equal_to(columns), append)

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
