"""Event time of a subtask with several inputs: the least of its active channels, never falling.

An idle channel does not hold the others back. When all are idle, event time stands still. This
computes the time; it does not fire timers.
"""

from __future__ import annotations

from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN


class WatermarkValve:
    """Combines channels' watermarks: `combined` is the least active one, from `start` on, and never falls."""

    __slots__ = ("_idle", "_marks", "combined")

    def __init__(self, channels: int, start: int = WATERMARK_MIN) -> None:
        self.combined = start
        self._marks = [WATERMARK_MIN] * channels
        self._idle = [False] * channels

    def seed(self, channel: int, watermark: int | None, idle: bool) -> None:
        """Set a channel's watermark (None: as it was) and idleness as a restored snapshot holds them."""
        if watermark is not None:
            self._marks[channel] = watermark
        self._idle[channel] = idle
        self._combine()

    def position(self, channel: int) -> tuple[int, bool]:
        """Return a channel's own watermark in ms (WATERMARK_MIN: none yet), and whether it is idle."""
        return self._marks[channel], self._idle[channel]

    def advance(self, channel: int, watermark: int) -> int:
        """Make a channel active, and raise its watermark, never lower it; return the combined one (ms)."""
        self._idle[channel] = False
        if watermark > self._marks[channel]:
            self._marks[channel] = watermark
        return self._combine()

    def idle(self, channel: int) -> int:
        self._idle[channel] = True
        return self._combine()

    def is_idle(self) -> bool:
        return all(self._idle)

    def bound_by_others(self, channel: int) -> int:
        """Make `channel` active, and return the least watermark (ms) of the other active channels; if there
        are none, WATERMARK_MAX.
        """
        self._idle[channel] = False
        others = [
            mark for index, mark in enumerate(self._marks) if index != channel and not self._idle[index]
        ]
        return min(others, default=WATERMARK_MAX)

    def _combine(self) -> int:
        active = [mark for mark, idle in zip(self._marks, self._idle, strict=True) if not idle]
        if active:
            self.combined = max(self.combined, min(active))
        return self.combined
