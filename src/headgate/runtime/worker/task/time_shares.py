"""Measures how a subtask spends its time: it works, cannot emit, has nothing to do, or waits for its turn.

The loop that all subtasks of a worker share calls one of them after the other. Times count as follows:

    from                                    to                                counts as
    begin of a step                         its end                           busy
    a turn in which it could not emit       the next step                     backpressured
    end of a step                           a turn in which it had no work    idle
    a turn in which it had no work          arrival of input, the next step   idle
    end of a step, arrival of input         the next step                     waiting

So the four add up to the time that has passed. Idle time ends when input arrives, and not with the next turn,
for which the subtask may have to wait until others have done their steps.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.common.ports import Clock
from headgate.metrics.histograms import Histogram

# What the time since `_since` counts as, when it ends.
_READY: Final = 0
_IDLE: Final = 1
_BLOCKED: Final = 2


class Spent(NamedTuple):
    """How a subtask has spent its time since it was opened, in ms; a step that has not ended is left out."""

    busy: float
    backpressured: float
    idle: float
    waiting: float


class TimeShares:
    """The time of one subtask by what it did, and how long its steps have held up the loop.

    The loop calls all methods but :meth:`spent`, which any thread may call. So that no time counts twice,
    the loop changes `_since` before `_state` before the sums, and `spent` reads them the other way round.
    """

    __slots__ = (
        "_backpressured", "_busy", "_clock", "_idle", "_since", "_state", "_told", "_waiting", "longest_us",
        "steps",
    )  # fmt: skip

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._busy = self._backpressured = self._idle = self._waiting = 0.0  # ms
        self._told = Spent(0.0, 0.0, 0.0, 0.0)
        self.longest_us = 0  # the longest time for which the loop was held up
        self.steps = Histogram()  # all times for which the loop was held up, in microseconds
        self.restart()

    @property
    def idle(self) -> bool:
        """Whether the subtask had no work at its last turn, and no input has arrived since."""
        return self._state == _IDLE

    def restart(self) -> None:
        """Begin to measure, as the subtask is open now; the time until its first step counts as waiting."""
        self._since, self._state = self._clock.precise_ms(), _READY

    def begin(self) -> float:
        """Note that a step begins; return the time (monotonic ms) for :meth:`end` or :meth:`came_back`."""
        now, state = self._clock.precise_ms(), self._state
        if state == _READY:
            self._waiting += now - self._since
        else:
            self._state = _READY
            self._add(state, now - self._since)
        return now

    def end(self, began: float) -> float:
        """Count a step that began at `began` (monotonic ms) and ends now; return its duration in ms."""
        self._since = now = self._clock.precise_ms()
        took_ms = now - began
        self._busy += took_ms
        took_us = int(took_ms * 1000)  # as in `held_up`, without a call for each batch
        if took_us > self.longest_us:
            self.longest_us = took_us
        self.steps.add(took_us)
        return took_ms

    def held_up(self, took_ms: float) -> None:
        """Count `took_ms` as a time for which the subtask held up the loop; it changes no share of time."""
        took_us = int(took_ms * 1000)
        if took_us > self.longest_us:
            self.longest_us = took_us
        self.steps.add(took_us)

    def came_back(self, began: float, worked_ms: float) -> None:
        """Note the end of a step, begun at `began` (monotonic ms), whose work ran in the subtask's own
        thread. Of the time since then, `worked_ms` count as busy, and the rest as waiting for the loop.
        """
        self._since = now = self._clock.precise_ms()
        self._busy += worked_ms
        self._waiting += max(0.0, now - began - worked_ms)

    def blocked(self) -> None:
        if self._state != _BLOCKED:
            self._change(_BLOCKED)

    def no_work(self) -> None:
        if self._state == _READY:
            self._state = _IDLE
        elif self._state == _BLOCKED:
            self._change(_IDLE)

    def arrived(self) -> None:
        if self._state != _BLOCKED:
            now, before = self._clock.precise_ms(), self._since
            self._since = now
            self._state = _READY
            self._idle += now - before

    def _change(self, new: int) -> None:
        now, before, state = self._clock.precise_ms(), self._since, self._state
        self._since = now
        self._state = new
        self._add(state, now - before)

    def _add(self, state: int, passed: float) -> None:
        if state == _IDLE:
            self._idle += passed
        elif state == _BLOCKED:
            self._backpressured += passed
        else:
            self._waiting += passed

    def spent(self) -> Spent:
        """Return the time shares up to now, for any thread; no value is less than at an earlier call."""
        busy, blocked, idle, waiting = self._busy, self._backpressured, self._idle, self._waiting
        state, since = self._state, self._since
        lasting = self._clock.precise_ms() - since
        if state == _IDLE:
            idle += lasting
        elif state == _BLOCKED:
            blocked += lasting
        self._told = Spent(*map(max, self._told, (busy, blocked, idle, waiting)))
        return self._told
