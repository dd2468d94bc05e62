"""Effects of the checkpoint coordinator: what the job master must do, in list order, as plain values.

`S` is the job master's type of a subtask's acknowledgement; the coordinator reads its vertex and subtask.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeAlias, TypeVar

from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.failures import CheckpointFailureReason


class TaskSnapshot(Protocol):
    """A subtask's acknowledgement, as far as the coordinator reads it: which subtask sent it."""

    @property
    def vertex(self) -> int: ...
    @property
    def subtask(self) -> int: ...


S = TypeVar("S", bound=TaskSnapshot)


class RequestKind(Enum):
    """What a checkpoint is requested for, which decides whether it is queued, logged and committed."""

    PERIODIC = "periodic"
    MANUAL = "manual"
    FINAL = "final"  # at the end of all input; its commit ends the job
    SAVEPOINT = "savepoint"  # the user's: forced, never subsumed, neither in the log nor committed
    STOP = "stop"  # a savepoint after which sources emit nothing: logged and committed, then the job ends

    @property
    def is_savepoint(self) -> bool:
        """Whether the result is a savepoint, which the user owns: SAVEPOINT and STOP."""
        return self in (RequestKind.SAVEPOINT, RequestKind.STOP)

    @property
    def is_logged(self) -> bool:
        """Whether the checkpoint enters the log and is committed: all kinds but SAVEPOINT."""
        return self is not RequestKind.SAVEPOINT


@dataclass(frozen=True, slots=True)
class RunHooks:
    """Run the named steps that precede the trigger of `checkpoint`; then call the coordinator's `hooks_done`.

    When one fails, call `abort(checkpoint, TRIGGER_CHECKPOINT_FAILURE, ...)`. The job master keeps what hooks
    return until Finalize or NotifyAbort. Emitted only where the coordinator was given hooks.
    """

    checkpoint: CheckpointId
    attempt: AttemptId
    kind: RequestKind
    hooks: tuple[str, ...]
    ticket: int | None = None


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Take snapshots of the enumerators (unless a hook did), then send triggers to the sources of `attempt`.

    When either fails, call the coordinator's `abort(checkpoint, TRIGGER_CHECKPOINT_FAILURE, ...)`.
    """

    checkpoint: CheckpointId
    attempt: AttemptId
    kind: RequestKind
    ticket: int | None = None


@dataclass(frozen=True, slots=True)
class Finalize(Generic[S]):
    """Write the metadata of a checkpoint that all tasks acknowledged, then its log entry.

    Then call the coordinator's `stored` or `store_failed`. A SAVEPOINT gets no log entry.
    """

    checkpoint: CheckpointId
    attempt: AttemptId
    kind: RequestKind
    snapshots: tuple[S, ...]  # in the order of tasks
    ticket: int | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """Publish the committables of a checkpoint in the log; then call the coordinator's `committed`."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class NotifyComplete:
    """Notify all tasks and enumerators that the checkpoint is complete and committed.

    With `kind` FINAL or STOP the job is done. Never emitted for a SAVEPOINT.
    """

    checkpoint: CheckpointId
    kind: RequestKind
    ticket: int | None = None


@dataclass(frozen=True, slots=True)
class NotifyAbort:
    """Notify all tasks and enumerators that the checkpoint will not complete; tasks keep committables."""

    checkpoint: CheckpointId
    reason: CheckpointFailureReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Discard(Generic[S]):
    """Delete files of snapshots whose checkpoint will not complete, but none that a completed one uses.

    `savepoint` is the id of the savepoint that they were taken for, whose files lie in its own folder.
    """

    snapshots: tuple[S, ...]
    savepoint: CheckpointId | None = None


@dataclass(frozen=True, slots=True)
class Retire:
    """Delete these completed checkpoints, replaced by newer ones, but no file that the newer ones use.

    Of a savepoint among them (one that the job was stopped with) only the log entry goes.
    """

    checkpoints: tuple[CheckpointId, ...]


@dataclass(frozen=True, slots=True)
class DiscardCompleted:
    """Delete these completed checkpoints and their log entries, the latest included: the job has ended."""

    checkpoints: tuple[CheckpointId, ...]


@dataclass(frozen=True, slots=True)
class FailJob:
    """End the attempt and hand this failure to the restart strategy.

    Either more checkpoints failed than the job tolerates, or (`stopping`) a stop with savepoint failed after
    its sources had stopped.
    """

    checkpoint: CheckpointId | None
    reason: CheckpointFailureReason
    detail: str = ""
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class RequestDeclined:
    """A checkpoint that was requested without a ticket will not be started; nobody waits for an answer."""

    kind: RequestKind
    reason: CheckpointFailureReason


@dataclass(frozen=True, slots=True)
class RequestFulfilled:
    """Answer `ticket` with success: a SAVEPOINT is stored; a MANUAL or STOP checkpoint is committed too."""

    ticket: int
    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """Answer `ticket` with a failure; `checkpoint` is the one that was begun for it, if any was."""

    ticket: int
    kind: RequestKind
    reason: CheckpointFailureReason
    detail: str = ""
    checkpoint: CheckpointId | None = None


@dataclass(frozen=True, slots=True)
class Unexpected:
    """Log a warning: a task named a checkpoint that is neither pending nor among those that ended last."""

    checkpoint: CheckpointId
    task: tuple[int, int]


Effect: TypeAlias = (
    RunHooks
    | TriggerCheckpoint
    | Finalize[S]
    | Commit
    | NotifyComplete
    | NotifyAbort
    | Discard[S]
    | Retire
    | DiscardCompleted
    | FailJob
    | RequestDeclined
    | RequestFulfilled
    | RequestFailed
    | Unexpected
)
