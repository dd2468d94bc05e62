"""Searches among rows that are sorted by the hash of their key, and by time, for a whole batch at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

    Hashes = NDArray[np.uint32]


class Sorted(NamedTuple):
    """Hashes and times (ms) of rows, ascending by both."""

    hashes: Hashes
    times: Int64s

    def run_of(self, hashes: Hashes) -> tuple[Int64s, Int64s]:
        """Return for each hash where its rows begin, and where they end."""
        return np.searchsorted(self.hashes, hashes), np.searchsorted(self.hashes, hashes, "right")

    def bounds(self, hashes: Hashes, times: Int64s, side: Literal["left", "right"]) -> Int64s:
        """Return the index of the first row of each hash that is not before the time; "right": is after it.
        If there is none, the index is where the rows of the hash end.
        """
        low, high = self.run_of(hashes)
        before = np.less if side == "left" else np.less_equal
        while (open_ := low < high).any():
            middle = (low + high) >> 1
            up = open_ & before(self.times[np.minimum(middle, len(self.times) - 1)], times)
            low = np.where(up, middle + 1, low)
            high = np.where(open_ & ~up, middle, high)
        return low


def spread(firsts: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return pairs of (index of a range, a place in it): a range has `counts` places from its first one on.

    Example:
        >>> spread(np.array([5, 0]), np.array([2, 1]))
        (array([0, 0, 1]), array([5, 6, 0]))
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    within = np.arange(total) - np.repeat(ends - counts, counts)
    return np.repeat(np.arange(len(counts)), counts), np.repeat(firsts, counts) + within
