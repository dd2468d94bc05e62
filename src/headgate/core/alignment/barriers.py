"""Checkpoint barriers: the events that separate records of one checkpoint from later ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Alignment(Enum):
    """How a barrier travels: whether channels wait for it, and whether it overtakes records ahead of it."""

    AT_LEAST_ONCE = "at-least-once"  # nothing waits: later records may be processed before the snapshot
    ALIGNED = "aligned"  # a channel waits behind it until it has come on all channels
    UNALIGNED = "unaligned"  # it overtakes the records ahead of it, which become part of the checkpoint
    # of an unaligned checkpoint, on an exchange whose records cannot be part of a checkpoint
    FORCED_ALIGNED = "forced-aligned"


@dataclass(frozen=True, slots=True)
class SavepointOrder:
    """Options of a savepoint, carried by its barriers: folder, format, whether the job stops or drains."""

    root: str  # URI of the savepoint's own folder; all its files go there
    format: str = "canonical"  # or "native"
    stop: bool = False  # sources emit nothing after the barrier, because the job ends with the savepoint
    drain: bool = False  # before that, sources end event time, so that windows and timers fire


@dataclass(frozen=True, slots=True)
class Barrier:
    """The event that separates the records that belong to `checkpoint` from those that come after it.

    `trigger_ms` is a wall clock; older than `timeout_ms` (None: never) the barrier becomes unaligned.
    `completed` is the newest complete checkpoint (0: none), to whose files snapshots may refer.
    """

    checkpoint: int
    trigger_ms: int  # wall clock of the job master at the trigger; start delay and age count from it
    alignment: Alignment = Alignment.ALIGNED
    timeout_ms: int | None = None  # an aligned one that is older becomes unaligned; None: it never does
    savepoint: SavepointOrder | None = None  # None: of a checkpoint; no savepoint's barrier overtakes
    completed: int = 0

    @property
    def overtakes(self) -> bool:
        """Whether the barrier overtakes records as soon as it arrives, without waiting for a timeout."""
        return self.alignment is Alignment.UNALIGNED

    @property
    def marks(self) -> bool:
        """Whether it blocks at every gate, so that what is before it is an exact answer, as with a mark."""
        waits = self.alignment is Alignment.ALIGNED and self.timeout_ms is None
        return waits or (self.savepoint is not None and self.alignment is not Alignment.AT_LEAST_ONCE)

    @property
    def stops(self) -> bool:
        """Whether sources emit nothing after this barrier, because the job stops with a savepoint."""
        return self.savepoint is not None and self.savepoint.stop

    @property
    def drains(self) -> bool:
        """Whether sources end event time before this barrier, so that all timers of event time fire."""
        return self.savepoint is not None and self.savepoint.drain

    def as_unaligned(self) -> Barrier:
        """Return this barrier as UNALIGNED, without timeout: so it is sent on where it overtakes records."""
        return replace(self, alignment=Alignment.UNALIGNED, timeout_ms=None)

    def as_forced(self) -> Barrier:
        """Return the barrier to send on an exchange where no barrier may overtake records.

        A barrier that never overtakes is returned unchanged; any other becomes FORCED_ALIGNED.
        """
        if self.alignment is not Alignment.UNALIGNED and self.timeout_ms is None:
            return self
        return replace(self, alignment=Alignment.FORCED_ALIGNED)

    def unforced(self) -> Barrier:
        """Return the barrier as the job master sent it: undo :meth:`as_forced`."""
        if self.alignment is not Alignment.FORCED_ALIGNED:
            return self
        sent = Alignment.UNALIGNED if self.timeout_ms is None else Alignment.ALIGNED
        return replace(self, alignment=sent)
