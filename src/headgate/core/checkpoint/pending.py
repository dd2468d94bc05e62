"""One checkpoint on its way: who has acknowledged, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, Generic

from headgate.common.errors import InternalError
from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.effects import RequestKind, S
from headgate.core.machine import Machine


class AckResult(Enum):
    """What became of an acknowledgement, named after what follows for its files."""

    SUCCESS = "success"
    """Taken; the files belong to the checkpoint now."""
    DUPLICATE = "duplicate"
    """Known already: the files are in use, leave them alone."""
    UNKNOWN = "unknown"
    """From a task or attempt that is not part of this checkpoint: delete the files."""
    DISCARDED = "discarded"
    """The checkpoint is gone: delete the files."""


class Phase(Enum):
    """How far a checkpoint has come."""

    COLLECTING = "collecting"
    FULL = "full"
    STORING = "storing"
    COMMITTING = "committing"
    COMPLETED = "completed"
    ABORTED = "aborted"
    UNSURE = "unsure"


class Step(Enum):
    """What moves a checkpoint on."""

    ALL_ACKNOWLEDGED = "all acknowledged"
    FINALIZE = "finalize"
    STORED = "stored"
    STORE_FAILED = "store failed"
    STORE_UNSURE = "store unsure"
    COMMITTED = "committed"
    SUSPEND = "suspend"
    ABORT = "abort"


MOVES: Final = {
    (Phase.COLLECTING, Step.ALL_ACKNOWLEDGED): Phase.FULL,
    (Phase.COLLECTING, Step.ABORT): Phase.ABORTED,
    (Phase.FULL, Step.FINALIZE): Phase.STORING,
    (Phase.FULL, Step.ABORT): Phase.ABORTED,
    (Phase.STORING, Step.STORED): Phase.COMMITTING,
    (Phase.STORING, Step.STORE_FAILED): Phase.ABORTED,
    (Phase.STORING, Step.STORE_UNSURE): Phase.UNSURE,
    (Phase.COMMITTING, Step.COMMITTED): Phase.COMPLETED,
    # The log holds it; recovery commits it again.
    (Phase.COMMITTING, Step.SUSPEND): Phase.COMPLETED,
}
"""Every legal move of a checkpoint. Nothing aborts one whose storing has begun: it may be visible."""


class PendingCheckpoint(Generic[S]):
    """Collects acknowledgements of the tasks of one attempt.

    Args:
        checkpoint: its id.
        attempt: the deployment it is drawn in.
        kind: who wanted it.
        tasks: (vertex, subtask) of every task that must acknowledge.
        deadline_ms: when it expires, on the monotonic clock.
    """

    __slots__ = ("_acknowledged", "_machine", "_waiting", "attempt", "checkpoint", "deadline_ms", "kind")

    def __init__(
        self,
        checkpoint: CheckpointId,
        attempt: AttemptId,
        kind: RequestKind,
        tasks: Iterable[tuple[int, int]],
        deadline_ms: int,
    ) -> None:
        self.checkpoint = checkpoint
        self.attempt = attempt
        self.kind = kind
        self.deadline_ms = deadline_ms
        self._waiting: dict[tuple[int, int], None] = dict.fromkeys(tasks)
        self._acknowledged: dict[tuple[int, int], S] = {}
        self._machine: Machine[Phase, Step] = Machine(f"checkpoint {checkpoint}", Phase.COLLECTING, MOVES)

    @property
    def phase(self) -> Phase:
        """How far it has come."""
        return self._machine.state

    @property
    def waiting_for(self) -> tuple[tuple[int, int], ...]:
        """Tasks that have not acknowledged yet."""
        return tuple(self._waiting)

    @property
    def snapshots(self) -> tuple[S, ...]:
        """What was acknowledged, ordered by (vertex, subtask)."""
        return tuple(self._acknowledged[task] for task in sorted(self._acknowledged))

    def takes_part(self, task: tuple[int, int]) -> bool:
        """Whether `task` is one of those that must acknowledge."""
        return task in self._waiting or task in self._acknowledged

    def acknowledge(self, snapshot: S) -> AckResult:
        """Take one task's snapshot; the last one makes the checkpoint FULL."""
        task = (snapshot.vertex, snapshot.subtask)
        if task in self._acknowledged:
            return AckResult.DUPLICATE
        if task not in self._waiting:
            return AckResult.UNKNOWN
        del self._waiting[task]
        self._acknowledged[task] = snapshot
        self._machine.note(f"ack {task}")
        if not self._waiting:
            self._machine.move(Step.ALL_ACKNOWLEDGED)
        return AckResult.SUCCESS

    def move(self, step: Step, detail: str = "") -> None:
        """Go on; an unlisted move raises InternalError with the history.

        Raises:
            InternalError: the move is not legal in the current phase.
        """
        if step is Step.FINALIZE and self._waiting:
            raise InternalError(self._machine.explain(f"cannot be finalized: {self.waiting_for} are missing"))
        self._machine.move(step, detail)

    def describe(self) -> tuple[object, ...]:
        """The whole state as plain values, for stories and searches."""
        return (
            self.checkpoint,
            self.attempt,
            self.kind.value,
            self.phase.value,
            tuple(self._waiting),
            tuple(sorted(self._acknowledged)),
            self.deadline_ms,
        )
