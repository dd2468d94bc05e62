"""Arithmetic of windows and panes of event time, in ms since 1970; pure functions of a window's shape."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.relational.relations import Windowed

Int64s = NDArray[np.int64]


class WindowTimes(NamedTuple):
    """Windows of `size` every `slide`, moved by `offset`; a pane is the longest slice that none of them cuts.

    Example:
        >>> times = WindowTimes.of(Windowed(10_000, 2_000))
        >>> times.pane, times.ends_over(4_000)
        (2000, range(6000, 14001, 2000))
    """

    size: int
    slide: int
    offset: int
    pane: int

    @staticmethod
    def of(window: Windowed) -> WindowTimes:
        """Return the times of a plan's window."""
        slide = window.slide_ms
        return WindowTimes(window.size_ms, slide, window.offset_ms % slide, gcd(window.size_ms, slide))

    def panes_of(self, times: Int64s) -> Int64s:
        """Return where the pane of each event time begins."""
        moved = times - self.offset % self.pane
        return np.asarray(moved - np.mod(moved, self.pane) + self.offset % self.pane, dtype=np.int64)

    def last_ends(self, panes: Int64s) -> Int64s:
        """Return, for each pane, the end of the last window that has it."""
        moved = panes - self.offset
        return np.asarray(moved - np.mod(moved, self.slide) + self.offset + self.size, dtype=np.int64)

    def first_ends(self, panes: Int64s) -> Int64s:
        """Return, for each pane, the end of the first window that has it."""
        last = self.last_ends(panes)
        return np.asarray(last - (last - panes - 1) // self.slide * self.slide, dtype=np.int64)

    def ends_over(self, pane: int) -> range:
        """Return the ends of all windows that have a pane, ascending."""
        last = (pane - self.offset) // self.slide * self.slide + self.offset + self.size
        first = last - (last - pane - 1) // self.slide * self.slide
        return range(first, last + 1, self.slide)
