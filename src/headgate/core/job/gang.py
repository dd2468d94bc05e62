"""Decisions about a job's gang of worker processes: registration, loss, stop, exit, cancellation.

::

    asked      of                           until                      then
    STOP       a usable gang                the redeploy timeout       DIE
    LEAVE      a usable gang                10 s                       DIE
    DIE        any gang, once               15 s                       it is taken for exited

A gang that was asked to leave or to die is asked for nothing milder after that, and for nothing twice.
"""

from __future__ import annotations

from headgate.core.job import effects as e
from headgate.core.job import events as v
from headgate.core.job.state import FINISH_MS, GANG_EXIT_MS, Asked, Gang, Job
from headgate.core.job.table import Phase, Row


def submit(job: Job) -> e.SubmitGang:
    job.gangs += 1
    job.gang = Gang(job.gangs, job.plan.slots)
    return e.SubmitGang(job.gangs, job.plan.slots)


def register(job: Job, event: v.Registered, now_ms: int) -> e.AdmitWorker | e.CloseLink:
    """Admit a worker that connected, if its slot is free, no worker of its gang was lost and the gang is
    asked for nothing; heartbeats are due from then on. Else close its connection: it is an unknown worker.
    """
    gang = job.gang
    fits = gang is not None and gang.number == event.gang and 0 <= event.slot < gang.slots
    free = gang is not None and event.slot not in gang.registered and not gang.lost
    if gang is None or not fits or not free or gang.asked is not Asked.NOTHING:
        job.take(Row.UNKNOWN_SENDER, f"link {event.link}")
        return e.CloseLink(event.link)
    job.take(Row.REGISTERED, f"slot {event.slot}")
    gang.registered[event.slot] = event.link
    job.monitor.watch(event.slot, now_ms)
    return e.AdmitWorker(event.gang, event.slot, event.link)


def lose(job: Job, slot: int) -> list[e.Effect]:
    """Remove the registered worker of `slot` from the gang; return the effect that closes its link."""
    gang = job.gang
    assert gang is not None
    link = gang.registered.pop(slot)
    gang.lost.add(slot)
    job.monitor.forget(slot)
    return [e.CloseLink(link)]


def is_member(job: Job, gang: int, slot: int) -> bool:
    return job.gang is not None and job.gang.number == gang and slot in job.gang.registered


def exited(job: Job) -> None:
    _forget_beats(job)
    job.gang = None


def free(job: Job, now_ms: int, *, leave: bool = False) -> list[e.Effect]:
    """Prepare the gang for the next attempt: workers that fit the plan drop the old attempt in
    `limits.redeploy_ms`; else the gang is cancelled, or with `leave` may exit in order if it is complete. []
    if there is nothing to do: no gang, one that is idle or stopping, or one that ends already.
    """
    gang, attempt = job.gang, job.attempt
    if gang is None or gang.asked >= Asked.LEAVE:
        return []
    if gang.usable and gang.slots == job.plan.slots:
        if attempt is None or gang.asked is Asked.STOP or job.gang_is_idle:
            return []
        _ask(gang, Asked.STOP, now_ms + job.limits.redeploy_ms, now_ms)
        return [e.Stop(gang.number, attempt.number)]
    return _let_leave(job, gang, now_ms) if leave and gang.usable else cancel(job, now_ms)


def dismiss(job: Job, now_ms: int) -> list[e.Effect]:
    """End the gang, which is not needed any more: ask its workers to exit in order, for which they have 10 s,
    or cancel the gang if one is missing. [] if there is no gang, or it ends already.
    """
    gang = job.gang
    if gang is None or gang.asked >= Asked.LEAVE:
        return []
    return _let_leave(job, gang, now_ms) if gang.usable else cancel(job, now_ms)


def cancel(job: Job, now_ms: int) -> list[e.Effect]:
    """Have the launcher kill all workers of the gang, and forget them; [] if that was requested before."""
    gang = job.gang
    if gang is None or gang.asked is Asked.DIE:
        return []
    _ask(gang, Asked.DIE, now_ms + GANG_EXIT_MS, now_ms)
    _forget_beats(job)
    gang.registered.clear()
    return [e.CancelGang(gang.number)]


def overdue(job: Job, now_ms: int) -> list[e.Effect]:
    """Cancel a gang that missed the deadline of its last request; take one for exited that was to die."""
    gang = job.gang
    if gang is None or gang.due_ms is None or now_ms < gang.due_ms:
        return []
    if gang.asked is not Asked.DIE:
        job.take(Row.OVERDUE, f"gang {gang.number} was to {gang.asked.name.lower()}")
        return cancel(job, now_ms)
    job.take(Row.TAKEN_FOR_EXITED, f"gang {gang.number}")
    exited(job)
    return []


def rested(job: Job) -> None:
    if job.gang is not None:
        job.gang.asked, job.gang.due_ms = Asked.NOTHING, None


def beat(job: Job, event: v.Beat, now_ms: int) -> list[e.Effect]:
    """Record a heartbeat; return the answer that renews the worker's lease, [] if the worker was given up."""
    if not is_member(job, event.gang, event.slot):
        return []
    if not job.monitor.beat(event.slot, event.progress, now_ms):
        return []
    if job.phase is not Phase.OVER:
        job.taken.append(Row.BEAT)  # not a move: the trace is for what changes something
    return [e.AnswerBeat(event.gang, event.slot)]


def _let_leave(job: Job, gang: Gang, now_ms: int) -> list[e.Effect]:
    _ask(gang, Asked.LEAVE, now_ms + FINISH_MS, now_ms)
    return [e.LetLeave(gang.number, 0 if job.attempt is None else job.attempt.number)]


def _ask(gang: Gang, asked: Asked, due_ms: int, now_ms: int) -> None:
    gang.asked, gang.due_ms = asked, max(due_ms, now_ms + 1)


def _forget_beats(job: Job) -> None:
    for slot in job.monitor.watched:
        job.monitor.forget(slot)
