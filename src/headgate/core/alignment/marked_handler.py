"""Barriers and marks at one gate: barriers go first, and channels wait for either.

What a barrier does is the inner handler's business. While one is being aligned no mark is gathered:
a channel that waits behind a mark might be the one whose barrier is missing.
"""

from __future__ import annotations

from collections.abc import Set

from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.handler_contract import BarrierHandler, Effect
from headgate.core.marks import Mark, MarkGate


class MarkedHandler:
    """A :class:`BarrierHandler` whose channels also wait behind marks; `barriers` decides about barriers."""

    def __init__(self, barriers: BarrierHandler, channels: int) -> None:
        self._barriers, self.marks = barriers, MarkGate(channels)

    @property
    def current(self) -> int:
        return self._barriers.current

    @property
    def pending(self) -> bool:
        return self._barriers.pending

    @property
    def blocked(self) -> Set[int]:
        return self._barriers.blocked | self.marks.waiting

    def mark(self, channel: int, mark: Mark) -> int | None:
        """Process a mark that was read from `channel`; return the epoch if it comes out now, else None."""
        return self.marks.mark(channel, mark.epoch, mark.rows, aligning=self.pending)

    def announce(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        return self._barriers_first(self._barriers.announce(channel, barrier, age_ms, now_ms))

    def barrier(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        return self._barriers_first(self._barriers.barrier(channel, barrier, age_ms, now_ms))

    def cancel(self, checkpoint: int) -> list[Effect]:
        return self._barriers.cancel(checkpoint)

    def abort(self, checkpoint: int) -> None:
        self._barriers.abort(checkpoint)

    def end_of_partition(self, channel: int, now_ms: float) -> list[Effect]:
        return self._barriers.end_of_partition(channel, now_ms)

    def timeout(self, now_ms: float) -> list[Effect]:
        return self._barriers.timeout(now_ms)

    def next_timeout(self) -> float | None:
        return self._barriers.next_timeout()

    def _barriers_first(self, effects: list[Effect]) -> list[Effect]:
        if effects or self._barriers.pending:
            self.marks.drop()
        return effects
