"""Rescaling of a job, one request at a time: it is refused before anything is changed, or adopted.

::

    step       answer          next       effects
    -          RescaleAsked    making     MakePlan
    making     PlanMade        counting   CountSlots; answered where the job runs at this parallelism already
    counting   SlotsCounted    saving     TakeCheckpoint, while the job runs
    counting   SlotsCounted    checking   CheckFit, where the last checkpoint will do and the job does not run
    saving     Saved           checking   CheckFit; a failed one only where the last checkpoint will do
    checking   Fits            adopted    AdoptPlan; the attempt ends
    adopted    (running)       -          answered
    adopted    (a failure)     -          the old plan again, answered

A failure in an answer refuses the rescale, and nothing has been touched. So does a pending stop with
savepoint before the plan is adopted: who stops the job wants no other parallelism any more.
"""

from __future__ import annotations

from typing import TypeAlias

from headgate.core.job import effects as e
from headgate.core.job import events as v
from headgate.core.job import gang as gangs
from headgate.core.job.restart import end_attempt
from headgate.core.job.state import Cause, Failure, Job, Rescale, Step
from headgate.core.job.table import BETWEEN, LIVE, Phase, Row

Effects: TypeAlias = list[e.Effect]
Reply: TypeAlias = v.PlanMade | v.SlotsCounted | v.Saved | v.Fits


def asked(job: Job, event: v.RescaleAsked, _now_ms: int) -> Effects:
    """Begin a rescale to `event.parallelism` by making its plan. Refuse it, by an Answer, if one is pending
    or the job does not run; with `event.from_last` the job may also be starting, or between attempts.
    """
    if job.rescale is not None:
        return _refuse(job, event.ticket, job.rescale.parallelism, e.Refusal.ONE_AT_A_TIME)
    if not _may_begin(job, event.from_last):
        return _refuse(job, event.ticket, event.parallelism, e.Refusal.NOT_RUNNING)
    job.take(Row.RESCALE_STEP, f"asked for {event.parallelism}")
    job.rescale = Rescale(event.ticket, event.parallelism, event.from_last)
    return [e.MakePlan(event.ticket, event.parallelism)]


def plan_made(job: Job, event: v.PlanMade, _now_ms: int) -> Effects:
    """Count slots for a rescale's plan, which is made; answer if no plan is needed, or none is possible."""
    rescale = _at(job, event, Step.MAKING)
    if rescale is None:
        return []
    if event.failure is not None:
        return _give_up(job, rescale, e.Refusal.NO_PLAN, event.failure)
    if event.plan is None:
        job.take(Row.RESCALE_REFUSED, "it runs at this parallelism already")
        job.rescale = None
        return [e.Answer(rescale.ticket, rescale.parallelism)]
    job.take(Row.RESCALE_STEP, "plan made")
    rescale.step, rescale.plan = Step.COUNTING, event.plan
    return [e.CountSlots(rescale.ticket, event.plan)]


def slots_counted(job: Job, event: v.SlotsCounted, _now_ms: int) -> Effects:
    """Take the checkpoint for a rescale, or check the last one, if there are enough slots; else refuse it."""
    rescale = _at(job, event, Step.COUNTING)
    if rescale is None:
        return []
    if event.failure is not None:
        return _give_up(job, rescale, e.Refusal.NO_SLOTS, event.failure)
    if job.phase is Phase.RUNNING:
        job.take(Row.RESCALE_STEP, "slots counted")
        rescale.step = Step.SAVING
        return [e.TakeCheckpoint(rescale.ticket)]
    return _check(job, rescale) if rescale.from_last else _give_up(job, rescale, e.Refusal.NOT_RUNNING)


def saved(job: Job, event: v.Saved, _now_ms: int) -> Effects:
    """Check the rescale's plan against the new checkpoint, or the last if that will do; else refuse it."""
    rescale = _at(job, event, Step.SAVING)
    if rescale is None:
        return []
    if event.failure is not None and not rescale.from_last:
        return _give_up(job, rescale, e.Refusal.NOT_SAVED, event.failure)
    rescale.saved = event.failure is None
    return _check(job, rescale)


def fits(job: Job, event: v.Fits, now_ms: int) -> Effects:
    """Adopt the rescale's plan and end the present attempt. Refuse it, by an Answer, if the plan does not fit
    the last checkpoint, a stop is pending, or the job does not run any more and may not use that checkpoint.
    """
    rescale = _at(job, event, Step.CHECKING)
    if rescale is None or rescale.plan is None:
        return []
    if event.failure is not None:
        return _give_up(job, rescale, e.Refusal.DOES_NOT_FIT, event.failure)
    if job.stops:
        # The attempt must not end before the stop has succeeded or failed.
        return _give_up(job, rescale, e.Refusal.STOPPING)
    if not _may_begin(job, rescale.from_last or rescale.saved):
        return _give_up(job, rescale, e.Refusal.NOT_RUNNING)
    live = job.phase in LIVE
    job.take(Row.ADOPTED if live else Row.ADOPTED_BETWEEN, f"{rescale.plan.slots} workers")
    effects: Effects = [e.Report(e.Rescaling(job.plan, rescale.plan)), *end_attempt(job)]
    if live:
        job.cause = Cause.RESCALE
    job.pause_until_ms = None
    rescale.step, rescale.before, job.plan = Step.ADOPTED, job.plan, rescale.plan
    return [*effects, e.AdoptPlan(job.plan), *gangs.free(job, now_ms, leave=True)]


def starting(job: Job, now_ms: int) -> None:
    """Set, once, the deadline by which an adopted plan must run (none: do nothing): its attempt begins."""
    if job.adopted and job.rescale is not None and job.rescale.due_ms is None:
        job.rescale.due_ms = now_ms + max(1, job.limits.rescale_ms)


def running(job: Job) -> Effects:
    """Answer the requester of a rescale whose plan runs now, and forget it; [] if none was adopted."""
    rescale = job.rescale
    if rescale is None or not job.adopted:
        return []
    job.rescale = None
    return [e.Answer(rescale.ticket, rescale.parallelism)]


# -- steps ---------------------------------------------------------------------------------------


def _may_begin(job: Job, last_will_do: bool) -> bool:
    return job.phase is Phase.RUNNING or (last_will_do and job.phase in (*LIVE, *BETWEEN))


def _at(job: Job, reply: Reply, step: Step) -> Rescale | None:
    rescale = job.rescale
    if rescale is None or rescale.ticket != reply.ticket or rescale.step is not step:
        return None
    return rescale


def _check(job: Job, rescale: Rescale) -> Effects:
    assert rescale.plan is not None
    job.take(Row.RESCALE_STEP, "checkpoint taken" if rescale.saved else "from the last checkpoint")
    rescale.step = Step.CHECKING
    return [e.CheckFit(rescale.ticket, rescale.plan)]


def _refuse(
    job: Job, ticket: int, parallelism: int, refusal: e.Refusal, failure: Failure | None = None
) -> Effects:
    job.take(Row.RESCALE_REFUSED, refusal.name)
    return [e.Answer(ticket, parallelism, refusal, failure)]


def _give_up(job: Job, rescale: Rescale, refusal: e.Refusal, failure: Failure | None = None) -> Effects:
    job.rescale = None
    return _refuse(job, rescale.ticket, rescale.parallelism, refusal, failure)
