"""The snapshots of the split enumerators for pending checkpoints, kept until a checkpoint has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from headgate.runtime.master.attempt.attempts import Attempts
from headgate.runtime.master.attempt.outbox import Outbox

RETRY_MS: Final = 20  # pause before enumerators that were not ready are asked again


@dataclass(slots=True)
class Begun:
    """Times of a pending checkpoint, and what its source enumerators held at its begin, by source uid."""

    began_ms: int  # monotonic
    enumerators: dict[str, Any]
    trigger_ms: int = 0  # wall clock; 0 before the trigger


class SourceSnapshots:
    """The enumerators' snapshots of pending checkpoints; at most one waits for enumerators to be ready."""

    def __init__(self, attempts: Attempts, outbox: Outbox) -> None:
        self._attempts, self._outbox = attempts, outbox
        self._begun: dict[int, Begun] = {}
        self.waiting: tuple[int, int] | None = None  # checkpoint that waits for enumerators, began_ms

    def take(self, checkpoint: int, began_ms: int) -> bool:
        """Snapshot the enumerators for a checkpoint begun at `began_ms` (monotonic ms); True: it is done.
        False: one is not ready; :attr:`waiting` then says for which checkpoint to call this again.
        """
        self.waiting = None
        if not self._attempts.sources.ready():
            self.waiting = (checkpoint, began_ms)
            return False
        self._begun[checkpoint] = Begun(began_ms, self._attempts.sources.snapshot(checkpoint))
        return True

    def of(self, checkpoint: int) -> Begun:
        return self._begun[checkpoint]

    def ended(self, checkpoint: int, *, complete: bool) -> Begun | None:
        """Notify enumerators: `complete`, else aborted (errors fail the attempt); return Begun, if any."""
        if self.waiting is not None and self.waiting[0] == checkpoint:
            self.waiting = None
        try:
            self._attempts.sources.checkpoint_ended(checkpoint, complete=complete)
        except Exception as error:
            self._outbox.attempt_failed(self._attempts.number, error)
        return self._begun.pop(checkpoint, None)

    def wanted(self) -> bool:
        """Return whether a source asks for a checkpoint now; on its error False, and the attempt fails."""
        try:
            return self._attempts.sources.want_checkpoint()
        except Exception as error:
            self._outbox.attempt_failed(self._attempts.number, error)
            return False

    def clear(self) -> None:
        self._begun.clear()
        self.waiting = None
