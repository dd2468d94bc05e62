"""What stands between batches in a channel: control events, few and small."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.alignment.barriers import Barrier


@dataclass(frozen=True, slots=True)
class Watermark:
    """No record with a timestamp at or before `timestamp` (ms) is expected any more."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class Idle:
    """This channel has nothing to say for a while and must not hold event time back."""


@dataclass(frozen=True, slots=True)
class CancelMarker:
    """`checkpoint` was given up upstream; do not wait for its barrier."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class EndOfData:
    """No record follows; barriers still do, until the final checkpoint is done."""


Event = Watermark | Idle | Barrier | CancelMarker | EndOfData

__all__ = ["Barrier", "CancelMarker", "EndOfData", "Event", "Idle", "Watermark"]
