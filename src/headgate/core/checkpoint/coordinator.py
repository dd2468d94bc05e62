"""The checkpoint coordinator: decides when a checkpoint starts, completes or fails, and leaves I/O to others.

Every method takes what happened, with the monotonic time where time matters, and returns the effects that
the job master performs in order. The coordinator does not read clocks, send messages or touch files. The
table of moves, the invariants and the scenarios are in ``docs/machines/checkpoint-coordinator.md``.

Life of a checkpoint::

    request/tick -> [RunHooks -> hooks_done ->] TriggerCheckpoint -> acknowledge (all tasks) -> Finalize
        -> stored -> Commit -> committed -> NotifyComplete, RequestFulfilled, Retire

A savepoint ends with `stored -> RequestFulfilled`. `core/checkpoint/requests.py` decides what may start,
`publishing.py` what follows the last acknowledgement; `ledger.py` keeps the facts of all checkpoints.

Example:
    >>> from collections import namedtuple
    >>> Ack = namedtuple("Ack", "vertex subtask")
    >>> master = CheckpointCoordinator(CheckpointSettings(interval_ms=1000))
    >>> master.start(AttemptId(1), [(0, 0)], now_ms=0)
    >>> master.tick(1000) == [TriggerCheckpoint(CheckpointId(1), AttemptId(1), RequestKind.PERIODIC)]
    True
    >>> result, effects = master.acknowledge(AttemptId(1), CheckpointId(1), Ack(0, 0), 1010)
    >>> result.name, [type(effect).__name__ for effect in effects]
    ('SUCCESS', ['Finalize'])
    >>> master.stored(CheckpointId(1), 1020)
    [Commit(checkpoint=1)]
    >>> master.committed(CheckpointId(1), 1030)
    [NotifyComplete(checkpoint=1, kind=<RequestKind.PERIODIC: 'periodic'>, ticket=None)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from headgate.common.errors import InternalError
from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.admission import Admission
from headgate.core.checkpoint.effects import Discard, DiscardCompleted, Effect, FailJob, RequestKind, S
from headgate.core.checkpoint.effects import TriggerCheckpoint as TriggerCheckpoint
from headgate.core.checkpoint.failures import CheckpointFailureReason, FailureBudget
from headgate.core.checkpoint.ledger import Ledger
from headgate.core.checkpoint.modes import MODES, Mode, Order
from headgate.core.checkpoint.pending import AckResult, PendingCheckpoint, Phase
from headgate.core.checkpoint.publishing import Publishing
from headgate.core.checkpoint.questions import Questions
from headgate.core.checkpoint.queue import Request
from headgate.core.checkpoint.requests import CheckpointSettings
from headgate.core.checkpoint.retention import Retention
from headgate.core.execution import JobEnd
from headgate.core.machine import Machine

FIRST_ID: Final = CheckpointId(1)  # of a job that has no checkpoint yet


class CheckpointCoordinator(Questions[S]):
    """Decides when the checkpoints of one job start, complete, fail and are deleted; one per job master.
    `next_id` must be above every id the job ever used; `completed` are stored, ascending, and `unowned` the
    savepoints among them; `hooks` name steps before a trigger; `uniform(low, high)` is a random number.
    """

    def __init__(
        self,
        settings: CheckpointSettings,
        next_id: CheckpointId = FIRST_ID,
        completed: Iterable[CheckpointId] = (),
        uniform: Callable[[float, float], float] = max,
        hooks: Iterable[str] = (),
        unowned: Iterable[CheckpointId] = (),
    ) -> None:
        self._settings = settings
        self._mode = Machine("checkpoint coordinator", Mode.SUSPENDED, MODES)
        self._label: Callable[[tuple[int, int]], str] = str
        self._ledger = Ledger(next_id, Retention(settings.num_retained, completed, unowned))
        self._publishing = Publishing(self._ledger, self._mode)
        self._admission = Admission(settings, uniform, hooks, self._ledger, self._mode)
        self._budget = FailureBudget(settings.tolerable_failures)

    # -- life of the attempt ---------------------------------------------------------------------

    def start(
        self,
        attempt: AttemptId,
        tasks: Iterable[tuple[int, int]],
        now_ms: int,
        label: Callable[[tuple[int, int]], str] = str,
    ) -> None:
        """Allow checkpoints to begin, as all tasks of a new attempt run; legal first and after
        :meth:`suspend`. `tasks` are the subtasks (vertex id, index) that must acknowledge each checkpoint;
        `label` names one in texts for people. InternalError: a checkpoint is being stored, there are no
        tasks, `attempt` is not newer than the last one started, or the coordinator was not suspended.
        """
        self._refuse_while_storing("start")
        ordered = tuple(sorted(set(tasks)))
        self._admission.check_attempt(attempt, ordered)
        self._mode.move(Order.START, f"attempt {attempt}")
        self._admission.open(attempt, ordered, now_ms)
        self._label = label

    def suspend(
        self,
        reason: CheckpointFailureReason = CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND,
        detail: str = "",
    ) -> list[Effect[S]]:
        """Abort pending checkpoints, refuse queued requests, start none until :meth:`start`: tasks will stop.
        A checkpoint that is being stored cannot be recalled; its `stored` or `store_failed` must still be
        reported, before the next `start` and before the restore point is chosen.
        """
        return self._stop(Order.SUSPEND, reason, detail)

    def shutdown(self, detail: str = "") -> list[Effect[S]]:
        """Abort pending checkpoints, refuse queued and later requests, start no more: the job has ended."""
        return self._stop(Order.SHUTDOWN, CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN, detail)

    def end(self, end: JobEnd, detail: str = "") -> list[Effect[S]]:
        """Shut down; the effects also discard the completed checkpoints if the settings say so for `end`.

        May follow a `shutdown`, and be repeated: each is named once. InternalError while one is being stored.
        """
        self._refuse_while_storing(f"end as {end.value}")
        effects = self.shutdown(detail)
        discarded = self._ledger.retention.end(end, self._settings.retention)
        return [*effects, DiscardCompleted(discarded)] if discarded else effects

    # -- requests and time -----------------------------------------------------------------------

    def request(
        self, kind: RequestKind, now_ms: int, ticket: int | None = None, timeout_ms: int | None = None
    ) -> list[Effect[S]]:
        """Ask for a checkpoint of `kind`; it starts now, or as soon as it may.

        A FINAL one goes before all but savepoints, ignores the minimum pause, ends periodic and manual ones,
        and is repeated after a failure until it completes or the attempt ends. A savepoint waits for nothing
        but another checkpoint's hooks and deletions of files. After a stop nothing is started.

        `timeout_ms` counts from its start to the last acknowledgement; None: as configured. A `ticket`, the
        requester's number, gets exactly one RequestFulfilled or RequestFailed; InternalError if it is in use.
        """
        effects = self._admission.submit(Request(kind, ticket, timeout_ms), now_ms)
        return effects + self._publish_next()

    def tick(self, now_ms: int) -> list[Effect[S]]:
        """Abort the checkpoints whose timeout has passed at `now_ms`, and start those that are due."""
        if self._mode.state is not Mode.RUNNING:
            return []
        effects: list[Effect[S]] = []
        for pending in list(self._ledger.pending.values()):
            if pending.can_expire and now_ms >= pending.deadline_ms:
                missing = f"no acknowledgement from {pending.missing(self._label)}"
                effects += self._fail(pending, CheckpointFailureReason.CHECKPOINT_EXPIRED, missing, now_ms)
        return self._then_admit(effects, now_ms)

    def cleaning_started(self) -> None:
        """Count a deletion of files that begins; while too many run, no checkpoint starts."""
        self._admission.cleaning_started()

    def cleaning_ended(self, now_ms: int) -> list[Effect[S]]:
        """Count a deletion as ended, well or not (InternalError: none runs); start checkpoints it held up."""
        self._admission.cleaning_ended()
        return self._then_admit([], now_ms)

    # -- answers of hooks and tasks --------------------------------------------------------------

    def hooks_done(
        self, checkpoint: CheckpointId, now_ms: int, hooks: Iterable[str] | None = None
    ) -> list[Effect[S]]:
        """Report that hooks of a checkpoint have ended; the effects trigger its tasks after the last one.
        Nothing happens for a checkpoint that has ended or timed out: a hook that ends late triggers no task,
        and after the timeout the next :meth:`tick` aborts it. `hooks` are the ones that ran; None: all that
        RunHooks named.
        """
        pending = self._ledger.pending.get(checkpoint)
        if pending is None or (pending.phase is Phase.PREPARING and now_ms >= pending.deadline_ms):
            return []
        triggered = self._admission.hooks_done(pending, hooks)
        return self._then_admit(triggered, now_ms) if triggered else []

    def acknowledge(
        self, attempt: AttemptId, checkpoint: CheckpointId, snapshot: S, now_ms: int
    ) -> tuple[AckResult, list[Effect[S]]]:
        """Record that the task of `snapshot` wrote it; after the last task the effects store the checkpoint.
        The result says what becomes of the snapshot's files: the effects discard those of an UNKNOWN or
        DISCARDED one.
        """
        if self._ledger.is_protected(checkpoint):
            # A repeated message about a checkpoint that is, or may be, complete: its files are in use.
            return AckResult.DUPLICATE, []
        pending = self._ledger.pending.get(checkpoint)
        if pending is None:
            return AckResult.DISCARDED, self._ledger.late(checkpoint, snapshot)
        result = pending.acknowledge(snapshot) if attempt == pending.attempt else AckResult.UNKNOWN
        if result is AckResult.UNKNOWN:
            return result, [Discard((snapshot,), pending.savepoint)]
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
        """Abort `checkpoint`, as `task` (vertex id, index) cannot take part, for `reason`; `detail` is for
        people. Ignored unless it was triggered at this task in `attempt` and waits for acknowledgements. Of
        one that is unknown, not merely ended, the effects report the message (Unexpected).
        """
        pending = self._ledger.pending.get(checkpoint)
        if pending is None:
            return self._ledger.unexpected(checkpoint, task)
        if pending.phase is not Phase.COLLECTING:
            return []
        if attempt != pending.attempt or not pending.takes_part(task):
            return []
        why = detail or f"task {tuple(task)}"
        # Whatever the reason: a task has heard of it, so the sources of a stop may have stopped.
        return self._then_admit(self._fail(pending, reason, why, now_ms, heard=True), now_ms)

    def abort(
        self, checkpoint: CheckpointId, reason: CheckpointFailureReason, now_ms: int, detail: str = ""
    ) -> list[Effect[S]]:
        """Abort a pending checkpoint that the job master could not trigger, or no longer wants. Nothing
        happens to one that has ended or is being stored. A pre-flight reason means that no task has heard of
        it.
        """
        pending = self._ledger.pending.get(checkpoint)
        if pending is None or pending.phase is Phase.STORING:
            return []
        return self._then_admit(self._fail(pending, reason, detail, now_ms), now_ms)

    # -- answers of storage and committers -------------------------------------------------------

    def stored(self, checkpoint: CheckpointId, now_ms: int) -> list[Effect[S]]:
        """Record that metadata and log entry of `checkpoint` are written; effects commit it (a SAVEPOINT:
        answer). While suspended recovery commits it later. InternalError: it was not being stored.
        """
        halted = self.halted
        pending, effects = self._publishing.stored(checkpoint, halted)
        if pending.kind.is_logged:
            self._budget.succeeded(checkpoint)
        if halted is not None:
            return effects
        if pending.kind.is_logged:
            self._admission.last_completion_ms = now_ms
        return self._then_admit(effects, now_ms)

    def store_failed(
        self, checkpoint: CheckpointId, detail: str, maybe_published: bool, now_ms: int
    ) -> list[Effect[S]]:
        """Fail a checkpoint whose metadata or log entry could not be written; it may fail the job. With
        `maybe_published` the log entry may exist: no file is discarded. InternalError: it was not being
        stored.
        """
        halted = self.halted
        pending, effects = self._publishing.store_failed(checkpoint, detail, maybe_published, halted)
        if halted is not None:
            return effects
        reason = CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE
        effects += self._consequences(pending, reason, detail, now_ms, tasks_involved=True)
        return self._then_admit(effects, now_ms)

    def committed(self, checkpoint: CheckpointId, now_ms: int) -> list[Effect[S]]:
        """Record that all committables are published; effects notify tasks and delete old checkpoints. A
        message from before a suspension changes nothing; InternalError if `checkpoint` was never stored.
        """
        return self._publishing.committed(checkpoint) + self._publish_next()

    def hold(self, checkpoint: CheckpointId | None) -> None:
        """Keep the restored `checkpoint` while tasks read its records in flight; None: release it. It is not
        retired meanwhile; checkpoints that became surplus are retired at the next completion.
        """
        self._ledger.retention.hold(checkpoint)

    # -- inner steps -----------------------------------------------------------------------------

    def _refuse_while_storing(self, what: str) -> None:
        if self.storing is not None:
            unresolved = f"cannot {what} while the store of checkpoint {self.storing} is unresolved"
            raise InternalError(self._mode.explain(unresolved))

    def _stop(self, order: Order, reason: CheckpointFailureReason, detail: str) -> list[Effect[S]]:
        self._mode.move(order, f"{reason.name} {detail}".rstrip())
        effects: list[Effect[S]] = []
        for request in self._admission.requests.close():
            effects += self._ledger.tickets.refuse(request, reason, detail)
        for pending in list(self._ledger.pending.values()):
            if pending.phase is not Phase.STORING:
                effects += self._ledger.drop(pending, reason, detail)
        effects += self._publishing.suspend(reason)
        self._budget.clear()
        return effects

    def _then_admit(self, effects: list[Effect[S]], now_ms: int) -> list[Effect[S]]:
        return effects + self._publish_next() + self._admission.admit(now_ms)

    def _publish_next(self) -> list[Effect[S]]:
        return self._publishing.next() if self.halted is None else []

    def _fail(
        self,
        pending: PendingCheckpoint[S],
        reason: CheckpointFailureReason,
        detail: str,
        now_ms: int,
        *,
        heard: bool = False,
    ) -> list[Effect[S]]:
        # Aborts a checkpoint whose storing has not begun, and counts the failure, which may fail the job.
        involved = heard or (pending.phase is not Phase.PREPARING and not reason.pre_flight)
        self._mode.note(f"failed {pending.checkpoint} {reason.name}")
        dropped = self._ledger.drop(pending, reason, detail)
        return dropped + self._consequences(pending, reason, detail, now_ms, involved)

    def _consequences(
        self,
        pending: PendingCheckpoint[S],
        reason: CheckpointFailureReason,
        detail: str,
        now_ms: int,
        tasks_involved: bool,
    ) -> list[Effect[S]]:
        if pending.kind is RequestKind.SAVEPOINT or self.halted is not None:
            return []
        if pending.kind is RequestKind.STOP:
            if tasks_involved:
                return self._fail_job(FailJob(pending.checkpoint, reason, detail, stopping=True))
            self._admission.requests.resume(now_ms)
            return []
        if pending.kind is RequestKind.FINAL:
            self._admission.requests.retry_final(now_ms)
        if self._budget.exceeded_by(pending.checkpoint, reason):
            return self._fail_job(FailJob(pending.checkpoint, reason, detail))
        return []

    def _fail_job(self, effect: FailJob) -> list[Effect[S]]:
        self._mode.move(Order.FAIL, effect.reason.name)
        return [effect]
