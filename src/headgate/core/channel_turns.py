"""Which of the channels that have something is read next: they take turns, with one exception.

Records of the channel whose event time is furthest behind are read before those of channels that are ahead of
it: what is ahead would only wait in state for the slowest channel's watermark. A channel gives way a limited
number of times in a row, so no sender is kept waiting for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from headgate.common.time import WATERMARK_MIN

MOST_PASSED_OVER: Final = 8
"""So many times in a row the channel whose turn it is gives way to one that is further behind."""


class ChannelTurns:
    """Chooses among channels. `position` gives a channel's watermark (ms), and whether it is idle: of an idle
    one, and where there is no watermark yet, event time decides nothing.
    """

    __slots__ = ("_passed_over", "_position")

    def __init__(self, position: Callable[[int], tuple[int, bool]]) -> None:
        self._position, self._passed_over = position, 0

    def next(self, ready: Iterable[int]) -> int:
        """Return one of the channels `ready`, which are in their turns and have something to read; the first
        one has records.
        """
        turn, *others = ready
        least = self._event_time(turn)
        if others and least is not None and self._passed_over < MOST_PASSED_OVER:
            behind = self._behind(others, turn, least)
            if behind != turn:
                self._passed_over += 1
                return behind
        self._passed_over = 0
        return turn

    def _behind(self, others: Iterable[int], found: int, least: int) -> int:
        for channel in others:
            time = self._event_time(channel)
            if time is not None and time < least:
                found, least = channel, time
        return found

    def _event_time(self, channel: int) -> int | None:
        mark, idle = self._position(channel)
        return None if idle or mark == WATERMARK_MIN else mark
