"""What the checkpoint master asks of the job master it belongs to."""

from __future__ import annotations

from typing import Any, Protocol

from headgate.common.errors import FencedError
from headgate.core.checkpoint.effects import RequestKind
from headgate.runtime.enumerators import Enumerators


class CheckpointHost(Protocol):
    """What the checkpoint master asks of the job master."""

    def broadcast(self, message: Any) -> None:
        """Send to every worker of the attempt."""
        ...

    @property
    def sources(self) -> Enumerators:
        """The enumerators of the present attempt."""
        ...

    def checkpoint_done(
        self, checkpoint: int, kind: RequestKind, took_ms: int, savepoint: str | None
    ) -> None:
        """A checkpoint is complete and committed; of one that stops the job, `savepoint` is its URI."""
        ...

    def attempt_failed(self, error: Exception) -> None:
        """The attempt cannot go on."""
        ...

    def recovery_failed(self, error: Exception) -> None:
        """Storage or a committer failed between two attempts."""
        ...

    def fenced(self, error: FencedError) -> None:
        """Another job master has taken over."""
        ...
