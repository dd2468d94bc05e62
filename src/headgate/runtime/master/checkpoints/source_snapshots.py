"""The snapshots of the split enumerators for pending checkpoints, kept until a checkpoint has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from headgate.runtime.master.attempt.attempts import Attempts
from headgate.runtime.master.attempt.outbox import Outbox

RETRY_MS: Final = 20  # pause before enumerators that were not ready are asked again


@dataclass(slots=True)
class Begun:
    """A pending checkpoint: when it began, and the snapshots of its enumerators by source uid."""

    began_ms: int  # monotonic
    enumerators: dict[str, Any]
    trigger_ms: int = 0  # wall clock; 0 before the trigger


class SourceSnapshots:
    """Snapshots the enumerators for checkpoints; at most one checkpoint waits for enumerators to be ready."""

    def __init__(self, attempts: Attempts, outbox: Outbox) -> None:
        self._attempts, self._outbox = attempts, outbox
        self._begun: dict[int, Begun] = {}
        self.waiting: tuple[int, int] | None = None  # checkpoint that waits for enumerators, began_ms

    def take(self, checkpoint: int, began_ms: int) -> bool:
        """Snapshot the enumerators; False: not ready, call again. `began_ms`: monotonic, of `checkpoint`."""
        self.waiting = None
        if not self._attempts.sources.ready():
            self.waiting = (checkpoint, began_ms)
            return False
        self._begun[checkpoint] = Begun(began_ms, self._attempts.sources.snapshot(checkpoint))
        return True

    def of(self, checkpoint: int) -> Begun:
        """Return the begin of a pending checkpoint and its snapshots; KeyError if none were taken."""
        return self._begun[checkpoint]

    def ended(self, checkpoint: int, *, complete: bool) -> Begun | None:
        """Tell enumerators of a checkpoint's end; errors fail the attempt. Drop and return its snapshots."""
        if self.waiting is not None and self.waiting[0] == checkpoint:
            self.waiting = None
        try:
            self._attempts.sources.checkpoint_ended(checkpoint, complete=complete)
        except Exception as error:
            self._outbox.attempt_failed(self._attempts.number, error)
        return self._begun.pop(checkpoint, None)

    def wanted(self) -> bool:
        """Return whether a source asks for a checkpoint; an error of the source fails the attempt."""
        try:
            return self._attempts.sources.want_checkpoint()
        except Exception as error:
            self._outbox.attempt_failed(self._attempts.number, error)
            return False

    def clear(self) -> None:
        """Forget all pending checkpoints, because another attempt begins."""
        self._begun.clear()
        self.waiting = None
