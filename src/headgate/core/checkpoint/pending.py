"""One checkpoint in progress: its phase, and which tasks have acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from enum import Enum
from typing import Final, Generic

from headgate.common.errors import InternalError
from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.effects import RequestKind, S
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.queue import Request
from headgate.core.machine import Machine

MISSING_NAMED: Final = 10  # tasks that are named when a checkpoint was not acknowledged by all


class AckResult(Enum):
    """Result of an acknowledgement, which decides what happens to the files that it names."""

    SUCCESS = "success"  # taken; the files belong to the checkpoint now
    DUPLICATE = "duplicate"  # known already: the files are in use, leave them alone
    UNKNOWN = "unknown"  # from a task or attempt that is not part of this checkpoint: delete the files
    DISCARDED = "discarded"  # the checkpoint has ended: delete the files


class Phase(Enum):
    """The phases of a checkpoint, from its hooks to its end (completed, aborted or unsure)."""

    PREPARING = "preparing"  # its hooks run, the steps before the trigger
    COLLECTING = "collecting"  # tasks acknowledge
    FULL = "full"  # all tasks have acknowledged
    STORING = "storing"  # metadata and log entry are being written
    COMMITTING = "committing"  # sinks publish their output
    COMPLETED = "completed"
    ABORTED = "aborted"
    UNSURE = "unsure"  # storing failed, but it may be complete all the same


class Step(Enum):
    """The events that move a checkpoint from one phase to the next."""

    HOOKS_DONE = "hooks done"
    ALL_ACKNOWLEDGED = "all acknowledged"
    FINALIZE = "finalize"
    STORED = "stored"
    SAVED = "saved"
    STORE_FAILED = "store failed"
    STORE_UNSURE = "store unsure"
    COMMITTED = "committed"
    SUSPEND = "suspend"
    ABORT = "abort"


MOVES: Final = {
    (Phase.PREPARING, Step.HOOKS_DONE): Phase.COLLECTING,
    (Phase.PREPARING, Step.ABORT): Phase.ABORTED,
    (Phase.COLLECTING, Step.ALL_ACKNOWLEDGED): Phase.FULL,
    (Phase.COLLECTING, Step.ABORT): Phase.ABORTED,
    (Phase.FULL, Step.FINALIZE): Phase.STORING,
    (Phase.FULL, Step.ABORT): Phase.ABORTED,
    (Phase.STORING, Step.STORED): Phase.COMMITTING,
    # A savepoint is complete without a log entry and without a commit.
    (Phase.STORING, Step.SAVED): Phase.COMPLETED,
    (Phase.STORING, Step.STORE_FAILED): Phase.ABORTED,
    (Phase.STORING, Step.STORE_UNSURE): Phase.UNSURE,
    (Phase.COMMITTING, Step.COMMITTED): Phase.COMPLETED,
    # The log holds it; recovery commits it again.
    (Phase.COMMITTING, Step.SUSPEND): Phase.COMPLETED,
}
"""Every legal move of a checkpoint. Nothing aborts one whose storing has begun: it may be visible."""


class PendingCheckpoint(Generic[S]):
    """A checkpoint in progress: its `hooks` (steps before the trigger) run, then its `tasks` (vertex id,
    subtask) acknowledge, then it is stored and committed. Callers check `deadline_ms` (monotonic).
    """

    def __init__(
        self,
        checkpoint: CheckpointId,
        attempt: AttemptId,
        request: Request,
        tasks: Iterable[tuple[int, int]],
        deadline_ms: int,
        hooks: Iterable[str] = (),
    ) -> None:
        self.checkpoint, self.attempt = checkpoint, attempt
        self.request, self.deadline_ms = request, deadline_ms
        self._waiting: dict[tuple[int, int], None] = dict.fromkeys(tasks)
        self._acknowledged: dict[tuple[int, int], S] = {}
        self._hooks: dict[str, None] = dict.fromkeys(hooks)
        begin = Phase.PREPARING if self._hooks else Phase.COLLECTING
        self._machine: Machine[Phase, Step] = Machine(f"checkpoint {checkpoint}", begin, MOVES)
        self._close_if_full()

    @property
    def kind(self) -> RequestKind:
        return self.request.kind

    @property
    def phase(self) -> Phase:
        return self._machine.state

    @property
    def hooks(self) -> tuple[str, ...]:
        return tuple(self._hooks)

    @property
    def can_expire(self) -> bool:
        """Whether the checkpoint's timeout applies: it still waits for hooks or tasks."""
        return self.phase in (Phase.PREPARING, Phase.COLLECTING)

    @property
    def can_be_subsumed(self) -> bool:
        return not self.kind.is_savepoint

    @property
    def savepoint(self) -> CheckpointId | None:
        return self.checkpoint if self.kind.is_savepoint else None

    @property
    def waiting_for(self) -> tuple[str, ...]:
        return tuple(f"hook {hook!r}" for hook in self._hooks) or tuple(map(str, self._waiting))

    def missing(self, label: Callable[[tuple[int, int]], str]) -> str:
        """Return a text that names up to 10 hooks, or else tasks, without an answer; `label` names a task."""
        names = [f"hook {hook!r}" for hook in self._hooks] or [label(task) for task in self._waiting]
        more = f" and {len(names) - MISSING_NAMED} more" if len(names) > MISSING_NAMED else ""
        return ", ".join(names[:MISSING_NAMED]) + more

    @property
    def snapshots(self) -> tuple[S, ...]:
        return tuple(self._acknowledged[task] for task in sorted(self._acknowledged))

    def takes_part(self, task: tuple[int, int]) -> bool:
        return self.phase is not Phase.PREPARING and (task in self._waiting or task in self._acknowledged)

    def hook_done(self, hook: str) -> bool:
        """Mark `hook` as ended; True: it was the last, and the tasks must be triggered now. False: others
        still run, or it is unknown or has ended already.
        """
        if self.phase is not Phase.PREPARING or hook not in self._hooks:
            return False
        del self._hooks[hook]
        self._machine.note(f"hook {hook}")
        if self._hooks:
            return False
        self._machine.move(Step.HOOKS_DONE)
        self._close_if_full()
        return True

    def acknowledge(self, snapshot: S) -> AckResult:
        """Record a task's snapshot: SUCCESS, DUPLICATE (it did so before), or UNKNOWN (it was not triggered).
        After the last task the phase is FULL, that is, the checkpoint can be stored.
        """
        task = (snapshot.vertex, snapshot.subtask)
        if task in self._acknowledged:
            return AckResult.DUPLICATE
        if not self.takes_part(task):
            return AckResult.UNKNOWN
        del self._waiting[task]
        self._acknowledged[task] = snapshot
        self._machine.note(f"ack {task}")
        self._close_if_full()
        return AckResult.SUCCESS

    def move(self, step: Step, detail: str = "") -> None:
        """Change the phase by `step`; `detail` goes into the history of moves that errors show.
        InternalError: the table of moves does not allow it, or it is to be stored and a task is missing.
        """
        if step is Step.FINALIZE and self._waiting:
            raise InternalError(
                self._machine.explain(f"cannot be finalized: {', '.join(self.waiting_for)} are missing")
            )
        self._machine.move(step, detail)

    def abort(self, reason: CheckpointFailureReason) -> None:
        """Abort the checkpoint; InternalError if it ended, storing began, or a savepoint is subsumed."""
        if reason is CheckpointFailureReason.CHECKPOINT_SUBSUMED and not self.can_be_subsumed:
            raise InternalError(self._machine.explain("is a savepoint, which nothing subsumes"))
        self._machine.move(Step.ABORT, reason.name)

    def describe(self) -> tuple[Hashable, ...]:
        asked = (self.checkpoint, self.attempt, self.kind.value, self.request.ticket, self.deadline_ms)
        answers = (tuple(self._hooks), tuple(self._waiting), tuple(sorted(self._acknowledged)))
        return (*asked, self.phase.value, *answers)

    def _close_if_full(self) -> None:
        if self.phase is Phase.COLLECTING and not self._waiting:
            self._machine.move(Step.ALL_ACKNOWLEDGED)
