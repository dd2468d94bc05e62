"""The checkpoint coordinator: decides when a checkpoint starts, completes or fails, and does nothing itself.

A pure machine. Every method takes what happened, with the monotonic time where time matters, and
returns the effects for the shell to perform in order. It does not read clocks, send messages or
touch files. The table of moves, the invariants and the scenarios are in
``docs/machines/checkpoint-coordinator.md``.

Life of a checkpoint::

    request/tick -> TriggerCheckpoint -> acknowledge (all tasks) -> Finalize -> stored
        -> Commit -> committed -> NotifyComplete, Retire

At most one checkpoint is between Finalize and `committed`. So when checkpoint k is in the log,
every earlier one has been committed, and recovery needs to commit the latest only.

Example:
    >>> from collections import namedtuple
    >>> Ack = namedtuple("Ack", "vertex subtask")
    >>> master = CheckpointCoordinator(CheckpointSettings(interval_ms=1000))
    >>> master.start(AttemptId(1), [(0, 0)], now_ms=0)
    >>> master.tick(1000)
    [TriggerCheckpoint(checkpoint=1, attempt=1, kind=<RequestKind.PERIODIC: 'periodic'>)]
    >>> result, effects = master.acknowledge(AttemptId(1), CheckpointId(1), Ack(0, 0), 1010)
    >>> result.name, [type(effect).__name__ for effect in effects]
    ('SUCCESS', ['Finalize'])
    >>> master.stored(CheckpointId(1), 1020)
    [Commit(checkpoint=1)]
    >>> master.committed(CheckpointId(1), 1030)
    [NotifyComplete(checkpoint=1, kind=<RequestKind.PERIODIC: 'periodic'>)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic

from headgate.common.errors import InternalError
from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.effects import (
    Commit,
    Discard,
    Effect,
    FailJob,
    Finalize,
    NotifyAbort,
    NotifyComplete,
    RequestDeclined,
    RequestKind,
    Retire,
    S,
    TriggerCheckpoint,
)
from headgate.core.checkpoint.failures import CheckpointFailureReason, FailureBudget
from headgate.core.checkpoint.modes import MODES, CoordinatorStatistics, Mode, Order
from headgate.core.checkpoint.pending import AckResult, PendingCheckpoint, Phase, Step
from headgate.core.checkpoint.requests import CheckpointSettings, Requests
from headgate.core.checkpoint.retention import Retention
from headgate.core.machine import Machine

FIRST_ID: Final = CheckpointId(1)
"""Of a job that has no checkpoint yet."""


class CheckpointCoordinator(Generic[S]):
    """Owner of all checkpoints of one job; nothing else changes its fields.

    Args:
        settings: intervals and limits.
        next_id: the first id to give out; above every id ever used by the job.
        completed: ids of the completed checkpoints in the log, oldest first.
        uniform: draws the delay of the first periodic checkpoint of an attempt between minimum
            pause and interval; by default it is the interval.
    """

    def __init__(
        self,
        settings: CheckpointSettings,
        next_id: CheckpointId = FIRST_ID,
        completed: Iterable[CheckpointId] = (),
        uniform: Callable[[float, float], float] = max,
    ) -> None:
        self._settings = settings
        self._mode: Machine[Mode, Order] = Machine("checkpoint coordinator", Mode.SUSPENDED, MODES)
        self._next_id = next_id
        self._retention = Retention(settings.num_retained, completed)
        if self._retention.latest is not None and next_id <= self._retention.latest:
            raise InternalError(
                f"next checkpoint id is {next_id} but {self._retention.latest} completed; ids must grow"
            )
        self._requests = Requests(settings, uniform)
        self._budget = FailureBudget(settings.tolerable_failures)
        self._attempt: AttemptId | None = None
        self._tasks: tuple[tuple[int, int], ...] = ()
        self._pending: dict[CheckpointId, PendingCheckpoint[S]] = {}
        self._committing: PendingCheckpoint[S] | None = None
        self._unsure: set[CheckpointId] = set()
        self._last_completion_ms: int | None = None
        self._triggered = self._completed = self._failed = 0
        self._last_failure: str | None = None

    # -- life of the attempt ---------------------------------------------------------------------

    def start(self, attempt: AttemptId, tasks: Iterable[tuple[int, int]], now_ms: int) -> None:
        """All tasks of a new attempt run: checkpoints may begin.

        Args:
            attempt: the deployment; above every earlier one.
            tasks: (vertex, subtask) of all of them.
            now_ms: monotonic clock.

        Raises:
            InternalError: already running or shut down, a store of the last attempt is unresolved,
                or the attempt is not newer.
        """
        if self.storing is not None:
            raise InternalError(
                self._mode.explain(f"cannot start while the store of checkpoint {self.storing} is unresolved")
            )
        if self._attempt is not None and attempt <= self._attempt:
            raise InternalError(self._mode.explain(f"cannot start attempt {attempt} after {self._attempt}"))
        ordered = tuple(sorted(set(tasks)))
        if not ordered:
            raise InternalError(self._mode.explain(f"cannot start attempt {attempt} without tasks"))
        self._mode.move(Order.START, f"attempt {attempt}")
        self._attempt, self._tasks = attempt, ordered
        self._last_completion_ms = None
        self._requests.open(now_ms)

    def suspend(
        self,
        reason: CheckpointFailureReason = CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND,
        detail: str = "",
    ) -> list[Effect[S]]:
        """The tasks are about to stop: abort what is pending and start nothing until :meth:`start`.

        A checkpoint that is being stored cannot be recalled; its `stored` or `store_failed` must
        still be reported, before the next `start` and before the restore point is chosen.
        """
        return self._stop(Order.SUSPEND, reason, detail)

    def shutdown(self, detail: str = "") -> list[Effect[S]]:
        """The job ended: as :meth:`suspend`, for good."""
        return self._stop(Order.SHUTDOWN, CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN, detail)

    # -- requests and time -----------------------------------------------------------------------

    def request(self, kind: RequestKind, now_ms: int) -> list[Effect[S]]:
        """Ask for a checkpoint; it starts now, or as soon as it may.

        A final one goes first, ignores the minimum pause, ends periodic ones, and is repeated after
        a failure until it completes or the attempt ends.
        """
        refusal = self._refusal_of_mode()
        if refusal is not None:
            return [RequestDeclined(kind, refusal)]
        refusal, displaced = self._requests.submit(kind, now_ms)
        if refusal is not None:
            return [RequestDeclined(kind, refusal)]
        ended = CheckpointFailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM
        effects: list[Effect[S]] = [RequestDeclined(RequestKind.MANUAL, ended)] * displaced
        return effects + self._admit(now_ms)

    def tick(self, now_ms: int) -> list[Effect[S]]:
        """Time passed: expire what is overdue, start what is due."""
        if self._mode.state is not Mode.RUNNING:
            return []
        effects: list[Effect[S]] = []
        for pending in list(self._pending.values()):
            if pending.phase is Phase.COLLECTING and now_ms >= pending.deadline_ms:
                missing = ", ".join(map(str, pending.waiting_for))
                expired = CheckpointFailureReason.CHECKPOINT_EXPIRED
                effects += self._fail(pending, expired, f"no acknowledgement from {missing}", now_ms)
        return self._then_admit(effects, now_ms)

    def next_wakeup(self) -> int | None:
        """When :meth:`tick` must be called at the latest (monotonic ms); None when nothing is due."""
        if self._mode.state is not Mode.RUNNING:
            return None
        times = [p.deadline_ms for p in self._pending.values() if p.phase is Phase.COLLECTING]
        due_ms = self._requests.next_wakeup_ms(len(self._pending))
        if due_ms is not None:
            times.append(due_ms)
        return min(times, default=None)

    # -- what tasks say --------------------------------------------------------------------------

    def acknowledge(
        self, attempt: AttemptId, checkpoint: CheckpointId, snapshot: S, now_ms: int
    ) -> tuple[AckResult, list[Effect[S]]]:
        """A task wrote its snapshot.

        Returns:
            what became of it, and the effects; files of an UNKNOWN or DISCARDED one are discarded.
        """
        if self._is_protected(checkpoint):
            # A repeated message about a checkpoint that is, or may be, complete: its files are in use.
            return AckResult.DUPLICATE, []
        pending = self._pending.get(checkpoint)
        if pending is None:
            return AckResult.DISCARDED, [Discard((snapshot,))]
        if attempt != pending.attempt:
            return AckResult.UNKNOWN, [Discard((snapshot,))]
        result = pending.acknowledge(snapshot)
        if result is AckResult.UNKNOWN:
            return result, [Discard((snapshot,))]
        return result, self._publish_next() if result is AckResult.SUCCESS else []

    def decline(
        self,
        attempt: AttemptId,
        checkpoint: CheckpointId,
        task: tuple[int, int],
        reason: CheckpointFailureReason,
        now_ms: int,
        detail: str = "",
    ) -> list[Effect[S]]:
        """A task cannot take part: the checkpoint is aborted; repeats and strangers change nothing."""
        pending = self._pending.get(checkpoint)
        if pending is None or pending.phase is not Phase.COLLECTING:
            return []
        if attempt != pending.attempt or not pending.takes_part(task):
            return []
        says = f"task {tuple(task)}: {detail}" if detail else f"task {tuple(task)}"
        return self._then_admit(self._fail(pending, reason, says, now_ms), now_ms)

    def abort(
        self, checkpoint: CheckpointId, reason: CheckpointFailureReason, now_ms: int, detail: str = ""
    ) -> list[Effect[S]]:
        """The shell could not carry out the trigger, or gives a pending checkpoint up.

        Nothing happens to one that is gone or whose storing has begun.
        """
        pending = self._pending.get(checkpoint)
        if pending is None or pending.phase not in (Phase.COLLECTING, Phase.FULL):
            return []
        return self._then_admit(self._fail(pending, reason, detail, now_ms), now_ms)

    # -- what storage and committers say ---------------------------------------------------------

    def stored(self, checkpoint: CheckpointId, now_ms: int) -> list[Effect[S]]:
        """The log holds the checkpoint: it is complete.

        Raises:
            InternalError: it was not being stored.
        """
        pending = self._take_storing(checkpoint)
        pending.move(Step.STORED)
        self._retention.add(checkpoint)
        self._budget.succeeded(checkpoint)
        self._completed += 1
        self._mode.note(f"completed {checkpoint}")
        if self._mode.state is not Mode.RUNNING:
            pending.move(Step.SUSPEND)
            return []
        self._committing = pending
        self._last_completion_ms = now_ms
        effects: list[Effect[S]] = []
        for older in list(self._pending.values()):
            if older.checkpoint < checkpoint:
                effects += self._drop(older, CheckpointFailureReason.CHECKPOINT_SUBSUMED, f"by {checkpoint}")
        effects.append(Commit(checkpoint))
        return effects + self._admit(now_ms)

    def store_failed(
        self, checkpoint: CheckpointId, detail: str, maybe_published: bool, now_ms: int
    ) -> list[Effect[S]]:
        """Metadata or log entry could not be written.

        Args:
            checkpoint: the one that was being stored.
            detail: the error's text.
            maybe_published: the log entry may exist all the same; then no file is discarded.
            now_ms: monotonic clock.

        Raises:
            InternalError: it was not being stored.
        """
        pending = self._take_storing(checkpoint)
        pending.move(Step.STORE_UNSURE if maybe_published else Step.STORE_FAILED, detail)
        if maybe_published:
            self._unsure.add(checkpoint)
        discard: list[Effect[S]] = [] if maybe_published else [Discard(pending.snapshots)]
        reason = CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE
        self._count_failure(checkpoint, reason, detail)
        if self._mode.state is not Mode.RUNNING:
            return discard
        effects: list[Effect[S]] = [NotifyAbort(checkpoint, reason, detail), *discard]
        effects += self._consequences(pending, reason, detail, now_ms)
        if not _fails_job(effects):
            effects += self._publish_next()
        return self._then_admit(effects, now_ms)

    def committed(self, checkpoint: CheckpointId, now_ms: int) -> list[Effect[S]]:
        """All committables are published: tell the tasks, let older checkpoints go.

        A late word from before a suspension changes nothing: recovery commits again.

        Raises:
            InternalError: the checkpoint is not complete.
        """
        pending = self._committing
        if pending is None or pending.checkpoint != checkpoint:
            if self._retention.latest is None or checkpoint > self._retention.latest:
                raise InternalError(self._mode.explain(f"was told of a commit of {checkpoint}, not stored"))
            return []
        pending.move(Step.COMMITTED)
        self._committing = None
        effects: list[Effect[S]] = [NotifyComplete(checkpoint, pending.kind)]
        surplus = self._retention.take_surplus()
        if surplus:
            effects.append(Retire(surplus))
        return effects + self._publish_next()

    def hold(self, checkpoint: CheckpointId | None) -> None:
        """Tasks still read records in flight of the restored `checkpoint`; None: not any more.

        It is not retired meanwhile; what became surplus goes with the next completion.
        """
        self._retention.hold(checkpoint)

    # -- questions -------------------------------------------------------------------------------

    @property
    def next_id(self) -> CheckpointId:
        """The id that the next checkpoint will get."""
        return self._next_id

    @property
    def latest(self) -> CheckpointId | None:
        """The newest completed checkpoint."""
        return self._retention.latest

    @property
    def completed(self) -> tuple[CheckpointId, ...]:
        """Completed checkpoints not yet retired, oldest first."""
        return self._retention.completed

    @property
    def storing(self) -> CheckpointId | None:
        """The checkpoint between Finalize and its answer; at most one."""
        for pending in self._pending.values():
            if pending.phase is Phase.STORING:
                return pending.checkpoint
        return None

    def statistics(self) -> CoordinatorStatistics:
        """Figures for people."""
        return CoordinatorStatistics(
            mode=self._mode.state.value,
            triggered=self._triggered,
            completed=self._completed,
            failed=self._failed,
            pending=tuple(self._pending),
            latest=self._retention.latest,
            last_failure=self._last_failure,
        )

    def describe(self) -> tuple[object, ...]:
        """Everything that decides, as plain values: for stories and searches."""
        return (
            self._mode.state.value,
            self._next_id,
            self._attempt,
            tuple(pending.describe() for pending in self._pending.values()),
            self._committing.describe() if self._committing is not None else None,
            self._retention.completed,
            tuple(sorted(self._unsure)),
            self._requests.describe(),
            self._budget.failures,
            self._last_completion_ms,
        )

    def validate(self) -> None:
        """Check the invariants that hold between any two calls.

        Raises:
            InternalError: one of them does not hold.
        """
        phases = [pending.phase for pending in self._pending.values()]
        in_publication = phases.count(Phase.STORING) + (self._committing is not None)
        checks = {
            "ids ordered": list(self._pending) == sorted(self._pending),
            "ids below next": all(pending < self._next_id for pending in self._pending),
            "one publication": in_publication <= 1,
            "nothing full waits without cause": in_publication == 1 or Phase.FULL not in phases,
            "suspended is quiet": self._mode.state is Mode.RUNNING
            or (self._committing is None and set(phases) <= {Phase.STORING}),
            "pending phases": set(phases) <= {Phase.COLLECTING, Phase.FULL, Phase.STORING},
        }
        broken = [name for name, holds in checks.items() if not holds]
        if broken:
            raise InternalError(self._mode.explain(f"broke {', '.join(broken)}: {self.describe()}"))

    # -- inner steps -----------------------------------------------------------------------------

    def _refusal_of_mode(self) -> CheckpointFailureReason | None:
        if self._mode.state is Mode.SHUTDOWN:
            return CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
        if self._mode.state is Mode.SUSPENDED:
            return CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        return None

    def _is_protected(self, checkpoint: CheckpointId) -> bool:
        committing = self._committing is not None and self._committing.checkpoint == checkpoint
        pending = self._pending.get(checkpoint)
        storing = pending is not None and pending.phase is not Phase.COLLECTING
        return committing or storing or checkpoint in self._unsure or checkpoint in self._retention

    def _stop(self, order: Order, reason: CheckpointFailureReason, detail: str) -> list[Effect[S]]:
        self._mode.move(order, f"{reason.name} {detail}".rstrip())
        declined = RequestDeclined(RequestKind.MANUAL, reason)
        effects: list[Effect[S]] = [declined] * self._requests.close()
        for pending in list(self._pending.values()):
            if pending.phase is not Phase.STORING:
                effects += self._drop(pending, reason, detail)
        if self._committing is not None:
            self._committing.move(Step.SUSPEND)
            self._committing = None
        self._budget.clear()
        return effects

    def _admit(self, now_ms: int) -> list[Effect[S]]:
        """Start whatever may start now."""
        effects: list[Effect[S]] = []
        while True:
            kind = self._requests.choose(len(self._pending), self._last_completion_ms, now_ms)
            if kind is None or self._attempt is None:
                return effects
            checkpoint, self._next_id = self._next_id, CheckpointId(self._next_id + 1)
            deadline_ms = now_ms + self._settings.timeout_ms
            self._pending[checkpoint] = PendingCheckpoint(
                checkpoint, self._attempt, kind, self._tasks, deadline_ms
            )
            self._triggered += 1
            self._mode.note(f"trigger {checkpoint} {kind.value}")
            effects.append(TriggerCheckpoint(checkpoint, self._attempt, kind))

    def _then_admit(self, effects: list[Effect[S]], now_ms: int) -> list[Effect[S]]:
        # A job that is being failed starts nothing more.
        return effects if _fails_job(effects) else effects + self._admit(now_ms)

    def _publish_next(self) -> list[Effect[S]]:
        """Finalize the oldest full checkpoint, one at a time, each after the last one's commit."""
        if self._committing is not None or self.storing is not None:
            return []
        for pending in self._pending.values():
            if pending.phase is Phase.FULL:
                pending.move(Step.FINALIZE)
                return [Finalize(pending.checkpoint, pending.attempt, pending.kind, pending.snapshots)]
        return []

    def _take_storing(self, checkpoint: CheckpointId) -> PendingCheckpoint[S]:
        pending = self._pending.get(checkpoint)
        if pending is None or pending.phase is not Phase.STORING:
            raise InternalError(self._mode.explain(f"was told of a store of {checkpoint}, not being stored"))
        del self._pending[checkpoint]
        return pending

    def _drop(
        self, pending: PendingCheckpoint[S], reason: CheckpointFailureReason, detail: str
    ) -> list[Effect[S]]:
        """Abort without counting."""
        del self._pending[pending.checkpoint]
        pending.move(Step.ABORT, reason.name)
        self._count_failure(pending.checkpoint, reason, detail)
        effects: list[Effect[S]] = [NotifyAbort(pending.checkpoint, reason, detail)]
        if pending.snapshots:
            effects.append(Discard(pending.snapshots))
        return effects

    def _fail(
        self, pending: PendingCheckpoint[S], reason: CheckpointFailureReason, detail: str, now_ms: int
    ) -> list[Effect[S]]:
        """Abort, and let the failure have its consequences."""
        dropped = self._drop(pending, reason, detail)
        return dropped + self._consequences(pending, reason, detail, now_ms)

    def _consequences(
        self, pending: PendingCheckpoint[S], reason: CheckpointFailureReason, detail: str, now_ms: int
    ) -> list[Effect[S]]:
        if pending.kind is RequestKind.FINAL:
            self._requests.retry_final(now_ms)
        if self._budget.exceeded_by(pending.checkpoint, reason):
            return [FailJob(pending.checkpoint, reason, detail)]
        return []

    def _count_failure(self, checkpoint: CheckpointId, reason: CheckpointFailureReason, detail: str) -> None:
        self._failed += 1
        self._last_failure = f"checkpoint {checkpoint}: {reason.text}" + (f" ({detail})" if detail else "")
        self._mode.note(f"failed {checkpoint} {reason.name}")


def _fails_job(effects: Iterable[object]) -> bool:
    return any(isinstance(effect, FailJob) for effect in effects)
