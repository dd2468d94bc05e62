"""Exactly-once without waiting: every barrier overtakes, and the records ahead of it are taken along."""

from __future__ import annotations

from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.single_checkpoint import SingleCheckpointBarrierHandler


class UnalignedBarrierHandler(SingleCheckpointBarrierHandler):
    """Triggers at the first barrier that arrives, whatever its options; only forced channels align.

    Example:
        >>> handler = UnalignedBarrierHandler(2)
        >>> [type(effect).__name__ for effect in handler.announce(0, Barrier(1, trigger_ms=0), 5, 100.0)]
        ['TriggerSnapshot']
        >>> handler.announce(1, Barrier(1, trigger_ms=0), 8, 103.0)
        [CompleteCapture(checkpoint=1, alignment_ms=3.0)]
    """

    def _wants_to_overtake(self, barrier: Barrier) -> bool:
        return True
