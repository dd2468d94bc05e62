"""The invariants of a job's life: what holds between any two calls, whatever has happened."""

from __future__ import annotations

from headgate.core.job.state import Asked, Job, OutcomeKind, Storage
from headgate.core.job.table import LIVE, Phase


def broken(job: Job, next_wakeup_ms: int | None) -> list[str]:
    """Return the invariants that `job` violates, as text ([]: none); it next acts at `next_wakeup_ms`."""
    checks = _of_the_attempt(job) | _of_the_gang(job) | _of_the_rest(job)
    checks["the next wake-up is later than the last tick"] = (
        next_wakeup_ms is None or job.ticked_ms is None or next_wakeup_ms > job.ticked_ms
    )
    return [name for name, holds in checks.items() if not holds]


def _of_the_attempt(job: Job) -> dict[str, bool]:
    phase, attempt, gang = job.phase, job.attempt, job.gang
    living = attempt is not None and not attempt.ended
    suspected = attempt is not None and attempt.suspicion is not None
    deployed = set() if attempt is None else attempt.deployed
    slots = set() if gang is None else set(gang.registered) | gang.lost
    return {
        "an attempt lives while starting, deploying or running, and only then": living == (phase in LIVE),
        "the number of attempts is that of the latest": job.attempts == (attempt.number if attempt else 0),
        "the living attempt runs in the present gang": phase not in LIVE
        or (gang is not None and attempt is not None and attempt.gang == gang.number),
        "the living attempt runs the job's plan from its point": phase not in LIVE
        or (attempt is not None and attempt.plan == job.plan and attempt.point == job.point),
        "what deploys or runs has a usable gang, or a loss is suspected": suspected
        or phase not in (Phase.DEPLOYING, Phase.RUNNING)
        or (gang is not None and gang.usable),
        "all slots are deployed while running": phase is not Phase.RUNNING or deployed == slots,
        "only an ended attempt has idle workers": attempt is None or attempt.ended or not attempt.idle,
        "only a living attempt is suspected": not suspected or living,
        "only an ended attempt's plan was given up": attempt is None or attempt.ended or not attempt.reverted,
        "restarts are attempts that began with a failure": 0 <= job.restarts <= job.attempts,
    }


def _of_the_gang(job: Job) -> dict[str, bool]:
    phase, gang = job.phase, job.gang
    if gang is None:
        return {"what lives has a gang": phase not in LIVE, "no worker is watched": not job.monitor.watched}
    slots = set(range(gang.slots))
    waits = job.pause_until_ms is not None or job.storage is not Storage.QUIET
    return {
        "the present gang is the latest": gang.number == job.gangs,
        "a gang's workers have its slots, each once": set(gang.registered) <= slots
        and gang.lost <= slots
        and not gang.lost & set(gang.registered),
        "who is watched is registered": set(job.monitor.watched) <= set(gang.registered),
        "a gang has a deadline while it is asked for something": (gang.due_ms is None)
        == (gang.asked is Asked.NOTHING),
        "a gang is asked for something only when no attempt lives": phase not in LIVE
        or gang.asked is Asked.NOTHING,
        "starting waits for workers": phase is not Phase.STARTING or not gang.usable,
        "quiescing waits for the pause, storage or the gang": phase is not Phase.QUIESCING
        or waits
        or gang.due_ms is not None,
        "restoring has an idle gang, or one that goes": phase is not Phase.RESTORING
        or job.gang_is_idle
        or gang.asked >= Asked.LEAVE,
        "leaving waits for the gang": phase is not Phase.LEAVING or gang.asked >= Asked.LEAVE,
        "over means that the gang has exited": phase is not Phase.OVER,
    }


def _of_the_rest(job: Job) -> dict[str, bool]:
    phase, rescale, outcome = job.phase, job.rescale, job.outcome
    leaving = phase in (Phase.LEAVING, Phase.OVER)
    adopting = phase in (Phase.QUIESCING, Phase.RESTORING, Phase.STARTING, Phase.DEPLOYING)
    due = rescale is not None and rescale.due_ms is not None
    return {
        "restoring is work in the background": (phase is Phase.RESTORING) == (job.work is not None)
        or leaving,
        "quiescing waits for something": phase is not Phase.QUIESCING
        or job.gang is not None
        or job.pause_until_ms is not None
        or job.storage is not Storage.QUIET,
        "only quiescing pauses": job.pause_until_ms is None or phase is Phase.QUIESCING,
        "who leaves has an outcome": leaving == (outcome is not None),
        "who leaves changes no parallelism": not leaving or rescale is None,
        "an adopted plan does not run yet": not job.adopted or adopting,
        "an adopted plan can be reverted": job.adopted
        == (rescale is not None and rescale.before is not None),
        "an adopted plan's time runs once workers are asked for": not job.adopted
        or due == (phase in (Phase.STARTING, Phase.DEPLOYING)),
        "only an adopted plan has a deadline": not due or job.adopted,
        "a failed job says why": outcome is None
        or outcome.kind is not OutcomeKind.FAILED
        or outcome.failure is not None,
        "who leaves waits for no stop": not leaving or not job.stops,
    }
