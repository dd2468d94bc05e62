"""A barrier, and how it may travel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Alignment(Enum):
    """What a barrier does to the records ahead of it and to the channels it comes from."""

    AT_LEAST_ONCE = "at-least-once"  # nothing waits: later records may be processed before the snapshot
    ALIGNED = "aligned"  # a channel waits behind it until it has come on all channels
    UNALIGNED = "unaligned"  # it overtakes the records ahead of it, which become part of the checkpoint
    # of an unaligned checkpoint, on an exchange whose records cannot be part of a checkpoint
    FORCED_ALIGNED = "forced-aligned"


@dataclass(frozen=True, slots=True)
class SavepointOrder:
    """What makes a barrier a savepoint's: every subtask learns it from the barrier itself."""

    root: str  # URI of the savepoint's own folder; all its files go there
    format: str = "canonical"  # or "native"
    stop: bool = False  # sources emit nothing after the barrier, because the job ends with the savepoint
    drain: bool = False  # before that, sources end event time, so that windows and timers fire


@dataclass(frozen=True, slots=True)
class Barrier:
    """Splits the stream into what belongs to `checkpoint` and what comes after.

    `completed` is the newest checkpoint of the job that was complete at the trigger, 0 for none. Snapshots
    may refer to its files: what the barrier carries is known wherever a snapshot is taken.
    """

    checkpoint: int
    trigger_ms: int  # wall clock of the job master at the trigger; start delay and age count from it
    alignment: Alignment = Alignment.ALIGNED
    timeout_ms: int | None = None  # an aligned one that is older becomes unaligned; None: it never does
    savepoint: SavepointOrder | None = None  # None: of a checkpoint; a savepoint always aligns
    completed: int = 0

    @property
    def overtakes(self) -> bool:
        """Whether it overtakes records from the start."""
        return self.alignment is Alignment.UNALIGNED

    @property
    def stops(self) -> bool:
        """Whether sources emit nothing after it."""
        return self.savepoint is not None and self.savepoint.stop

    @property
    def drains(self) -> bool:
        """Whether event time ends before it, so that all timers of event time have fired."""
        return self.savepoint is not None and self.savepoint.drain

    def as_unaligned(self) -> Barrier:
        """Return the barrier as unaligned, once it waited too long."""
        return replace(self, alignment=Alignment.UNALIGNED, timeout_ms=None)

    def as_forced(self) -> Barrier:
        """Return the barrier for an exchange that always aligns.

        One that aligns anyway stays as it is.
        """
        if self.alignment is not Alignment.UNALIGNED and self.timeout_ms is None:
            return self
        return replace(self, alignment=Alignment.FORCED_ALIGNED)

    def unforced(self) -> Barrier:
        """Return the barrier as the job master sent it, also if it came through such an exchange."""
        if self.alignment is not Alignment.FORCED_ALIGNED:
            return self
        sent = Alignment.UNALIGNED if self.timeout_ms is None else Alignment.ALIGNED
        return replace(self, alignment=sent)
