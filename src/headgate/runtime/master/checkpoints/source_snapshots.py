"""The sources' part of the checkpoints under way: when they are asked, what they gave, what they are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headgate.runtime.master.attempt.attempts import Attempts
from headgate.runtime.master.attempt.outbox import Outbox

RETRY_MS: Final = 20
"""How soon sources are asked again that could not be snapshotted."""


@dataclass(slots=True)
class Begun:
    """A checkpoint under way.

    Attributes:
        began_ms: when it was begun (monotonic).
        trigger_ms: wall clock at its trigger; 0 before that.
    """

    began_ms: int
    enumerators: dict[str, Any]
    trigger_ms: int = 0


class SourceSnapshots:
    """Used by the checkpoint master; at most one checkpoint waits for its sources.

    Attributes:
        waiting: the checkpoint that cannot be drawn yet, and when it was begun; None: there is none.
    """

    def __init__(self, attempts: Attempts, outbox: Outbox) -> None:
        self._attempts, self._outbox = attempts, outbox
        self._begun: dict[int, Begun] = {}
        self.waiting: tuple[int, int] | None = None

    def take(self, checkpoint: int, began_ms: int) -> bool:
        """Snapshot the enumerators.

        Returns:
            whether that was done; otherwise the checkpoint waits.
        """
        self.waiting = None
        if not self._attempts.sources.ready():
            self.waiting = (checkpoint, began_ms)
            return False
        self._begun[checkpoint] = Begun(began_ms, self._attempts.sources.snapshot(checkpoint))
        return True

    def of(self, checkpoint: int) -> Begun:
        """What was taken for it."""
        return self._begun[checkpoint]

    def completed(self, checkpoint: int) -> Begun | None:
        """The checkpoint is durable: its sources are told."""
        begun = self._begun.pop(checkpoint, None)
        self._tell(self._attempts.sources.checkpoint_complete, checkpoint)
        return begun

    def aborted(self, checkpoint: int) -> None:
        """The checkpoint came to nothing: its sources are told."""
        self.saved(checkpoint)
        if self.waiting is not None and self.waiting[0] == checkpoint:
            self.waiting = None

    def saved(self, checkpoint: int) -> Begun | None:
        """The savepoint is whole, but nothing may be trimmed for it."""
        begun = self._begun.pop(checkpoint, None)
        self._tell(self._attempts.sources.checkpoint_aborted, checkpoint)
        return begun

    def wanted(self) -> bool:
        """Whether a source waits for a checkpoint; one that cannot say fails the attempt."""
        try:
            return self._attempts.sources.want_checkpoint()
        except Exception as error:
            self._outbox.attempt_failed(self._attempts.number, error)
            return False

    def clear(self) -> None:
        """Another attempt begins."""
        self._begun.clear()
        self.waiting = None

    def _tell(self, tell: Callable[[int], None], checkpoint: int) -> None:
        try:
            tell(checkpoint)
        except Exception as error:
            self._outbox.attempt_failed(self._attempts.number, error)
