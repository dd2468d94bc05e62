"""Which states of the job model count as one in a search without a limit of events.

- Of attempts, gangs and links only two are told apart, the latest and the one before: the latest is always
  called 2 (or 1, if it is the first).
- Of a failure its consequences matter, not its text.
- How long a worker has stood still matters until that is reported.
- Nothing tells two workers apart, or two tasks, but what has happened to them.
- Waits have the order that they have in production, in units of one: 1 for the short ones, 3 for the longest.
  Some are of equal length, but they begin at different times, so that either may end first.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from job_model import PEER, Node, World
from job_model import replace as change

from headgate.core.job import gang as gangs
from headgate.core.job import restart
from headgate.core.job.state import Job, JobLimits

SHORT_LIMITS = JobLimits(redeploy_ms=2, rescale_ms=2, heartbeat_ms=2)


@contextmanager
def short_waits() -> Iterator[None]:
    """Replace the waits of production by short ones: none becomes longer than one that is longer there."""
    with (
        patch.object(restart, "CAUSE_WAIT_MS", 1),
        patch.object(restart, "REASON_WAIT_MS", 2),
        patch.object(gangs, "FINISH_MS", 2),
        patch.object(gangs, "GANG_EXIT_MS", 3),
    ):
        yield


def merged(node: Node) -> Node:
    """Return the node that stands for all that count as one with this; its machine is changed in place."""
    job, world = node.core._job, node.world
    _merge_failures(job)
    _merge_standstills(job, node.now)
    for _ in range(job.gangs - 2):
        world = _gang_less(job, world)
    for _ in range(job.attempts - 2):
        world = _attempt_less(job, world)
    if len(world.ended) == 1:
        world = _first_task_ended(job, world)
    if world.slots == 2 and _facts(job, world, 1) < _facts(job, world, 0):
        world = _swapped(job, world)
    job.monitor._watched = dict(sorted(job.monitor._watched.items()))
    return Node(node.core, world, node.now, node.path)


def _first_task_ended(job: Job, world: World) -> World:
    """Put the first task in the place of the one that has ended: it does not matter which it is."""
    if job.attempt is not None and job.attempt.data_ended:
        job.attempt.data_ended = {(0, 0)}
    return change(world, ended=frozenset({0}))


def _facts(job: Job, world: World, slot: int) -> tuple[int, ...]:
    """Return all that is known of one worker, so that two can be put in an order."""
    gang, attempt, watch = job.gang, job.attempt, job.monitor._watched.get(slot)
    assert gang is not None
    known = [slot in gang.registered, slot in gang.lost, 10 * world.gang + slot in world.links]
    known += [slot in world.deployed, slot in world.idle]
    if attempt is not None:
        known += [slot in attempt.deployed, slot in attempt.idle]
    times = (watch.heard_ms, watch.moved_ms, watch.progress, watch.reported_stuck) if watch else ()
    return *known, *times


def _swapped(job: Job, world: World) -> World:
    """Exchange the workers of the two slots; return the world after that."""
    gang, attempt, own = job.gang, job.attempt, 10 * world.gang
    assert gang is not None
    gang.registered = {1 - slot: own + 1 - slot for slot in gang.registered}
    gang.lost = _others(gang.lost)
    if attempt is not None:
        attempt.deployed, attempt.idle = _others(attempt.deployed), _others(attempt.idle)
    job.monitor._watched = {1 - slot: watch for slot, watch in job.monitor._watched.items()}
    links = frozenset(own + 1 - (link - own) for link in world.links)
    return change(
        world, links=links, deployed=frozenset(_others(world.deployed)), idle=frozenset(_others(world.idle))
    )


def _others(slots: Set[int]) -> set[int]:
    return {1 - slot for slot in slots}


def _merge_failures(job: Job) -> None:
    """Put one failure in the place of all: the machine asks of it only whether a restart may help."""
    attempt, outcome = job.attempt, job.outcome
    if outcome is not None and outcome.failure is not None:
        outcome.failure = PEER
    if attempt is not None and attempt.suspicion is not None:
        suspicion = attempt.suspicion
        assert suspicion.failure.restart_may_help
        attempt.suspicion = replace(suspicion, failure=PEER)


def _merge_standstills(job: Job, now_ms: int) -> None:
    for watch in job.monitor._watched.values():
        if watch.reported_stuck:
            watch.moved_ms = now_ms - job.limits.heartbeat_ms


def _gang_less(job: Job, world: World) -> World:
    job.gangs -= 1
    if job.attempt is not None:
        job.attempt.gang -= 1
    if job.gang is not None:
        job.gang.number -= 1
        job.gang.registered = {slot: link - 10 for slot, link in job.gang.registered.items()}
    links = frozenset(link - 10 for link in world.links)
    return change(world, gangs=world.gangs - 1, gang=max(0, world.gang - 1), links=links)


def _attempt_less(job: Job, world: World) -> World:
    job.attempts -= 1
    if job.attempt is not None:
        job.attempt.number -= 1
    return change(world, attempts=world.attempts - 1, active=max(0, world.active - 1))
