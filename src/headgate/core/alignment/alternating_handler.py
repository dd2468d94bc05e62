"""Exactly-once, each checkpoint as its barriers say: aligned, unaligned, or aligned until too old."""

from __future__ import annotations

from headgate.core.alignment.single_checkpoint import SingleCheckpointBarrierHandler


class AlternatingBarrierHandler(SingleCheckpointBarrierHandler):
    """For jobs with unaligned checkpoints; savepoints and barriers without timeout align all the same.

    Example:
        >>> from headgate.core.alignment.barriers import Barrier
        >>> handler, barrier = AlternatingBarrierHandler(2), Barrier(1, trigger_ms=0, timeout_ms=100)
        >>> handler.announce(0, barrier, 30, 1000.0), handler.next_timeout()
        ([], 1070.0)
        >>> handler.timeout(1070.0)
        []
        >>> [effect.barrier.overtakes for effect in handler.timeout(1070.5)], handler.next_timeout()
        ([True], None)
    """
