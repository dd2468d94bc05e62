"""Firing timers in slices: how far it has come, and when others get their turn.

It calls no user code: the keyed operator does, and asks here whether to go on.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from headgate.common.ports import Clock

STRIDE_MAX: Final = 16
"""Timers between two looks at the clock, once they have proved cheap."""


class Slice:
    """The time for which timers may fire in one step.

    The clock is asked after the first timer, then after 2, 4, 8 more and so on: an expensive timer
    ends the slice at once, and cheap ones do not pay for the asking.

    `target_ms`: how long the slice should be; None: without end.

    Attributes:
        left: timers until :meth:`over` wants to be asked; the caller counts it down to 0.
    """

    __slots__ = ("_clock", "_ends", "_stride", "left")

    def __init__(self, clock: Clock, target_ms: int | None) -> None:
        self._clock, self._stride = clock, 1
        self._ends = 0.0 if target_ms is None else clock.precise_ms() + target_ms
        self.left = -1 if target_ms is None else 1  # from -1 it never comes to 0

    def over(self) -> bool:
        """Whether the time is used up; else `left` is set anew."""
        if self._clock.precise_ms() >= self._ends:
            self.left = 1
            return True
        self._stride = min(2 * self._stride, STRIDE_MAX)
        self.left = self._stride
        return False


class Firing:
    """Timers of one time domain that are being fired up to some time.

    Attributes:
        target: timers at or before it are due, in ms.
        announce: whether the target is passed on as a watermark when all have fired.
        allowed: how many timers may fire yet; None: any number.
        due: the timers in hand. It is kept from slice to slice: to take a bucket of a million
            timers in hand costs as much as a slice.
    """

    __slots__ = ("allowed", "announce", "due", "target")

    def __init__(
        self,
        target: int,
        due: Iterable[tuple[int, Hashable]],
        announce: bool = False,
        allowed: int | None = None,
    ) -> None:
        self.target, self.due, self.announce, self.allowed = target, due, announce, allowed
