"""Histograms of durations and sizes: counts in cells, four for each doubling of the value.

The cell of a value follows from its highest bits, so that it is found in a few steps without a search, and
the relative width of a cell is the same everywhere. Histograms are merged by adding the counts.

    values      0  1  2  3  4  5  6  7  8..9  10..11  12..13  14..15  16..19  20..23  ...
    cell        0  1  2  3 12 13 14 15    16      17      18      19      20      21  ...

Cells 4 to 11 stay empty: they would belong to values whose bits end before the two that tell cells apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

VALUE_MAX: Final = 2**63 - 1
"""The greatest value that is counted; a greater one counts as this one."""

CELLS: Final = 64 * 4
"""Number of cells: four for each number of bits that a value can have, from 0 to 63."""


class Histogram:
    """Counts of whole numbers from 0 on, each known to within an eighth of itself.

    One thread adds; another one may read :meth:`sparse` meanwhile, as a worker's heartbeat does.

    Example:
        >>> steps = Histogram()
        >>> for took_us in (3, 90, 1_000, 1_010):
        ...     steps.add(took_us)
        >>> steps.sparse(), steps.count
        ([3, 1, 29, 1, 43, 2], 4)
        >>> steps.quantile(0.25), round(steps.quantile(1.0))
        (3.0, 955)
    """

    __slots__ = ("counts",)

    def __init__(self, sparse: Sequence[int] = ()) -> None:
        self.counts = [0] * CELLS  # how many values each cell has
        self.merge(sparse)

    def add(self, value: int) -> None:
        """Count a value, 0 or more; one above `VALUE_MAX` counts as `VALUE_MAX`."""
        if value > VALUE_MAX:
            value = VALUE_MAX
        bits = value.bit_length()
        self.counts[value if bits < 3 else (bits << 2) + ((value >> (bits - 3)) & 3)] += 1

    def merge(self, sparse: Sequence[int]) -> None:
        """Add the counts of another histogram, given in the form that its :meth:`sparse` returns."""
        counts = self.counts
        for cell, count in zip(sparse[::2], sparse[1::2], strict=True):
            counts[cell] += count

    def sparse(self) -> list[int]:
        """Return the cells that are not empty in one flat list: [cell, count, next cell, its count, ...]."""
        if not any(self.counts):
            return []  # most are empty, which is found out sixty times faster than by the loop below
        return [number for cell, count in enumerate(self.counts) if count for number in (cell, count)]

    @property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self.counts)

    def quantile(self, share: float) -> float:
        """Return a value that is not less than `share` (0 to 1) of the counted ones; 0.0 if there are none.
        The value is true to within an eighth of itself.
        """
        left = share * self.count
        for cell, count in enumerate(self.counts):
            left -= count
            if count and left <= 0:
                return middle_of(cell)
        return 0.0


def middle_of(cell: int) -> float:
    """Return the number that stands for all values of a cell.
    It is, relatively, as near to the least of them as to the greatest.

    Example:
        >>> middle_of(3), middle_of(12), round(middle_of(21), 2)
        (3.0, 4.0, 21.4)
    """
    if cell < 12:
        return float(cell)
    width = 1 << ((cell >> 2) - 3)
    least = (4 + (cell & 3)) * width
    greatest = least + width - 1
    return 2 * least * greatest / (least + greatest)
