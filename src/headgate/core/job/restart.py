"""Reactions to failures: wait for the cause, restart the job, revert to its old plan, or end it.

`core.job.machine` brings the failures, and `core.restart_strategies` says whether and when to restart.

::

    phase                   failure                                what follows
    starting .. running     a peer's link, the attempt's first     it counts after 500 ms, unless explained
    starting .. running     a worker's control link                it counts after 2 s, unless the gang exits
    starting, deploying     of an adopted plan                     the old plan at once; no strategy is asked
    starting .. running     no restart helps, or is allowed        the job fails
    starting .. running     else                                   a restart after the strategy's delay
    quiescing, restoring    late, of the ended attempt             reported; where no restart helps the job
                                                                   fails, unless the plan was given up, too
    restoring               the point                              strategy asked; an adopted plan goes

The first failure ends its attempt, and with it every suspicion: one attempt is ended once.
"""

from __future__ import annotations

from headgate.core.job import effects as e
from headgate.core.job import events as v
from headgate.core.job import gang as gangs
from headgate.core.job.state import (
    CAUSE_WAIT_MS,
    REASON_WAIT_MS,
    Asked,
    Attempt,
    Cause,
    Failure,
    Job,
    Loss,
    LossKind,
    Outcome,
    OutcomeKind,
    Suspicion,
)
from headgate.core.job.table import BETWEEN, LIVE, Phase, Row

Effects = list[e.Effect]

# -- events --------------------------------------------------------------------------------------


def attempt_failed(job: Job, event: v.AttemptFailed, now_ms: int) -> Effects:
    """Handle a reported failure of the latest attempt; others are ignored. A living attempt ends by
    :func:`fail`; after its end the failure is reported, or ends the job if no restart helps.
    """
    attempt = job.attempt
    if attempt is None or event.attempt != attempt.number:
        return []
    if job.phase in LIVE:
        return fail(job, event.failure, now_ms)
    if job.phase not in BETWEEN:
        return []
    if event.failure.restart_may_help or attempt.reverted:
        job.take(Row.LATE_FAILURE, str(event.failure.what))
        return [e.Report(e.AlsoFailed(attempt.number, event.failure))]
    job.take(Row.HOPELESS, str(event.failure.what))
    return _give_up(job, attempt.number, event.failure, now_ms)


def peer_lost(job: Job, event: v.PeerLost, now_ms: int) -> Effects:
    """Suspect a failure (if none is) as a worker lost a peer's link; it counts in 500 ms if unexplained."""
    attempt = _living(job, event.attempt)
    if attempt is not None and attempt.suspicion is None:
        job.take(Row.SUSPECTED, str(event.failure.what))
        attempt.suspicion = Suspicion(event.failure, now_ms + CAUSE_WAIT_MS)
    return []


def link_lost(job: Job, event: v.LinkLost, now_ms: int) -> Effects:
    """Handle the end of a registered worker's connection; others are ignored. Remove the worker; a living
    attempt fails in 2 s, unless the gang's exit tells the reason before. Without one see :func:`worker_left`.
    """
    if not gangs.is_member(job, event.gang, event.slot):
        return []
    loss = Failure(Loss(LossKind.LINK, event.gang, event.slot))
    attempt = job.attempt
    if job.phase not in LIVE or attempt is None:
        return worker_left(job, event.slot, loss, now_ms)
    lost_before = bool(job.gang is not None and job.gang.lost)
    job.take(Row.SUSPECTED, f"link of slot {event.slot}")
    if not lost_before:
        # Of peers' links that ended with this one, this one is the cause.
        attempt.suspicion = Suspicion(loss, now_ms + REASON_WAIT_MS)
    return gangs.lose(job, event.slot)


def lapsed(job: Job, slot: int, now_ms: int) -> Effects:
    """Remove a worker found silent too long; fail the attempt if one lives, else call :func:`worker_left`."""
    assert job.gang is not None
    loss = Failure(Loss(LossKind.HEARTBEAT, job.gang.number, slot))
    if job.phase in LIVE:
        return gangs.lose(job, slot) + fail(job, loss, now_ms)
    return worker_left(job, slot, loss, now_ms)


def worker_left(job: Job, slot: int, loss: Failure, now_ms: int) -> Effects:
    """Remove a worker lost while no attempt lived, and cancel its gang unless that was to leave anyway."""
    assert job.gang is not None
    if job.phase in BETWEEN and job.gang.asked <= Asked.STOP:
        job.take(Row.SPOILED, f"slot {slot} was lost")
        effects = gangs.lose(job, slot) + gangs.cancel(job, now_ms)
        number = 0 if job.attempt is None else job.attempt.number
        return [*effects, e.Report(e.AlsoFailed(number, loss))]
    job.take(Row.LEFT, f"slot {slot}")
    return gangs.lose(job, slot)


def gang_exited(job: Job, event: v.GangExited, now_ms: int) -> Effects:
    if job.gang is None or job.gang.number != event.gang:
        return []
    gangs.exited(job)
    if job.phase in LIVE:
        return fail(job, Failure(Loss(LossKind.GANG, event.gang, why=event.why)), now_ms)
    job.take(Row.GANG_EXITED, f"gang {event.gang}")
    return []


def idle(job: Job, event: v.Idle, now_ms: int) -> Effects:
    """Record that a worker dropped the ended attempt; cancel the gang if user code left something there."""
    attempt, gang = job.attempt, job.gang
    if attempt is None or gang is None or event.attempt != attempt.number or job.phase not in BETWEEN:
        return []
    if event.slot not in gang.registered or gang.number != attempt.gang or event.slot in attempt.idle:
        return []
    if event.leftover:
        job.take(Row.SPOILED, f"slot {event.slot} keeps {', '.join(event.leftover)}")
        report = e.Report(e.LeftBehind(event.slot, event.leftover))
        return [report, *gangs.cancel(job, now_ms)]
    if gang.asked is not Asked.STOP:
        return []
    job.take(Row.IDLE, f"slot {event.slot}")
    attempt.idle.add(event.slot)
    if job.gang_is_idle:
        gangs.rested(job)
    return []


def point_failed(job: Job, event: v.PointFailed, now_ms: int) -> Effects:
    """Handle a restore point not found or committed: try again if the strategy allows, or end the job."""
    if job.work is None:
        return []
    job.work = None
    if job.phase is not Phase.RESTORING:
        job.take(Row.LATE_WORK, "failed")
        return []
    number = 0 if job.attempt is None else job.attempt.number
    decision, repeats = job.strategy.on_failure(now_ms), _repeats(job, event.failure)
    allowed = decision.can_restart and event.failure.restart_may_help
    if not allowed or (repeats and job.limits.same_failure_ends):
        job.take(Row.RECOVERY_FAILED, str(event.failure.what))
        return repeats + _give_up(job, number, event.failure, now_ms)
    job.take(Row.POINT_FAILED, str(event.failure.what))
    fact: e.Fact = e.PointNotReached(event.failure, decision.delay_ms)
    if job.cause is Cause.FIRST:
        fact = e.Failing(number, event.failure, decision.delay_ms)
    _next(job, Cause.FAILURE, decision.delay_ms, now_ms)
    answer = _plan_of_before(job, event.failure)
    free = gangs.free(job, now_ms) if answer else []
    return [*repeats, e.Report(fact), *answer[:1], *free, *answer[1:]]


def tick(job: Job, now_ms: int) -> Effects:
    attempt, rescale = job.attempt, job.rescale
    if attempt is not None and attempt.suspicion is not None and now_ms >= attempt.suspicion.due_ms:
        return fail(job, attempt.suspicion.failure, now_ms)
    if rescale is not None and rescale.due_ms is not None and now_ms >= rescale.due_ms:
        number = 0 if job.gang is None else job.gang.number
        return fail(job, Failure(Loss(LossKind.LATE, number, why=job.plan.slots)), now_ms)
    return []


# -- steps ---------------------------------------------------------------------------------------


def fail(job: Job, failure: Failure, now_ms: int) -> Effects:
    """End the living attempt because of `failure`: revert an adopted rescale, which is no restart; else
    restart, if a restart may help and the restart strategy allows one, or end the job as failed.
    """
    attempt = job.attempt
    assert attempt is not None
    if job.adopted:
        return _revert(job, attempt, failure, now_ms)
    repeats: Effects = []
    if failure.restart_may_help:
        decision = job.strategy.on_failure(now_ms)
        repeats = _repeats(job, failure)
        if decision.can_restart and not (repeats and job.limits.same_failure_ends):
            job.take(Row.FAILED, str(failure.what))
            report = e.Report(e.Failing(attempt.number, failure, decision.delay_ms))
            effects = [*repeats, report, *end_attempt(job)]
            _next(job, Cause.FAILURE, decision.delay_ms, now_ms)
            return effects + gangs.free(job, now_ms)
    job.take(Row.GAVE_UP, str(failure.what))
    return repeats + _give_up(job, attempt.number, failure, now_ms)


def end_attempt(job: Job) -> Effects:
    """End the living attempt; return the effects that suspend checkpoints, close enumerators; [] if none."""
    attempt = job.attempt
    if attempt is None or attempt.ended:
        return []
    attempt.ended, attempt.suspicion = True, None
    return [e.SuspendCheckpoints(), e.EndAttempt(attempt.number)]


def leave(job: Job, outcome: Outcome, now_ms: int) -> Effects:
    """Begin the job's end: end the attempt, let workers exit, refuse a pending rescale, forget stops."""
    job.outcome = outcome
    job.pause_until_ms = None
    job.stops.clear()
    effects = end_attempt(job) + gangs.dismiss(job, now_ms)
    rescale, job.rescale = job.rescale, None
    if rescale is not None:
        effects.append(e.Answer(rescale.ticket, rescale.parallelism, e.Refusal.JOB_ENDS))
    return effects


def _revert(job: Job, attempt: Attempt, failure: Failure, now_ms: int) -> Effects:
    # The old plan ran: that the new one does not is no failure of the job.
    job.take(Row.REVERTED, str(failure.what))
    attempt.reverted = True
    ended = end_attempt(job)
    _next(job, Cause.REVERT, 0, now_ms)
    adopt, answer = _plan_of_before(job, failure)
    report = e.Report(e.Reverting(attempt.number, failure))
    return [report, *ended, adopt, *gangs.free(job, now_ms), answer]


def _plan_of_before(job: Job, failure: Failure) -> Effects:
    rescale = job.rescale
    if rescale is None or rescale.before is None:
        return []
    job.rescale, job.plan = None, rescale.before
    answer = e.Answer(rescale.ticket, rescale.parallelism, e.Refusal.REVERTED, failure, job.plan.slots)
    return [e.AdoptPlan(job.plan), answer]


def _give_up(job: Job, attempt: int, failure: Failure, now_ms: int) -> Effects:
    report = e.Report(e.Failing(attempt, failure, None))
    return [report, *leave(job, Outcome(OutcomeKind.FAILED, failure), now_ms)]


def _next(job: Job, cause: Cause, delay_ms: int, now_ms: int) -> None:
    job.cause = cause
    job.pause_until_ms = now_ms + delay_ms if delay_ms > 0 else None


def _repeats(job: Job, failure: Failure) -> Effects:
    lost = failure.what if isinstance(failure.what, Loss) else None
    fingerprint = failure.fingerprint if lost is None else job.fingerprint_of(lost)
    if not job.same.on_failure(fingerprint) or job.same.repeating is None:
        return []
    return [e.Report(e.Repeats(job.same.repeating))]


def _living(job: Job, number: int) -> Attempt | None:
    attempt = job.attempt
    if attempt is None or attempt.number != number or job.phase not in LIVE:
        return None
    return attempt
