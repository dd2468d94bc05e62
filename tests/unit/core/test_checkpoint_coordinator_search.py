"""Every interleaving of a small coordinator: two tasks, two checkpoints, one restart."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.coordinator import CheckpointCoordinator
from headgate.core.checkpoint.effects import (
    Commit,
    Discard,
    Effect,
    Finalize,
    NotifyAbort,
    NotifyComplete,
    RequestKind,
    Retire,
    TriggerCheckpoint,
)
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.pending import AckResult
from headgate.core.checkpoint.requests import CheckpointSettings

TASKS = ((0, 0), (0, 1))
CHECKPOINTS = (1, 2)
ATTEMPTS_MAX = 2


class Snap(NamedTuple):
    vertex: int
    subtask: int
    checkpoint: int


@dataclass(frozen=True)
class World:
    """What the shell and the outside know; the part of a node beside the coordinator."""

    attempt: int = 1
    running: bool = True
    drawn_in: tuple[tuple[int, int], ...] = ()
    storing: int | None = None
    committing: int | None = None
    completed: tuple[int, ...] = ()
    unsure: frozenset[int] = frozenset()
    aborted: frozenset[int] = frozenset()
    notified: frozenset[int] = frozenset()
    discarded: frozenset[Snap] = frozenset()
    retired: frozenset[int] = frozenset()


@dataclass
class Node:
    core: CheckpointCoordinator[Snap]
    world: World
    path: tuple[str, ...] = field(default=())


def absorb(world: World, effects: list[Effect[Snap]]) -> World:
    """Perform effects on the model of the shell, checking each."""
    for effect in effects:
        match effect:
            case TriggerCheckpoint(checkpoint, attempt):
                assert world.running
                assert attempt == world.attempt
                assert all(checkpoint > known for known, _ in world.drawn_in), "ids strictly increase"
                world = replace(world, drawn_in=(*world.drawn_in, (checkpoint, attempt)))
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
            case NotifyComplete(checkpoint, _):
                assert world.running, "nothing after suspend"
                assert checkpoint in world.completed
                assert checkpoint not in world.aborted | world.notified
                world = replace(world, notified=world.notified | {checkpoint})
            case NotifyAbort(checkpoint, _, _):
                assert checkpoint not in world.aborted, "aborted at most once"
                assert checkpoint not in world.completed, "never completed and aborted"
                world = replace(world, aborted=world.aborted | {checkpoint})
            case Discard(snapshots):
                for snap in snapshots:
                    kept = set(world.completed) - world.retired
                    assert snap.checkpoint not in kept, "no file of a retained one is deleted"
                    assert snap.checkpoint not in world.unsure, "nor of one that may be published"
                    assert snap.checkpoint != world.storing
                world = replace(world, discarded=world.discarded | set(snapshots))
            case Retire(checkpoints):
                assert world.running
                assert world.completed[-1] not in checkpoints
                assert set(checkpoints) <= set(world.completed)
                assert not world.retired & set(checkpoints)
                world = replace(world, retired=world.retired | set(checkpoints))
            case _:
                raise AssertionError(f"unexpected {effect}")
    return world


def step(node: Node, move: str) -> Node:
    """The node after one event."""
    core, world = copy.deepcopy(node.core), node.world
    kind, *arguments = move.split()
    numbers = [int(argument) for argument in arguments]
    now = 10 * len(world.drawn_in)
    effects: list[Effect[Snap]] = []
    if kind == "request":
        effects = core.request(RequestKind.MANUAL, now)
    elif kind == "ack":
        checkpoint, subtask, attempt = numbers
        snap = Snap(0, subtask, checkpoint)
        result, effects = core.acknowledge(AttemptId(attempt), CheckpointId(checkpoint), snap, now)
        dropped = any(isinstance(effect, Discard) and snap in effect.snapshots for effect in effects)
        assert dropped == (result in (AckResult.UNKNOWN, AckResult.DISCARDED))
    elif kind == "decline":
        checkpoint, subtask, attempt = numbers
        reason = CheckpointFailureReason.CHECKPOINT_DECLINED
        effects = core.decline(AttemptId(attempt), CheckpointId(checkpoint), (0, subtask), reason, now)
    elif kind == "timeout":
        effects = core.tick(numbers[0])
    elif kind == "stored":
        assert world.storing is not None
        stored = world.storing
        assert not world.completed or stored > world.completed[-1], "completed ids strictly increase"
        world = replace(world, storing=None, completed=(*world.completed, stored))
        effects = core.stored(CheckpointId(stored), now)
        assert world.running or effects == []
    elif kind == "store_failed":
        assert world.storing is not None
        failed = world.storing
        unsure = world.unsure | {failed} if numbers[0] else world.unsure
        world = replace(world, storing=None, unsure=unsure)
        effects = core.store_failed(CheckpointId(failed), "", bool(numbers[0]), now)
    elif kind == "committed":
        assert world.committing is not None
        done = world.committing
        world = replace(world, committing=None)
        effects = core.committed(CheckpointId(done), now)
    elif kind == "suspend":
        effects = core.suspend()
        world = absorb(world, effects)
        assert all(isinstance(effect, (NotifyAbort, Discard)) for effect in effects)
        world, effects = replace(world, running=False), []
    elif kind == "start":
        world = replace(world, attempt=world.attempt + 1, running=True, committing=None)
        core.start(AttemptId(world.attempt), TASKS, now)
    world = absorb(world, effects)
    core.validate()
    assert core.completed == tuple(n for n in world.completed if n not in world.retired)
    return Node(core, world, (*node.path, move))


def moves(world: World, core: CheckpointCoordinator[Snap]) -> Iterator[str]:
    """Everything that may happen next, late and repeated messages included."""
    if world.running and len(world.drawn_in) < len(CHECKPOINTS):
        yield "request"
    for checkpoint, attempt in world.drawn_in:
        for _, subtask in TASKS:
            yield f"ack {checkpoint} {subtask} {attempt}"
        yield f"decline {checkpoint} 0 {attempt}"
    due = core.next_wakeup()
    if due is not None and core.statistics().pending:
        yield f"timeout {due}"
    if world.storing is not None:
        yield from ("stored", "store_failed 0", "store_failed 1")
    if world.committing is not None:
        yield "committed"
    if world.running and world.attempt <= ATTEMPTS_MAX:
        yield "suspend"
    if not world.running and world.storing is None and world.attempt < ATTEMPTS_MAX:
        yield "start"


def test_exhaustive_search() -> None:
    """In every reachable state all invariants hold, and no message is ever an internal error."""
    settings = CheckpointSettings(max_concurrent=2, timeout_ms=1000, tolerable_failures=100)
    core: CheckpointCoordinator[Snap] = CheckpointCoordinator(settings)
    core.start(AttemptId(1), TASKS, 0)
    first = Node(core, World())
    seen = {(first.core.describe(), first.world)}
    queue = deque([first])
    endings: set[tuple[tuple[int, ...], frozenset[int]]] = set()
    while queue:
        node = queue.popleft()
        for move in moves(node.world, node.core):
            try:
                after = step(node, move)
            except Exception as error:
                raise AssertionError(f"after {', '.join((*node.path, move))}: {error}") from error
            key = (after.core.describe(), after.world)
            if key not in seen:
                seen.add(key)
                queue.append(after)
                endings.add((after.world.completed, after.world.unsure))
    # The search is not empty: every combination of endings was met.
    assert {done for done, _ in endings} == {(), (1,), (2,), (1, 2)}
    assert {frozenset(), frozenset({1}), frozenset({2}), frozenset({1, 2})} == {u for _, u in endings}
    assert len(seen) > 900
