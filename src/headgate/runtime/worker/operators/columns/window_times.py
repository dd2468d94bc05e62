"""Arithmetic of windows and panes of event time, in ms since 1970; pure functions of a window's shape.

A pane is a slice of event time that no window cuts, by the ms at which it begins.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.relational.relations import Windowed

Int64s = NDArray[np.int64]


class WindowTimes(NamedTuple):
    """Windows of `size` every `slide`, moved by `offset` (ms); `pane` is the length of the panes they share.

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
        """Return the times of a plan's window; the caller has checked that its kind is "sliding"."""
        slide = window.slide_ms
        return WindowTimes(window.size_ms, slide, window.offset_ms % slide, gcd(window.size_ms, slide))

    def panes_of(self, times: Int64s) -> Int64s:
        """Return, for each event time (ms), the start of the pane that it lies in."""
        return _floor(times, self.pane, self.offset)

    def last_ends(self, panes: Int64s) -> Int64s:
        """Return, for each pane by its start, the end (ms, excluded) of the last window that contains it."""
        return _floor(panes, self.slide, self.offset) + self.size

    def first_ends(self, panes: Int64s) -> Int64s:
        """Return, for each pane by its start, the end (ms, excluded) of the first window that contains it."""
        last = self.last_ends(panes)
        return np.asarray(last - (last - panes - 1) // self.slide * self.slide, dtype=np.int64)

    def ends_over(self, pane: int) -> range:
        """Return the ends (ms, excluded), ascending, of all windows over the pane that starts at `pane`."""
        last = (pane - self.offset) // self.slide * self.slide + self.offset + self.size
        first = last - (last - pane - 1) // self.slide * self.slide
        return range(first, last + 1, self.slide)

    def start_of(self, end: int) -> int:
        """Return the start (ms) of the window that ends at `end` (excluded)."""
        return end - self.size


class CumulativeTimes(NamedTuple):
    """Windows that begin together every `size`, moved by `offset`, and of which one ends after each `step`.

    Example:
        >>> times = CumulativeTimes(60_000, 20_000, 0)
        >>> times.ends_over(20_000), times.start_of(60_000)
        (range(40000, 60001, 20000), 0)
    """

    size: int
    step: int
    offset: int

    @staticmethod
    def of(window: Windowed) -> CumulativeTimes:
        return CumulativeTimes(window.size_ms, window.slide_ms, window.offset_ms % window.size_ms)

    def panes_of(self, times: Int64s) -> Int64s:
        return _floor(times, self.step, self.offset)

    def last_ends(self, panes: Int64s) -> Int64s:
        return _floor(panes, self.size, self.offset) + self.size

    def first_ends(self, panes: Int64s) -> Int64s:
        return panes + self.step

    def ends_over(self, pane: int) -> range:
        return range(pane + self.step, self.start_of(pane + 1) + self.size + 1, self.step)

    def start_of(self, end: int) -> int:
        return (end - 1 - self.offset) // self.size * self.size + self.offset


class SameWindowTimes(NamedTuple):
    """The windows of rows that are results of windows and stay in them: a pane is the last ms of a window.
    The true start of such a window is one of the keys; `start_of` returns the pane.
    """

    def panes_of(self, times: Int64s) -> Int64s:
        return times

    def last_ends(self, panes: Int64s) -> Int64s:
        return panes + 1

    def first_ends(self, panes: Int64s) -> Int64s:
        return panes + 1

    def ends_over(self, pane: int) -> range:
        return range(pane + 1, pane + 2)

    def start_of(self, end: int) -> int:
        return end - 1


class SessionTimes(NamedTuple):
    """Sessions that end `gap` ms after their last row; a pane is the time of a row.
    So the ends of a pane are that of a session of the row alone.
    """

    gap: int

    def panes_of(self, times: Int64s) -> Int64s:
        return times

    def last_ends(self, panes: Int64s) -> Int64s:
        return panes + self.gap

    def first_ends(self, panes: Int64s) -> Int64s:
        return panes + self.gap


PanedTimes = WindowTimes | CumulativeTimes | SameWindowTimes
"""Windows that are cut into panes."""


def times_of(window: Windowed) -> PanedTimes | SessionTimes:
    """Return the arithmetic for a plan's window, by its kind: "sliding", "cumulative" or "session".
    Any other kind gets `SameWindowTimes`: its rows are results of windows, and stay in these.
    """
    match window.kind:
        case "sliding":
            return WindowTimes.of(window)
        case "cumulative":
            return CumulativeTimes.of(window)
        case "session":
            return SessionTimes(window.size_ms)
    return SameWindowTimes()


def ends_passed(times: PanedTimes, marks: Int64s) -> Int64s:
    """Return a number for each watermark (ms) in `marks`, the same for two only if both end the same windows.
    `times` is the arithmetic of the windows in question.
    """
    if isinstance(times, SameWindowTimes):
        return marks
    if isinstance(times, CumulativeTimes):
        step, first = times.step, times.offset
    else:
        step, first = times.slide, times.offset + times.size
    return np.asarray((np.maximum(marks, -(2**62)) + 1 - first) // step, dtype=np.int64)


def _floor(times: Int64s, step: int, offset: int) -> Int64s:
    moved = times - offset % step
    return np.asarray(moved - np.mod(moved, step) + offset % step, dtype=np.int64)
