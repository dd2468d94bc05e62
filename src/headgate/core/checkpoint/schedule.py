"""When the next periodic checkpoint is due: a fixed rate that begins at a random time and never piles up."""

from __future__ import annotations

from collections.abc import Callable, Hashable


class PeriodicSchedule:
    """The schedule of a job's periodic checkpoints, one every `period_ms` (None: never), at most one overdue.
    Times are monotonic ms. `uniform(low, high)` picks when the first is due.

    Example:
        >>> schedule = PeriodicSchedule(100, 20, max)
        >>> schedule.arm(0); schedule.next_wakeup_ms
        100
        >>> schedule.pass_time(130); schedule.is_late, schedule.take(130), schedule.next_wakeup_ms
        (True, None, 200)
    """

    __slots__ = ("_due_ms", "_late_ms", "_min_pause_ms", "_period_ms", "_uniform")

    def __init__(
        self, period_ms: int | None, min_pause_ms: int, uniform: Callable[[float, float], float]
    ) -> None:
        self._period_ms, self._min_pause_ms, self._uniform = period_ms, min_pause_ms, uniform
        self._due_ms: int | None = None
        self._late_ms: int | None = None

    @property
    def is_armed(self) -> bool:
        return self._due_ms is not None or self._late_ms is not None

    @property
    def is_late(self) -> bool:
        """Whether a periodic checkpoint is due and waits to be started."""
        return self._late_ms is not None

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the next periodic checkpoint becomes due; None while one waits, or without a schedule."""
        return self._due_ms

    def arm(self, now_ms: int) -> None:
        """Schedule a first checkpoint at random, from the minimum pause to the period after `now_ms`."""
        if self._period_ms is not None:
            delay = self._uniform(float(self._min_pause_ms), float(self._period_ms))
            self._due_ms, self._late_ms = now_ms + round(delay), None

    def disarm(self) -> None:
        self._due_ms = self._late_ms = None

    def request(self, now_ms: int) -> None:
        self._late_ms, self._due_ms = now_ms, None

    def pass_time(self, now_ms: int) -> None:
        """Mark the scheduled checkpoint as waiting if it is due at `now_ms`."""
        if self._due_ms is not None and now_ms >= self._due_ms:
            self._late_ms, self._due_ms = self._due_ms, None

    def postpone(self, until_ms: int) -> None:
        """Make the checkpoint that waits due at `until_ms`, as it comes too soon after the last completion.
        Until then the schedule says that none waits.
        """
        self._late_ms, self._due_ms = None, until_ms

    def take(self, now_ms: int) -> None:
        if self._late_ms is None or self._period_ms is None:
            return
        due_ms, self._late_ms = self._late_ms + self._period_ms, None
        # A fixed rate, unless this one had to wait for a full period: then the rate begins anew.
        self._due_ms = due_ms if due_ms > now_ms else now_ms + self._period_ms

    def describe(self) -> tuple[Hashable, ...]:
        return (self._due_ms, self._late_ms)
