"""Exactly-once by waiting: a channel that delivered the barrier waits until all others have."""

from __future__ import annotations

from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.single_checkpoint import SingleCheckpointBarrierHandler


class AlignedBarrierHandler(SingleCheckpointBarrierHandler):
    """For jobs without unaligned checkpoints: nothing overtakes, and no clock runs.

    Several checkpoints may be under way in the channels, since a barrier takes hold when it is read.

    Example:
        >>> handler = AlignedBarrierHandler(2)
        >>> handler.barrier(0, Barrier(1, trigger_ms=0), 5, 100.0), handler.blocked
        ([], {0})
        >>> [effect.alignment_ms for effect in handler.barrier(1, Barrier(1, trigger_ms=0), 8, 103.0)]
        [3.0]
        >>> handler.blocked
        set()
    """

    def __init__(self, channels: int, *, strict: bool = False) -> None:
        super().__init__(channels, forced=frozenset(range(channels)), strict=strict)

    def _timeout_ms(self, barrier: Barrier) -> int | None:
        return None
