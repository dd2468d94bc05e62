"""Every interleaving of a small job, as far as a number of events leads; and the faults that it must find.

`make proof` searches until there is no new state, a file for each case: `test_whole_search_*.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from job_model import LIMITS, TWO, TWO_AGAIN, Case, Node, first, follow, moves, step
from life_search import Same, search
from same_states import merged

from headgate.common.errors import InternalError
from headgate.core.job import gang as gangs
from headgate.core.job import machine, restart
from headgate.core.job import rescale as rescales
from headgate.core.job.state import Asked, Cause, Job, Suspicion
from headgate.core.job.table import Phase, Row

RUNNING = ("submit", "committed", "register/1/0", "register/1/1", "deployed/1/0", "deployed/1/1")
QUIESCING = (*RUNNING, "failed/1")
RESTORING = (*QUIESCING, "idle/1/0", "idle/1/1", "tick")
ADOPTED = (
    *RUNNING,
    *("rescale", "plan", "slots", "saved", "fits", "idle/1/0", "idle/1/1", "found/own", "committed"),
)
FAILING = (*RUNNING, "wrong/1", "tick")
STARTS = {
    "running": (RUNNING, Case()),
    "deploying with an adopted plan": (ADOPTED, Case(TWO_AGAIN)),
    "quiescing": (QUIESCING, Case()),
    "restoring of the second attempt": (RESTORING, Case()),
}


def test_every_life_of_eight_events() -> None:
    """From CREATED, every invariant holds after every event, and the outside agrees with every effect."""
    found = search(Case(), first(Case()), 8)
    assert found.states > 1_800
    assert found.phases == set(Phase)
    assert len(found.rows) > 80


@pytest.mark.parametrize("start", STARTS)
def test_every_life_of_three_events_from_the_middle(start: str) -> None:
    """From states that a search from the beginning meets late."""
    path, case = STARTS[start]
    assert search(case, follow(case, path), 3).states > 100


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_every_life_of_twelve_events() -> None:
    """From CREATED; a job runs, fails, is cancelled and is over on the way."""
    found = search(Case(), first(Case()), 12)
    assert found.states > 25_000
    assert len(found.rows) > 95


@pytest.mark.ci
@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", STARTS)
def test_every_life_of_six_events_from_the_middle(start: str) -> None:
    """From states that a search from the beginning meets late."""
    path, case = STARTS[start]
    assert search(case, follow(case, path), 6).states > 1_000


# -- random lives ------------------------------------------------------------------------------------


HELPFUL = ("register", "deployed", "ended", "idle", "found", "committed", "plan", "slots", "saved", "fits")
RARE = {
    **dict.fromkeys(("cancel", "fence", "wrong", "point wrong"), 0.02),
    **dict.fromkeys(("failed", "point failed", "exit", "stray", "link"), 0.2),
}


def live(seed: int, events: int = 80) -> set[tuple[Phase, Row]]:
    """One random life of a job that is asked for things again and again; in the end it is cancelled.

    Most moves let the job get further, or the life would be over before anything runs.
    """
    chance = random.Random(seed)
    case = Case(
        chance.choice([TWO_AGAIN, Case().plan]), chance.random() < 0.7, chance.choice([1, 50]), 3, False
    )
    node, rows = first(case), set[tuple[Phase, Row]]()
    for _ in range(events):
        possible = sorted(moves(node, case))
        if chance.random() < 0.7:
            latest = str(node.world.gang), str(node.world.attempts)
            chosen = [m for m in possible if m[0] in HELPFUL and (len(m) < 3 or m[1] in latest)]
            chosen = [m for m in chosen if m[1:] not in (("not",), ("same",))]
            chosen += [m for m in possible if m in (("submit",), ("storage", "QUIET"), ("tick",))]
        else:
            chosen = [m for m in possible if node.world.leaving or chance.random() < RARE.get(m[0], 1)]
        after = step(node, case, chance.choice(chosen or possible))
        rows |= {(node.core.phase, row) for row in after.core.rows}
        node = after
    return rows | _ended(node, case)


def _ended(node: Node, case: Case) -> set[tuple[Phase, Row]]:
    """Cancel what lives; let everything that was begun come to its end, and time pass: it is over."""
    rows = set[tuple[Phase, Row]]()
    for _ in range(40):
        if node.core.phase is Phase.OVER:
            return rows
        possible = set(moves(node, case))
        wanted = [("storage", "QUIET"), ("tick",)] if node.world.leaving else [("cancel",)]
        move = next((each for each in wanted if each in possible), None)
        after = step(node, Case(asks=99), move or ("cancel",))
        rows |= {(node.core.phase, row) for row in after.core.rows}
        node = after
    raise AssertionError(f"it does not end: {node.core.trace}")


@pytest.mark.parametrize("block", range(3))
def test_random_lives_end(block: int) -> None:
    """Eighty events of any kind in any order; every life can be ended."""
    for seed in range(100 * block, 100 * block + 100):
        live(seed)


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_random_lives_take_every_row() -> None:
    """Between them they take every row of the table, from nearly every phase that it lists."""
    rows = set[tuple[Phase, Row]]()
    for seed in range(1_000, 1_600):
        rows |= live(seed)
    assert {row for _, row in rows} == set(Row)


# -- planted faults ----------------------------------------------------------------------------------

_end_attempt = restart.end_attempt
_cancel = machine._cancel
_is_quiet = machine._is_quiet


def _suspicion_stays(job: Job) -> Any:
    attempt = job.attempt
    kept = None if attempt is None else attempt.suspicion
    effects = _end_attempt(job)
    if attempt is not None:
        attempt.suspicion = kept
    return effects


def _cancel_again(job: Job, now_ms: int) -> Any:
    gang = job.gang
    if gang is not None:
        gangs._ask(gang, Asked.DIE, now_ms + 15_000, now_ms)
    return [] if gang is None else [machine.e.CancelGang(gang.number)]


def _waits_again(job: Job, event: Any, now_ms: int) -> Any:
    if job.gang is not None and job.gang.asked is Asked.LEAVE:
        job.gang.due_ms = now_ms + 10_000
    return _cancel(job, event, now_ms)


def _quiet_while_storing(job: Job) -> bool:
    return (job.gang is None or job.gang_is_idle) and job.pause_until_ms is None


def _quiet_while_busy_workers(job: Job) -> bool:
    usable = job.gang is None or job.gang.usable
    return usable and job.pause_until_ms is None and job.storage is machine.Storage.QUIET


def _no_deadline(job: Job, _now_ms: int) -> None:
    """The time of an adopted plan does not run."""


def _counts_every_attempt(job: Job, gang: int, _now_ms: int) -> Any:
    job.attempts += 1
    job.attempt = machine.Attempt(job.attempts, job.cause, gang, job.plan, None)
    return job.attempt


def _peer_without_attempt(job: Job, event: Any, now_ms: int) -> Any:
    if job.attempt is not None and job.attempt.suspicion is None:
        job.attempt.suspicion = Suspicion(event.failure, now_ms + 500)
    return []


def _late_work_goes_on(job: Job, _what: str) -> Any:
    job.work = None
    return [gangs.submit(job)] if job.gang is None else []


def _no_plan_of_before(_job: Job, failure: Any) -> Any:
    return []


def _idle_of_any_attempt(job: Job, event: Any, _now_ms: int) -> Any:
    if job.attempt is not None and job.gang is not None:
        job.attempt.idle.add(event.slot)
    return []


def _beats_live_on(_job: Job) -> None:
    """Who was cancelled is still waited for."""


FAULTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a suspicion outlives its attempt": (restart, "end_attempt", _suspicion_stays),
    "a peer's loss is suspected without its attempt": (restart, "peer_lost", _peer_without_attempt),
    "a gang is cancelled again": (gangs, "cancel", _cancel_again),
    "a cancel begins the wait anew": (machine, "_cancel", _waits_again),
    "a point is looked for while something is stored": (machine, "_is_quiet", _quiet_while_storing),
    "a point is looked for while workers still write": (machine, "_is_quiet", _quiet_while_busy_workers),
    "an adopted plan has all the time": (rescales, "starting", _no_deadline),
    "an attempt begins at no point": (machine, "_new_attempt", _counts_every_attempt),
    "late work starts workers": (machine, "_late", _late_work_goes_on),
    "the old plan is not put back": (restart, "_plan_of_before", _no_plan_of_before),
    "workers of any attempt count as idle": (restart, "idle", _idle_of_any_attempt),
    "a cancelled gang is still watched": (gangs, "_forget_beats", _beats_live_on),
}


def fault_is_found(path: tuple[str, ...], case: Case, depth: int, same: Same) -> bool:
    """Whether a search from a start meets a broken invariant, or an effect that the outside refuses."""
    try:
        search(case, follow(case, path), depth, same)
    except (AssertionError, InternalError):
        return True
    return False


@pytest.mark.parametrize("same", [lambda node: node, merged], ids=["all states", "merged states"])
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, same: Same) -> None:
    """A search is worth what it finds of known mistakes, also where several states count as one."""
    owner, name, wrong = FAULTS[fault]
    handlers = {
        event: wrong if handler is getattr(owner, name) else handler
        for event, handler in machine._HANDLERS.items()
    }
    with patch.object(owner, name, wrong), patch.object(machine, "_HANDLERS", handlers):
        starts = [*STARTS.values(), ((), Case()), (ADOPTED[:-2], Case(TWO_AGAIN)), (FAILING, Case())]
        assert any(fault_is_found(path, case, 3, same) for path, case in starts)


def test_the_small_job_is_small() -> None:
    """Deadlines of different length, so that each can be the earliest."""
    assert len({LIMITS.redeploy_ms, LIMITS.rescale_ms, LIMITS.heartbeat_ms}) == 3
    assert (TWO.slots, TWO.tasks, Case().restarts, Case().asks) == (2, 2, 1, 1)
    assert Cause.FAILURE is not Cause.REVERT
