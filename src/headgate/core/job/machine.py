"""The state machine of one job: decides when to request workers and when attempts begin, end or restart.

What happened goes in with the monotonic time, effects come out, and the job master performs them in order.
The machine reads no clock, sends nothing and touches no file. `table.py` has the legal moves, `gang.py` what
workers are asked for, `restart.py` what follows from a failure, `rescale.py` another parallelism, and
`validate.py` the invariants.

Life of a job without trouble::

    Submit -> CommitPoint -> PointCommitted -> SubmitGang -> Registered (all slots) -> BeginAttempt
        -> Deployed (all slots) -> StartCheckpoints -> DataEnded (all subtasks) -> RequestFinal
        -> JobDone -> SuspendCheckpoints, EndAttempt, LetLeave -> GangExited -> EndCheckpoints

An event of another attempt or gang, or that comes again, changes nothing; an unknown worker is disconnected.

Example:
    >>> from headgate.core.restart_strategies import NoRestart, restart_strategy
    >>> limits = JobLimits(redeploy_ms=60_000, rescale_ms=60_000, heartbeat_ms=50_000)
    >>> job = JobMachine("words", Plan("plan", slots=1, tasks=1), limits, restart_strategy(NoRestart(), max))
    >>> job.handle(Submit(None), 0)
    [CommitPoint(point=None)]
    >>> job.handle(PointCommitted(), 5), job.state
    ([SubmitGang(gang=1, slots=1)], <JobState.STARTING: 'starting'>)
    >>> [type(effect).__name__ for effect in job.handle(Registered(gang=1, slot=0, link=7), 9)]
    ['AdmitWorker', 'BeginAttempt']
    >>> job.handle(Deployed(attempt=1, slot=0), 12)
    [StartCheckpoints(attempt=1)]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from headgate.core.execution import JobEnd
from headgate.core.job import effects as e
from headgate.core.job import events as v
from headgate.core.job import gang as gangs
from headgate.core.job import rescale, restart
from headgate.core.job.events import Deployed as Deployed
from headgate.core.job.events import PointCommitted as PointCommitted
from headgate.core.job.events import Registered as Registered
from headgate.core.job.events import Submit as Submit
from headgate.core.job.questions import Questions
from headgate.core.job.state import (
    Asked,
    Attempt,
    Cause,
    Job,
    JobLimits,
    Loss,
    Outcome,
    OutcomeKind,
    Plan,
    PointId,
    Storage,
    Work,
)
from headgate.core.job.table import MOVES, Phase, Row
from headgate.core.liveness import HeartbeatMonitor
from headgate.core.machine import Machine
from headgate.core.restart_strategies import RestartStrategy
from headgate.core.same_failures import Fingerprint, SameFailures

Effects: TypeAlias = list[e.Effect]


class JobMachine(Questions):
    """Decides the life of one job: takes events and the time, returns effects for the job master.

    `name` is for messages. `same` counts repeated failures (None: from no checkpoint on). `fingerprint_of`
    identifies the loss of a worker; it is called when the loss counts as the attempt's failure.
    """

    def __init__(
        self,
        name: str,
        plan: Plan,
        limits: JobLimits,
        strategy: RestartStrategy,
        same: SameFailures | None = None,
        fingerprint_of: Callable[[Loss], Fingerprint | None] = lambda _loss: None,
    ) -> None:
        life, beat_ms = Machine(f"job {name}", Phase.CREATED, MOVES), limits.heartbeat_ms
        monitor = HeartbeatMonitor[int](beat_ms, stuck_ms=beat_ms)
        same = same or SameFailures(None)
        super().__init__(Job(life, limits, strategy, same, monitor, fingerprint_of, plan))

    def handle(self, event: v.Event, now_ms: int) -> Effects:
        """Process one event, and return the effects that the job master must perform in order."""
        job = self._job
        job.taken.clear()
        return _settled(job, _HANDLERS[type(event)](job, event, now_ms))

    def tick(self, now_ms: int) -> Effects:
        """Act on everything that is due at `now_ms` (heartbeats, deadlines, pauses); return the effects."""
        job = self._job
        job.taken.clear()
        effects: Effects = []
        report = job.monitor.check(now_ms)
        for slot, still_ms in report.stuck:
            effects += _standstill(job, e.LoopStands(slot, still_ms))
        for slot in report.recovered:
            effects += _standstill(job, e.LoopTurns(slot))
        for slot in report.lapsed:
            if job.gang is not None and slot in job.gang.registered:  # else its gang was cancelled just now
                effects += restart.lapsed(job, slot, now_ms)
        effects += restart.tick(job, now_ms)
        effects += gangs.overdue(job, now_ms)
        if job.pause_until_ms is not None and now_ms >= job.pause_until_ms:
            job.take(Row.PAUSED)
            job.pause_until_ms = None
        job.ticked_ms = now_ms
        return _settled(job, effects)


# -- events --------------------------------------------------------------------------------------


def _submit(job: Job, event: v.Submit, _now_ms: int) -> Effects:
    if job.phase is not Phase.CREATED:
        return []
    job.take(Row.SUBMITTED)
    job.initial = event.point
    return _commit(job, event.point)


def _point_found(job: Job, event: v.PointFound, _now_ms: int) -> Effects:
    if job.work is not Work.FIND:
        return []
    if job.phase is not Phase.RESTORING:
        return _late(job, "found")
    job.take(Row.POINT_FOUND)
    return _commit(job, job.initial if event.point is None else event.point)


def _point_committed(job: Job, _event: v.PointCommitted, now_ms: int) -> Effects:
    if job.work is not Work.COMMIT:
        return []
    if job.phase is not Phase.RESTORING:
        return _late(job, "committed")
    job.work = None
    gang = job.gang
    if gang is None:
        job.take(Row.GANG_WANTED)
        submitted = gangs.submit(job)
        _new_attempt(job, submitted.gang, now_ms)
        return [submitted]
    if job.gang_is_idle:
        job.take(Row.REDEPLOYED)
        return [e.BeginAttempt.of(_new_attempt(job, gang.number, now_ms))]
    job.take(Row.GANG_SPOILED)
    return gangs.cancel(job, now_ms) if gang.asked is Asked.NOTHING else []


def _registered(job: Job, event: v.Registered, now_ms: int) -> Effects:
    effects: Effects = [gangs.register(job, event, now_ms)]
    if job.phase is Phase.STARTING and job.gang is not None and job.gang.usable and job.attempt is not None:
        job.take(Row.COMPLETE)
        effects.append(e.BeginAttempt.of(job.attempt))
    return effects


def _deployed(job: Job, event: v.Deployed, _now_ms: int) -> Effects:
    attempt, gang = job.attempt, job.gang
    if job.phase is not Phase.DEPLOYING or attempt is None or gang is None:
        return []
    if event.attempt != attempt.number or event.slot in attempt.deployed or event.slot not in gang.registered:
        return []
    attempt.deployed.add(event.slot)
    if not (gang.usable and attempt.deployed == set(gang.registered)):
        job.take(Row.DEPLOYED, f"slot {event.slot}")
        return []
    job.take(Row.ALL_DEPLOYED, f"attempt {attempt.number}")
    final: Effects = [e.RequestFinal()] if _all_ended(attempt) else []
    return [e.StartCheckpoints(attempt.number), *rescale.running(job), *final]


def _data_ended(job: Job, event: v.DataEnded, _now_ms: int) -> Effects:
    attempt = job.attempt
    if attempt is None or event.attempt != attempt.number or event.task in attempt.data_ended:
        return []
    if job.phase not in (Phase.DEPLOYING, Phase.RUNNING):
        return []
    job.take(Row.DATA_ENDED, f"{event.task}")
    attempt.data_ended.add(event.task)
    return [e.RequestFinal()] if job.phase is Phase.RUNNING and _all_ended(attempt) else []


def _storage(job: Job, event: v.StorageChanged, _now_ms: int) -> Effects:
    job.storage = event.storage
    return []


def _checkpoint(job: Job, event: v.CheckpointCommitted, _now_ms: int) -> Effects:
    job.same.on_checkpoint(event.checkpoint)
    return []


def _done(job: Job, event: v.JobDone, now_ms: int) -> Effects:
    if job.phase is not Phase.RUNNING or job.attempt is None or event.attempt != job.attempt.number:
        return []
    job.take(Row.DONE)
    return restart.leave(job, Outcome(OutcomeKind.FINISHED, savepoint=event.savepoint), now_ms)


def _cancel(job: Job, event: v.Cancel, now_ms: int) -> Effects:
    outcome, handed_over = job.outcome, event.handed_over and job.limits.has_successor
    if outcome is None:
        job.take(Row.CANCELLED)
        return restart.leave(job, Outcome(OutcomeKind.CANCELLED, handed_over=handed_over), now_ms)
    if job.phase is Phase.LEAVING and outcome.kind is not OutcomeKind.FINISHED:
        job.take(Row.CANCELLED_AGAIN)
        # Who cancels the job for good wins over who only hands it over.
        first = outcome.kind is OutcomeKind.FAILED
        outcome.handed_over = handed_over and (first or outcome.handed_over)
        outcome.kind = OutcomeKind.CANCELLED
    return []


def _fenced(job: Job, event: v.Fenced, now_ms: int) -> Effects:
    outcome = job.outcome
    if outcome is None:
        job.take(Row.LOST_LEADERSHIP, str(event.failure.what))
        number = 0 if job.attempt is None else job.attempt.number
        report = e.Report(e.Failing(number, event.failure, None))
        outcome = Outcome(OutcomeKind.FAILED, event.failure, fenced=True)
        return [e.InterruptCommits(), report, *restart.leave(job, outcome, now_ms)]
    if job.phase is not Phase.LEAVING or outcome.fenced:
        return []
    job.take(Row.FENCED_LEAVING, str(event.failure.what))
    outcome.fenced = True
    return [e.InterruptCommits()]


def _stop_asked(job: Job, event: v.StopAsked, _now_ms: int) -> Effects:
    if job.outcome is None:
        job.stops.add(event.ticket)
    return []


def _stop_ended(job: Job, event: v.StopEnded, _now_ms: int) -> Effects:
    job.stops.discard(event.ticket)
    return []


# -- steps ---------------------------------------------------------------------------------------


def _settled(job: Job, effects: Effects) -> Effects:
    if job.phase is Phase.QUIESCING and _is_quiet(job):
        job.take(Row.QUIET)
        job.work = Work.FIND
        effects.append(e.FindPoint())
    outcome = job.outcome
    left = job.gang is None and job.storage is not Storage.STORING
    if outcome is not None and job.phase is Phase.LEAVING and left:
        job.take(Row.ENDED, outcome.kind.value)
        effects += [e.EndCheckpoints(_how(job, outcome)), e.Report(e.Ended(outcome.kind))]
    return effects


def _is_quiet(job: Job) -> bool:
    rested = job.gang is None or job.gang_is_idle
    return rested and job.pause_until_ms is None and job.storage is Storage.QUIET


def _how(job: Job, outcome: Outcome) -> JobEnd:
    failed_over = job.limits.has_successor and outcome.kind is OutcomeKind.FAILED
    if outcome.handed_over or outcome.fenced or failed_over:
        return JobEnd.SUSPENDED
    return JobEnd(outcome.kind.value)


def _commit(job: Job, point: PointId | None) -> Effects:
    job.point, job.work = point, Work.COMMIT
    return [e.CommitPoint(point)]


def _new_attempt(job: Job, gang: int, now_ms: int) -> Attempt:
    job.attempts += 1
    job.restarts += job.cause is Cause.FAILURE
    job.attempt = Attempt(job.attempts, job.cause, gang, job.plan, job.point)
    rescale.starting(job, now_ms)
    return job.attempt


def _all_ended(attempt: Attempt) -> bool:
    return len(attempt.data_ended) == attempt.plan.tasks


def _late(job: Job, what: str) -> Effects:
    job.take(Row.LATE_WORK, what)  # it was begun before the job began to leave, and starts nothing
    job.work = None
    return []


def _standstill(job: Job, fact: e.LoopStands | e.LoopTurns) -> Effects:
    job.take(Row.STANDSTILL, f"slot {fact.slot}")
    return [e.Report(fact)]


def _beat(job: Job, event: v.Beat, now_ms: int) -> Effects:
    return gangs.beat(job, event, now_ms)


_HANDLERS: Final[dict[type, Callable[[Job, Any, int], Effects]]] = {
    v.Submit: _submit,
    v.Registered: _registered,
    v.Beat: _beat,
    v.LinkLost: restart.link_lost,
    v.GangExited: restart.gang_exited,
    v.Deployed: _deployed,
    v.DataEnded: _data_ended,
    v.Idle: restart.idle,
    v.AttemptFailed: restart.attempt_failed,
    v.PeerLost: restart.peer_lost,
    v.PointFound: _point_found,
    v.PointCommitted: _point_committed,
    v.PointFailed: restart.point_failed,
    v.StorageChanged: _storage,
    v.CheckpointCommitted: _checkpoint,
    v.JobDone: _done,
    v.Fenced: _fenced,
    v.Cancel: _cancel,
    v.StopAsked: _stop_asked,
    v.StopEnded: _stop_ended,
    v.RescaleAsked: rescale.asked,
    v.PlanMade: rescale.plan_made,
    v.SlotsCounted: rescale.slots_counted,
    v.Saved: rescale.saved,
    v.Fits: rescale.fits,
}
