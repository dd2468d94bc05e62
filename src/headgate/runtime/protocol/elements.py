"""Control events between the batches of a channel: few and small."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.alignment.barriers import Barrier


@dataclass(frozen=True, slots=True)
class Watermark:
    """No record with a timestamp at or before `timestamp` (ms) is expected any more."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing comes on this channel for a while, so it must not hold event time back."""


@dataclass(frozen=True, slots=True)
class CancelMarker:
    """`checkpoint` was given up upstream; do not wait for its barrier."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class EndOfData:
    """No record follows; barriers still do, until the final checkpoint is done."""


Event = Watermark | Idle | Barrier | CancelMarker | EndOfData

__all__ = ["Barrier", "CancelMarker", "EndOfData", "Event", "Idle", "Watermark"]
