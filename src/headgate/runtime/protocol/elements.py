"""The control events that travel between the batches of a channel; few and small."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.alignment.barriers import Barrier
from headgate.core.marks import NO_EPOCH, Mark


@dataclass(frozen=True, slots=True)
class Watermark:
    """Event time has reached `timestamp` (ms): no record at or before it is expected any more."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class Idle:
    """This channel has no records at present, so its watermark must not hold event time back."""


@dataclass(frozen=True, slots=True)
class CancelMarker:
    """`checkpoint` was aborted upstream: do not wait for its barrier."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class EndOfData:
    """No more records follow on this channel; barriers still do, until the final checkpoint is complete.
    `last` is the greatest epoch that a source above has emitted a mark of.
    """

    last: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class Trace:
    """The first record of the channel's next batch is followed on its way. It is lost where a barrier
    overtakes it, and is not stored.
    """

    number: int  # of the way, from the record that a source has read
    sender: int  # number of the visit to the subtask that has sent the record
    sent_us: int  # when (wall clock)


Event = Watermark | Idle | Barrier | CancelMarker | EndOfData | Mark | Trace

__all__ = ["Barrier", "CancelMarker", "EndOfData", "Event", "Idle", "Mark", "Trace", "Watermark"]
