"""Which barrier handler a gate gets, by the job's checkpointing mode."""

from __future__ import annotations

from headgate.common.errors import ConfigError
from headgate.core.alignment.aligned_handler import AlignedBarrierHandler
from headgate.core.alignment.alternating_handler import AlternatingBarrierHandler
from headgate.core.alignment.at_least_once_handler import CheckpointBarrierTracker
from headgate.core.alignment.handler import BarrierHandler


def make_handler(
    channels: int,
    *,
    exactly_once: bool,
    unaligned: bool,
    forced: frozenset[int] = frozenset(),
    awaited: frozenset[int] = frozenset(),
    strict: bool = False,
) -> BarrierHandler:
    """The handler for a gate.

    Barriers never overtake on channels in `forced`, and none overtakes before those of channels in `awaited`
    have arrived; both matter with `unaligned` only.

    Example:
        >>> type(make_handler(2, exactly_once=True, unaligned=True)).__name__
        'AlternatingBarrierHandler'
    """
    if not exactly_once:
        if unaligned:
            raise ConfigError(
                "execution.checkpointing.unaligned.enabled is true and execution.checkpointing.mode is "
                "AT_LEAST_ONCE; expected EXACTLY_ONCE with unaligned checkpoints; change one of the two"
            )
        return CheckpointBarrierTracker(channels, strict=strict)
    if unaligned:
        return AlternatingBarrierHandler(channels, forced=forced, awaited=awaited, strict=strict)
    return AlignedBarrierHandler(channels, strict=strict)
