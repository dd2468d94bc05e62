"""Choose the barrier handler of an input gate by the job's checkpointing mode."""

from __future__ import annotations

from headgate.common.errors import ConfigError
from headgate.core.alignment.at_least_once_handler import CheckpointBarrierTracker
from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.exactly_once_handler import SingleCheckpointBarrierHandler
from headgate.core.alignment.handler_contract import BarrierHandler


class AlignedBarrierHandler(SingleCheckpointBarrierHandler):
    """Barrier handler for jobs without unaligned checkpoints: no barrier overtakes, there is no timeout.

    Barriers of several checkpoints may be queued in the channels, since each takes effect when it is read.

    Example:
        >>> handler = AlignedBarrierHandler(2)
        >>> handler.barrier(0, Barrier(1, trigger_ms=0), 5, 100.0), handler.blocked
        ([], {0})
        >>> [effect.alignment_ms for effect in handler.barrier(1, Barrier(1, trigger_ms=0), 8, 103.0)]
        [3.0]
        >>> handler.blocked
        set()
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels, forced=frozenset(range(channels)))

    def _timeout_ms(self, barrier: Barrier) -> int | None:
        return None


class AlternatingBarrierHandler(SingleCheckpointBarrierHandler):
    """Barrier handler for jobs with unaligned checkpoints: barriers say how they travel; savepoints align.

    Example:
        >>> handler, barrier = AlternatingBarrierHandler(2), Barrier(1, trigger_ms=0, timeout_ms=100)
        >>> handler.announce(0, barrier, 30, 1000.0), handler.next_timeout()
        ([], 1070.0)
        >>> handler.timeout(1070.0)
        []
        >>> [effect.barrier.overtakes for effect in handler.timeout(1070.5)], handler.next_timeout()
        ([True], None)
    """


def make_handler(
    channels: int,
    *,
    exactly_once: bool,
    unaligned: bool,
    forced: frozenset[int] = frozenset(),
    awaited: frozenset[int] = frozenset(),
) -> BarrierHandler:
    """Return the barrier handler of an input gate; ConfigError if `unaligned` without `exactly_once`.

    With `unaligned`, no barrier overtakes records of channels in `forced`, nor before it has come on those in
    `awaited`; see :class:`SingleCheckpointBarrierHandler`.

    Example:
        >>> type(make_handler(2, exactly_once=True, unaligned=True)).__name__
        'AlternatingBarrierHandler'
    """
    if exactly_once:
        if unaligned:
            return AlternatingBarrierHandler(channels, forced=forced, awaited=awaited)
        return AlignedBarrierHandler(channels)
    if unaligned:
        raise ConfigError(
            "execution.checkpointing.unaligned.enabled is true and execution.checkpointing.mode is "
            "AT_LEAST_ONCE; expected EXACTLY_ONCE with unaligned checkpoints; change one of the two"
        )
    return CheckpointBarrierTracker(channels)
