"""The sources' part of the pending checkpoints: when they are asked, what they gave, how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from headgate.runtime.master.attempt.attempts import Attempts
from headgate.runtime.master.attempt.outbox import Outbox

RETRY_MS: Final = 20  # how soon sources are asked again that could not be snapshotted


@dataclass(slots=True)
class Begun:
    """A pending checkpoint."""

    began_ms: int  # monotonic
    enumerators: dict[str, Any]
    trigger_ms: int = 0  # wall clock; 0 before the trigger


class SourceSnapshots:
    """Used by the checkpoint master; at most one checkpoint waits for its sources."""

    def __init__(self, attempts: Attempts, outbox: Outbox) -> None:
        self._attempts, self._outbox = attempts, outbox
        self._begun: dict[int, Begun] = {}
        self.waiting: tuple[int, int] | None = None  # the one that cannot be taken yet, and when it was begun

    def take(self, checkpoint: int, began_ms: int) -> bool:
        """Snapshot the enumerators; False: they are not ready, and the checkpoint waits."""
        self.waiting = None
        if not self._attempts.sources.ready():
            self.waiting = (checkpoint, began_ms)
            return False
        self._begun[checkpoint] = Begun(began_ms, self._attempts.sources.snapshot(checkpoint))
        return True

    def of(self, checkpoint: int) -> Begun:
        """Return the snapshots of the sources taken for a checkpoint."""
        return self._begun[checkpoint]

    def ended(self, checkpoint: int, *, complete: bool) -> Begun | None:
        """Notify the sources that the checkpoint is durable, or that nothing may be trimmed for it."""
        if self.waiting is not None and self.waiting[0] == checkpoint:
            self.waiting = None
        try:
            self._attempts.sources.checkpoint_ended(checkpoint, complete=complete)
        except Exception as error:
            self._outbox.attempt_failed(self._attempts.number, error)
        return self._begun.pop(checkpoint, None)

    def wanted(self) -> bool:
        """Return whether a source waits for a checkpoint; one that raises fails the attempt."""
        try:
            return self._attempts.sources.want_checkpoint()
        except Exception as error:
            self._outbox.attempt_failed(self._attempts.number, error)
            return False

    def clear(self) -> None:
        """Another attempt begins."""
        self._begun.clear()
        self.waiting = None
