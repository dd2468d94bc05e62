"""The contract of all barrier handlers: events in, effects out.

A handler decides for one input gate when to snapshot, when to give up, and which channels must
wait. It is pure: events and times go in, effects come out, for the gate and the subtask to perform
in order.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final, Protocol

from headgate.core.alignment.barriers import Barrier

SUBSUMED: Final = "CHECKPOINT_DECLINED_SUBSUMED"
ON_CANCELLATION_BARRIER: Final = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"


@dataclass(frozen=True, slots=True)
class TriggerSnapshot:
    """Effect: take the subtask's snapshot now, before the next record is processed.

    The barrier is to be forwarded as it is; records that an unaligned one overtakes are captured until
    :class:`CompleteCapture`.
    """

    barrier: Barrier
    start_delay_ms: float  # from the trigger to the first barrier that took effect here
    alignment_ms: float  # from the first barrier to this moment


@dataclass(frozen=True, slots=True)
class CompleteCapture:
    """Effect: end the capture of records in flight for `checkpoint`: all its barriers have arrived."""

    checkpoint: int
    alignment_ms: float  # from the first barrier to the last


@dataclass(frozen=True, slots=True)
class AbortSnapshot:
    """Effect: decline `checkpoint`, discard what was taken for it here, and cancel it downstream."""

    checkpoint: int
    reason: str  # SUBSUMED or ON_CANCELLATION_BARRIER


Effect = TriggerSnapshot | CompleteCapture | AbortSnapshot


class BarrierHandler(Protocol):
    """Decides for one input gate what barriers cause: block, snapshot, abort. Used by its gate, in its loop.
    Channels are numbered from 0. Effects are returned in the order in which the gate's subtask performs them.
    A repeated barrier, and one of a checkpoint that has ended, changes nothing ([]).
    """

    @property
    def current(self) -> int:
        """The latest checkpoint id that took effect or was cancelled here; 0 before the first."""

    @property
    def pending(self) -> bool:
        """Whether a checkpoint that took effect still waits for barriers."""

    @property
    def blocked(self) -> Set[int]:
        """The channels that must not be read now: their barrier was read, and others' are still missing."""

    def announce(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        """Register a barrier that arrived at the gate, perhaps behind records that were not read yet. Called
        for every barrier, in order of arrival, before :meth:`barrier` is; one that may overtake takes effect
        here. `age_ms` is the wall clock now less `barrier.trigger_ms`; `now_ms` is the monotonic clock.
        """

    def barrier(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        """Process a barrier that was read from `channel`: all records ahead of it were read before. Called
        for every barrier, also for one that took effect when it was announced; times as there.
        """

    def cancel(self, checkpoint: int) -> list[Effect]:
        """Abort `checkpoint`, unless it has ended, and older ones: a marker that cancels it was read."""

    def abort(self, checkpoint: int) -> None:
        """Drop `checkpoint`, which the job master aborted: unblock its channels, ignore its late barriers."""

    def end_of_partition(self, channel: int, now_ms: float) -> list[Effect]:
        """Mark `channel` as ended: no barrier comes on it; effects trigger or complete what waited for it."""

    def timeout(self, now_ms: float) -> list[Effect]:
        """Switch an aligned checkpoint to unaligned if its :meth:`next_timeout` has passed at `now_ms`."""

    def next_timeout(self) -> float | None:
        """Return the monotonic time (ms) after which :meth:`timeout` has something to do; None: nothing
        waits.
        """
