"""What the coordinator asks its shell to do, as plain values.

The shell performs them in list order. `S` is the shell's type of a subtask's acknowledgement; the
machine looks only at its vertex and subtask.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeAlias, TypeVar

from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.failures import CheckpointFailureReason


class TaskSnapshot(Protocol):
    """What the coordinator needs to know of an acknowledgement: who sent it."""

    @property
    def vertex(self) -> int:
        """The chain's number in the physical graph."""
        ...

    @property
    def subtask(self) -> int:
        """Which parallel copy."""
        ...


S = TypeVar("S", bound=TaskSnapshot)


class RequestKind(Enum):
    """Who wants a checkpoint."""

    PERIODIC = "periodic"
    MANUAL = "manual"
    FINAL = "final"
    """The one at the end of all input, whose commit ends the job."""


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Snapshot the enumerators, then send triggers to the sources of `attempt`.

    When either fails, tell the coordinator by `abort(checkpoint, TRIGGER_CHECKPOINT_FAILURE, ...)`.
    """

    checkpoint: CheckpointId
    attempt: AttemptId
    kind: RequestKind


@dataclass(frozen=True, slots=True)
class Finalize(Generic[S]):
    """All tasks acknowledged: write the metadata, then the log entry; answer `stored` or `store_failed`.

    Snapshots are ordered by (vertex, subtask).
    """

    checkpoint: CheckpointId
    attempt: AttemptId
    kind: RequestKind
    snapshots: tuple[S, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """The log holds the checkpoint: publish its committables, then answer `committed`."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class NotifyComplete:
    """Tell all tasks and enumerators that the checkpoint is complete and committed.

    With `kind` FINAL the job is done.
    """

    checkpoint: CheckpointId
    kind: RequestKind


@dataclass(frozen=True, slots=True)
class NotifyAbort:
    """Tell all tasks that the checkpoint will not complete. Their committables stay theirs."""

    checkpoint: CheckpointId
    reason: CheckpointFailureReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Discard(Generic[S]):
    """Delete the files of these snapshots: they will never be part of a completed checkpoint."""

    snapshots: tuple[S, ...]


@dataclass(frozen=True, slots=True)
class Retire:
    """Delete these completed checkpoints: newer ones have taken their place."""

    checkpoints: tuple[CheckpointId, ...]


@dataclass(frozen=True, slots=True)
class FailJob:
    """More checkpoints failed than the job puts up with: hand this to the restart strategy."""

    checkpoint: CheckpointId | None
    reason: CheckpointFailureReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RequestDeclined:
    """A requested checkpoint will not be started."""

    kind: RequestKind
    reason: CheckpointFailureReason


Effect: TypeAlias = (
    TriggerCheckpoint
    | Finalize[S]
    | Commit
    | NotifyComplete
    | NotifyAbort
    | Discard[S]
    | Retire
    | FailJob
    | RequestDeclined
)
