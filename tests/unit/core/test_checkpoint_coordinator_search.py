"""Every interleaving of a small coordinator: two tasks, two requests, one restart, perhaps a hook.

Late and repeated messages included. A model of the shell and of the outside checks every effect.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.coordinator import CheckpointCoordinator
from headgate.core.checkpoint.effects import (
    Commit,
    Discard,
    Effect,
    FailJob,
    Finalize,
    NotifyAbort,
    NotifyComplete,
    RequestFailed,
    RequestFulfilled,
    RequestKind,
    Retire,
    RunHooks,
    TriggerCheckpoint,
)
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.modes import MODES
from headgate.core.checkpoint.pending import MOVES, AckResult
from headgate.core.checkpoint.requests import CheckpointSettings

TASKS = ((0, 0), (0, 1))
ATTEMPTS_MAX = 2
MANUAL, SAVEPOINT, STOP = RequestKind.MANUAL, RequestKind.SAVEPOINT, RequestKind.STOP
SUBSUMED = CheckpointFailureReason.CHECKPOINT_SUBSUMED
Case = tuple[RequestKind, ...]


class Snap(NamedTuple):
    vertex: int
    subtask: int
    checkpoint: int


class Drawn(NamedTuple):
    checkpoint: int
    attempt: int
    kind: RequestKind


@dataclass(frozen=True)
class World:
    """What the shell and the outside know; the part of a node beside the coordinator."""

    attempt: int = 1
    running: bool = True
    asked: int = 0
    answered: frozenset[int] = frozenset()
    preparing: int | None = None
    drawn: tuple[Drawn, ...] = ()
    storing: int | None = None
    committing: int | None = None
    completed: tuple[int, ...] = ()
    saved: frozenset[int] = frozenset()
    unsure: frozenset[int] = frozenset()
    aborted: frozenset[int] = frozenset()
    notified: frozenset[int] = frozenset()
    discarded: frozenset[Snap] = frozenset()
    retired: frozenset[int] = frozenset()

    def kind(self, checkpoint: int) -> RequestKind:
        """What a checkpoint was drawn for."""
        return next(drawn.kind for drawn in self.drawn if drawn.checkpoint == checkpoint)

    def stops(self) -> list[int]:
        """Stops of this attempt that have not been given up."""
        mine = [drawn for drawn in self.drawn if drawn.attempt == self.attempt]
        return [d.checkpoint for d in mine if d.kind is STOP and d.checkpoint not in self.aborted]


@dataclass
class Node:
    core: CheckpointCoordinator[Snap]
    world: World
    path: tuple[str, ...] = field(default=())


def absorb(world: World, effects: list[Effect[Snap]]) -> World:
    """Perform effects on the model of the shell, checking each."""
    for effect in effects:
        match effect:
            case RunHooks(checkpoint, attempt, kind):
                world = begun(world, Drawn(checkpoint, attempt, kind))
                assert world.preparing is None, "one is prepared at a time"
                world = replace(world, preparing=checkpoint)
            case TriggerCheckpoint(checkpoint, attempt, kind):
                if Drawn(checkpoint, attempt, kind) not in world.drawn:
                    world = begun(world, Drawn(checkpoint, attempt, kind))
                assert world.preparing is None, "hooks come before tasks"
                assert checkpoint not in world.aborted, "nobody is triggered for one that is gone"
                assert checkpoint == world.drawn[-1].checkpoint, "triggers go out in the order of ids"
            case Finalize(checkpoint, _, _, snapshots):
                assert world.running
                assert world.storing is None, "one publication at a time"
                assert world.committing is None, "one publication at a time"
                assert {(s.vertex, s.subtask) for s in snapshots} == set(TASKS)
                assert checkpoint not in world.aborted
                world = replace(world, storing=checkpoint)
            case Commit(checkpoint):
                assert world.running, "nothing after suspend"
                assert checkpoint == world.completed[-1], "commit only after stored"
                world = replace(world, committing=checkpoint)
            case NotifyComplete(checkpoint, kind):
                assert world.running, "nothing after suspend"
                assert kind is not SAVEPOINT, "a savepoint is nobody's success"
                assert checkpoint in world.completed
                assert checkpoint not in world.aborted | world.notified
                world = replace(world, notified=world.notified | {checkpoint})
            case NotifyAbort(checkpoint, reason):
                world = aborted(world, checkpoint, reason)
            case Discard(snapshots, savepoint):
                for snap in snapshots:
                    kept = (set(world.completed) - world.retired) | world.saved
                    assert snap.checkpoint not in kept, "no file of a retained one is deleted"
                    assert snap.checkpoint not in world.unsure, "nor of one that may be published"
                    assert snap.checkpoint != world.storing
                    assert savepoint == (snap.checkpoint if world.kind(snap.checkpoint) != MANUAL else None)
                world = replace(world, discarded=world.discarded | set(snapshots))
            case Retire(checkpoints):
                assert world.running
                assert world.completed[-1] not in checkpoints
                assert set(checkpoints) <= set(world.completed)
                assert not world.retired & set(checkpoints)
                world = replace(world, retired=world.retired | set(checkpoints))
            case RequestFulfilled(ticket, checkpoint):
                done = world.saved if world.kind(checkpoint) is SAVEPOINT else world.notified
                assert checkpoint in done, "fulfilled means done"
                world = answered(world, ticket)
            case RequestFailed(ticket):
                world = answered(world, ticket)
            case FailJob(checkpoint, stopping=stopping):
                assert checkpoint is not None
                assert stopping, "so many failures are tolerable"
                assert world.kind(checkpoint) is STOP
            case _:
                raise AssertionError(f"unexpected {effect}")
    return world


def begun(world: World, drawn: Drawn) -> World:
    """A checkpoint got its id."""
    assert world.running
    assert drawn.attempt == world.attempt
    assert all(drawn.checkpoint > known.checkpoint for known in world.drawn), "ids strictly increase"
    assert not world.stops(), "nothing starts behind a stop"
    return replace(world, drawn=(*world.drawn, drawn))


def aborted(world: World, checkpoint: int, reason: CheckpointFailureReason) -> World:
    """A checkpoint was given up."""
    assert checkpoint not in world.aborted, "aborted at most once"
    assert checkpoint not in world.completed, "never completed and aborted"
    assert checkpoint not in world.saved, "nor stored and aborted"
    assert reason is not SUBSUMED or world.kind(checkpoint) is MANUAL, "savepoints are not subsumed"
    preparing = None if world.preparing == checkpoint else world.preparing
    return replace(world, aborted=world.aborted | {checkpoint}, preparing=preparing)


def answered(world: World, ticket: int) -> World:
    """An asker got an answer."""
    assert 1 <= ticket <= world.asked
    assert ticket not in world.answered, "answered at most once"
    return replace(world, answered=world.answered | {ticket})


def failed_stop(world: World, effects: list[Effect[Snap]]) -> bool:
    """Whether a stop was given up after its tasks were triggered."""
    gone = {effect.checkpoint for effect in effects if isinstance(effect, NotifyAbort)}
    return any(world.kind(checkpoint) is STOP for checkpoint in gone - {world.preparing})


def ask(node: Node, case: Case, now: int) -> tuple[World, list[Effect[Snap]]]:
    """The next request of the case, with its number as ticket."""
    ticket = node.world.asked + 1
    world = replace(node.world, asked=ticket)
    return world, node.core.request(case[ticket - 1], now, ticket)


def store(node: Node, outcome: str, now: int) -> tuple[World, list[Effect[Snap]]]:
    """The answer to a Finalize."""
    core, world = node.core, node.world
    assert world.storing is not None
    checkpoint = world.storing
    world = replace(world, storing=None)
    if outcome != "stored":
        unsure = outcome == "unsure"
        if unsure:
            world = replace(world, unsure=world.unsure | {checkpoint})
        return world, core.store_failed(CheckpointId(checkpoint), "", unsure, now)
    if world.kind(checkpoint) is SAVEPOINT:
        world = replace(world, saved=world.saved | {checkpoint})
    else:
        assert not world.completed or checkpoint > world.completed[-1], "completed ids strictly increase"
        world = replace(world, completed=(*world.completed, checkpoint))
    effects = core.stored(CheckpointId(checkpoint), now)
    assert world.running or all(isinstance(e, (RequestFulfilled, RequestFailed)) for e in effects)
    return world, effects


def acknowledge(node: Node, checkpoint: int, subtask: int, attempt: int, now: int) -> list[Effect[Snap]]:
    """One task's word, perhaps late or repeated."""
    snap = Snap(0, subtask, checkpoint)
    result, effects = node.core.acknowledge(AttemptId(attempt), CheckpointId(checkpoint), snap, now)
    dropped = any(isinstance(effect, Discard) and snap in effect.snapshots for effect in effects)
    assert dropped == (result in (AckResult.UNKNOWN, AckResult.DISCARDED))
    assert result is not AckResult.SUCCESS or node.world.preparing != checkpoint
    return effects


def act(node: Node, case: Case, move: str) -> tuple[World, list[Effect[Snap]]]:
    """One event: the world after it, and the coordinator's answer."""
    core, world = node.core, node.world
    kind, *arguments = move.split()
    now = 10 * len(world.drawn)
    if kind == "request":
        return ask(node, case, now)
    if kind in ("stored", "failed", "unsure"):
        return store(node, kind, now)
    if kind == "ack":
        checkpoint, subtask, attempt = map(int, arguments)
        return world, acknowledge(node, checkpoint, subtask, attempt, now)
    if kind == "decline":
        checkpoint, subtask, attempt = map(int, arguments)
        reason = CheckpointFailureReason.CHECKPOINT_DECLINED
        task = (0, subtask)
        return world, core.decline(AttemptId(attempt), CheckpointId(checkpoint), task, reason, now)
    if kind == "hooks":
        checkpoint = int(arguments[0])
        effects = core.hooks_done(CheckpointId(checkpoint), now)
        return replace(world, preparing=None if world.preparing == checkpoint else world.preparing), effects
    if kind == "timeout":
        return world, core.tick(int(arguments[0]))
    if kind == "committed":
        assert world.committing is not None
        return replace(world, committing=None), core.committed(CheckpointId(world.committing), now)
    if kind == "suspend":
        return world, core.suspend()
    assert kind == "start"
    world = replace(world, attempt=world.attempt + 1, running=True, committing=None)
    core.start(AttemptId(world.attempt), TASKS, now)
    return world, []


def step(node: Node, case: Case, move: str) -> Node:
    """The node after one event, with every invariant checked."""
    # The tables never change: to copy them would take most of the time.
    core = copy.deepcopy(node.core, {id(table): table for table in (MODES, MOVES)})
    before = Node(core, node.world, (*node.path, move))
    world, effects = act(before, case, move)
    if move == "suspend":
        assert all(isinstance(effect, (NotifyAbort, Discard, RequestFailed)) for effect in effects)
    elif world.running:
        failing = any(isinstance(effect, FailJob) for effect in effects)
        assert failing == failed_stop(node.world, effects), "a stop that fails always fails the job"
    world = absorb(world, effects)
    if move == "suspend":
        world = replace(world, running=False, preparing=None)
        assert world.storing is not None or not core.tickets, "suspension leaves nobody waiting"
    core.validate()
    assert core.completed == tuple(n for n in world.completed if n not in world.retired)
    assert core.tickets == set(range(1, world.asked + 1)) - world.answered
    return Node(core, world, before.path)


def moves(world: World, core: CheckpointCoordinator[Snap], case: Case) -> Iterator[str]:
    """Everything that may happen next, late and repeated messages included."""
    if world.running and world.asked < len(case):
        yield "request"
    for checkpoint, attempt, _ in world.drawn:
        for _, subtask in TASKS:
            yield f"ack {checkpoint} {subtask} {attempt}"
        yield f"decline {checkpoint} 0 {attempt}"
        yield f"hooks {checkpoint}"
    due = core.next_wakeup()
    if due is not None and core.statistics().pending:
        yield f"timeout {due}"
    if world.storing is not None:
        yield from ("stored", "failed", "unsure")
    if world.committing is not None:
        yield "committed"
    if world.running and world.attempt <= ATTEMPTS_MAX:
        yield "suspend"
    if not world.running and world.storing is None and world.attempt < ATTEMPTS_MAX:
        yield "start"


def search(case: Case, hooks: tuple[str, ...], max_concurrent: int) -> list[World]:
    """Every reachable world."""
    limits = CheckpointSettings(max_concurrent=max_concurrent, timeout_ms=1000, tolerable_failures=100)
    core: CheckpointCoordinator[Snap] = CheckpointCoordinator(limits, hooks=hooks)
    core.start(AttemptId(1), TASKS, 0)
    first = Node(core, World())
    seen = {(first.core.describe(), first.world)}
    queue = deque([first])
    while queue:
        node = queue.popleft()
        for move in moves(node.world, node.core, case):
            try:
                after = step(node, case, move)
            except Exception as error:
                raise AssertionError(f"after {', '.join((*node.path, move))}: {error}") from error
            key = (after.core.describe(), after.world)
            if key not in seen:
                seen.add(key)
                queue.append(after)
    return [world for _, world in seen]


def test_exhaustive_search_of_two_checkpoints() -> None:
    """In every reachable state all invariants hold, and no message is ever an internal error."""
    worlds = search((MANUAL, MANUAL), (), max_concurrent=2)
    # The search is not empty: every combination of endings was met.
    assert {world.completed for world in worlds} == {(), (1,), (2,), (1, 2)}
    assert {world.unsure for world in worlds} == {frozenset(s) for s in [(), (1,), (2,), (1, 2)]}
    assert len(worlds) > 900


@pytest.mark.parametrize(
    ("case", "hooks"),
    [((STOP, SAVEPOINT), ()), ((STOP,), ("h",)), ((SAVEPOINT,), ("h",))],
    ids=lambda value: "-".join(getattr(each, "value", each) for each in value) or "plain",
)
def test_exhaustive_search_of_savepoints(case: Case, hooks: tuple[str, ...]) -> None:
    """The same with savepoints and stops; every asker is answered once, whatever happens."""
    worlds = search(case, hooks, max_concurrent=2)
    everybody = frozenset(range(1, len(case) + 1))
    assert any(world.answered == everybody and world.running for world in worlds)
    assert any(world.saved for world in worlds) == (SAVEPOINT in case)
    assert any(world.notified for world in worlds) == (STOP in case)


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_walks_of_many_requests(data: st.DataObject) -> None:
    """Six requests of any kind, any order of events: every invariant holds, and nobody waits for ever."""
    case = tuple(data.draw(st.lists(st.sampled_from([MANUAL, SAVEPOINT, STOP]), min_size=6, max_size=6)))
    hooks = data.draw(st.sampled_from([(), ("h",)]))
    limits = CheckpointSettings(max_concurrent=data.draw(st.integers(1, 3)), tolerable_failures=100)
    core: CheckpointCoordinator[Snap] = CheckpointCoordinator(limits, hooks=hooks)
    core.start(AttemptId(1), TASKS, 0)
    node = Node(core, World())
    for _ in range(data.draw(st.integers(5, 40))):
        possible = sorted(moves(node.world, node.core, case))
        if not possible:
            break
        node = step(node, case, data.draw(st.sampled_from(possible)))
    if node.world.running:
        node = step(node, case, "suspend")
    if node.world.storing is not None:
        node = step(node, case, data.draw(st.sampled_from(["stored", "failed", "unsure"])))
    assert node.core.tickets == set()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("case", "hooks"),
    [
        *(
            pytest.param(pair, (), marks=pytest.mark.ci if SAVEPOINT in pair else pytest.mark.proof)
            for pair in itertools.product((MANUAL, SAVEPOINT, STOP), repeat=2)
        ),
        pytest.param((MANUAL, SAVEPOINT), ("h",), marks=pytest.mark.proof),
        pytest.param((MANUAL, STOP), ("h",), marks=pytest.mark.proof),
        pytest.param((STOP, STOP), ("h",), marks=pytest.mark.ci),
    ],
)
def test_exhaustive_search_of_every_pair(case: Case, hooks: tuple[str, ...]) -> None:
    """Every pair of kinds, and some with a hook."""
    worlds = search(case, hooks, max_concurrent=2)
    assert any(world.answered == {1, 2} and world.running for world in worlds)
    assert any(world.notified | world.saved for world in worlds)
