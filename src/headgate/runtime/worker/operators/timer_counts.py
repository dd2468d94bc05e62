"""Counts the timers of a keyed operator, for its metrics.

Registering a timer is on the path of a record, so nothing is counted there: fired timers are counted slice by
slice, and registered ones once after each time that the heartbeat has read the metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.metrics import metric_table as table
from headgate.runtime.worker.operators.keyed_context import Timers

_FIRED: Final = table.TIMERS_FIRED.at("event")
_FIRED_WALL: Final = table.TIMERS_FIRED.at("processing")
_PENDING: Final = table.TIMERS_PENDING.at("event")
_PENDING_WALL: Final = table.TIMERS_PENDING.at("processing")


class TimerCounts:
    """The numbers of fired and of registered timers of a keyed operator, for its metrics.

    Its loop calls :meth:`count` while :attr:`wanted` is True: after a batch, or when it has nothing to do.
    """

    __slots__ = ("_fired", "_fired_wall", "_pending", "_timers", "wanted")

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._fired = self._fired_wall = 0  # timers of event time, and of processing time
        self._pending = (0, 0)  # registered ones of both, when they were last counted
        self.wanted = True  # whether the registered timers may be others than they were

    def add(self, fired: int, fired_wall: int = 0) -> None:
        """Add numbers of timers that have fired, in event time and in processing time, to the totals."""
        self._fired += fired
        self._fired_wall += fired_wall

    def count(self) -> None:
        """Count the registered timers (an estimate if they are many), and set :attr:`wanted` to False."""
        self.wanted = False
        self._pending = self._timers.event.about(), self._timers.processing.about()

    def measured(self) -> Mapping[str, int]:
        """Return the metrics by series, and have registered timers counted anew, for the next call."""
        self.wanted = True
        pending, pending_wall = self._pending
        return {
            _FIRED: self._fired,
            _FIRED_WALL: self._fired_wall,
            _PENDING: pending,
            _PENDING_WALL: pending_wall,
        }
