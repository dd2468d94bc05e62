"""Who owns a checkpoint, and when the system deletes it: eight flags, and presets to choose by name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from headgate.common.errors import InternalError


class JobEnd(Enum):
    """How a job, or this job master's part of it, ends."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"
    SUSPENDED = "suspended"
    """Another job master goes on with the job."""


@dataclass(frozen=True, slots=True)
class CheckpointProperties:
    """What may start a checkpoint at any time, and what makes it go.

    Attributes:
        forced: it waits neither for others nor for the minimum pause.
        externalized: it can be restored by its URI, so it need not go with the job.
        savepoint: it belongs to the user.
        discard_subsumed: deleted when enough newer ones are complete.
        discard_finished: deleted when the job finishes.
        discard_cancelled: deleted when the job is cancelled.
        discard_failed: deleted when the job fails for good.
        discard_suspended: deleted when the job is handed to another job master, where nothing outlives one.
    """

    forced: bool
    externalized: bool
    savepoint: bool
    discard_subsumed: bool
    discard_finished: bool
    discard_cancelled: bool
    discard_failed: bool
    discard_suspended: bool

    def __post_init__(self) -> None:
        kept = [flag for flag in _DISCARDS if not getattr(self, flag)]
        if not self.externalized and kept:
            raise InternalError(
                f"checkpoint properties have externalized=False, but {', '.join(kept)} is False too; "
                "a checkpoint that is not externalized goes in all five cases"
            )

    def discards_at(self, end: JobEnd) -> bool:
        """Whether the end of the job deletes it.

        Example:
            >>> RETAIN_ON_CANCELLATION.discards_at(JobEnd.CANCELLED), NEVER_RETAIN.discards_at(JobEnd.FAILED)
            (False, True)
        """
        return {
            JobEnd.FINISHED: self.discard_finished,
            JobEnd.CANCELLED: self.discard_cancelled,
            JobEnd.FAILED: self.discard_failed,
            JobEnd.SUSPENDED: self.discard_suspended,
        }[end]


_DISCARDS: Final = (
    "discard_subsumed",
    "discard_finished",
    "discard_cancelled",
    "discard_failed",
    "discard_suspended",
)


def _properties(externalized: bool, discards: str) -> CheckpointProperties:
    """Those of a checkpoint; `discards` are the cases in which it goes."""
    flags = {name: name.removeprefix("discard_") in discards.split() for name in _DISCARDS}
    return CheckpointProperties(forced=False, externalized=externalized, savepoint=False, **flags)


NEVER_RETAIN: Final = _properties(False, "subsumed finished cancelled failed suspended")
"""Goes with the job, however that ends."""

RETAIN_ON_FAILURE: Final = _properties(True, "subsumed finished cancelled suspended")
"""Stays when the job fails for good."""

RETAIN_ON_CANCELLATION: Final = _properties(True, "subsumed finished")
"""Stays unless the job finishes."""

RETAIN_ALWAYS: Final = _properties(True, "subsumed")
"""Gives way to newer checkpoints only."""

SAVEPOINT: Final = CheckpointProperties(
    forced=True,
    externalized=True,
    savepoint=True,
    discard_subsumed=False,
    discard_finished=False,
    discard_cancelled=False,
    discard_failed=False,
    discard_suspended=False,
)
"""Belongs to the user; the system never deletes it."""
