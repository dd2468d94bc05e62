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
    """Snapshot now, before the next record.

    The barrier is to be forwarded as it is; an unaligned one takes records along, until
    :class:`CompleteCapture`.
    """

    barrier: Barrier
    start_delay_ms: float  # from the trigger to the first barrier that took effect here
    alignment_ms: float  # from the first barrier to this moment


@dataclass(frozen=True, slots=True)
class CompleteCapture:
    """The barriers of an unaligned `checkpoint` have come on all channels: nothing more is taken along."""

    checkpoint: int
    alignment_ms: float  # from the first barrier to the last


@dataclass(frozen=True, slots=True)
class AbortSnapshot:
    """`checkpoint` will not be taken here, or what was taken is void: decline it, cancel it downstream."""

    checkpoint: int
    reason: str


Effect = TriggerSnapshot | CompleteCapture | AbortSnapshot


class BarrierHandler(Protocol):
    """The barriers of one input gate with channels numbered from 0."""

    @property
    def current(self) -> int:
        """The latest checkpoint id seen; 0 before the first."""
        ...

    @property
    def pending(self) -> bool:
        """Whether barriers of the current checkpoint are still awaited."""
        ...

    @property
    def blocked(self) -> Set[int]:
        """Channels that must not be read now."""
        ...

    def announce(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        """A barrier has arrived at the gate, perhaps behind records that were not read yet.

        Called for every barrier, in order of arrival, before :meth:`barrier` is.

        `age_ms` is the wall clock now less `barrier.trigger_ms`; `now_ms` is the monotonic clock.
        """
        ...

    def barrier(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        """A barrier is next to be read: all records ahead of it were.

        Called for every barrier, also for one that took effect when it was announced.
        """
        ...

    def cancel(self, checkpoint: int) -> list[Effect]:
        """A cancellation marker was read."""
        ...

    def abort(self, checkpoint: int) -> None:
        """The job master gave `checkpoint` up: nothing waits for it any more, its late barriers are stale."""
        ...

    def end_of_partition(self, channel: int, now_ms: float) -> list[Effect]:
        """Nothing at all will come on `channel` any more, not even barriers."""
        ...

    def timeout(self, now_ms: float) -> list[Effect]:
        """Time passed: perform what :meth:`next_timeout` announced, if it is due."""
        ...

    def next_timeout(self) -> float | None:
        """Return the monotonic time from which on :meth:`timeout` has something to do.

        None when nothing waits.
        """
        ...
