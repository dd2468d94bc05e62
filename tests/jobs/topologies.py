"""What tests of topologies share: jobs that stop at a checkpoint and go on from it at another parallelism."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headgate.api.environment import Environment
from headgate.checkpoint.layout import log_folder
from headgate.checkpoint.opening import load_metadata
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.ids import JobId
from headgate.state.snapshots import CheckpointMetadata
from headgate.testing import JobListener, MiniCluster
from headgate.testing.simulation.drivers import JobScene
from headgate.testing.simulation.faults import NO_FAULTS, FaultMix
from headgate.testing.simulation.invariants import Violation
from headgate.testing.simulation.simulated_jobs import job_of
from headgate.testing.simulation.virtual_disk import SimDisk, SimFiles
from headgate.testing.simulation.world import Outcome, World
from sim.store import STORES, Store
from sim.topology import JUDGE, Feed, Item, Step, Topology, events_of
from sim.topology_answer import answer_of
from sim.topology_checks import Row, TopologyChecks, complain, records_in_flight
from sim.topology_job import LATE, build
from sim.topology_runs import MODE, MODES, SETTINGS
from sim.worlds import CostlyWorld, RestoredWorld

SHAPES = ("keyed", "rebalance", "union", "forward")
SLOW_MS = 4.0
RULES = "rules"
RULES_TOLD = 12
SEEDS_TRIED = 10
"""Schedules in which a wanted checkpoint may occur; the first one that has it is taken."""

CROWDED: Mapping[str, Any] = {
    **SETTINGS,
    "execution.checkpointing.interval": "40ms",
    "execution.checkpointing.timeout": "30s",
    "taskmanager.network.credit-initial": 4,
    "execution.buffer-timeout": "0ms",
}
"""Many small frames on their way to a slow receiver."""


def shape(
    kind: str, parallelism: int, beside: bool = False, size: int = 90, source_parallelism: int | None = None
) -> Topology:
    """A job with one kind of exchange before slow sinks, all of it `parallelism` wide.

    Args:
        kind: one of `SHAPES`, or "judge", which needs the broadcast stream.
        parallelism: of all operators but the broadcasting one.
        beside: whether a broadcast stream joins before the sink.
        size: events of a source.
        source_parallelism: of the sources, where it is another one.
    """
    p, s = parallelism, source_parallelism or parallelism
    sources = [Step("in", "source", (), s)]
    if kind == "union":
        sources.append(Step("also", "source", (), s))
    steps, ends = _middle(kind, p)
    if beside:
        sources.append(Step(RULES, "source", (), 1))
        first = steps[0] if kind != "keyed" else Step("mix", "map", (Feed("count"),), p)
        mixed = replace(first, feeds=(*first.feeds, Feed(RULES, None, "broadcast")))
        steps, ends = ([*steps, mixed], ["mix"]) if kind == "keyed" else ([mixed, *steps[1:]], ends)
    sinks = [Step(f"out-{end}", "sink", (Feed(end),), p, cost_ms=SLOW_MS) for end in ends]
    events = {step.uid: _events(step.uid, size if step.uid != RULES else RULES_TOLD) for step in sources}
    return Topology((*sources, *steps, *sinks), events, 9)


def _middle(kind: str, p: int) -> tuple[list[Step], list[str]]:
    if kind == "keyed":
        return [Step("count", "count", (Feed("in"),), p, 5)], ["count"]
    if kind == JUDGE:
        return [Step("judge", JUDGE, (Feed("in"),), p, RULES_TOLD)], ["judge"]
    if kind == "rebalance":
        return [Step("shift", "map", (Feed("in", None, "rebalance"),), p, notes=True)], ["shift"]
    if kind == "union":
        return [Step("join", "map", (Feed("in"), Feed("also")), p)], ["join"]
    # Two consumers of one stream: neither is chained to it.
    two = Step("two", "map", (Feed("in"),), p, 3, notes=True)
    return [Step("one", "map", (Feed("in"),), p), two], ["one", "two"]


def without_rules(topology: Topology) -> Topology:
    """The same without the broadcast stream: its records come once per subtask of whoever receives them."""
    steps = [
        replace(step, feeds=tuple(feed for feed in step.feeds if feed.step != RULES))
        for step in topology.steps
        if step.uid != RULES
    ]
    return replace(topology, steps=tuple(steps))


def _events(uid: str, size: int) -> list[Item]:
    return [Item(f"{uid}:{index:04d}", "", index * 37 % 101, 1_000_000 + 7 * index) for index in range(size)]


class _StoppedError(BaseException):
    """The job was killed on purpose."""


class StopAtCut(TopologyChecks):
    """Kills the whole job, driver included, once a checkpoint is complete that is wanted.

    Args:
        topology: what runs.
        wanted: which checkpoint.
        keep_stores: see :class:`TopologyChecks`.
    """

    def __init__(self, topology: Topology, wanted: Any, keep_stores: bool) -> None:
        super().__init__(without_rules(topology), keep_stores=keep_stores)
        self._wanted = wanted

    def checkpoint(self, world: JobScene, checkpoint: int) -> None:
        super().checkpoint(world, checkpoint)
        point = world.master.checkpoints.points.latest
        cut = None if point is None else point.checkpoint
        if cut is not None and self._wanted(cut):
            raise _StoppedError


class RescaleChecks(TopologyChecks):
    """Everything in the sinks, of all jobs of a sequence; broadcast records once per subtask of one of them.

    Args:
        topology: what runs.
        widths: of all jobs so far.
        order: see :class:`TopologyChecks`.
    """

    def __init__(self, topology: Topology, widths: set[int], order: bool) -> None:
        super().__init__(without_rules(topology), keep_stores=True, order=order)
        self._rules = [item.ident for item in topology.events.get(RULES, [])]
        self._widths = widths

    def published(self) -> dict[str, list[Row]]:
        found = super().published()
        rules = Counter(row[0] for rows in found.values() for row in rows if row[0].startswith(RULES))
        wrong = {ident: rules[ident] for ident in self._rules if rules[ident] not in self._widths}
        if wrong:
            raise Violation(f"broadcast records came as often as none of the jobs was wide: {wrong}")
        return {uid: [row for row in rows if not row[0].startswith(RULES)] for uid, rows in found.items()}

    def noted(self, disk: SimDisk, cut: CheckpointMetadata, uid: str) -> Counter[str]:
        found = super().noted(disk, cut, uid)
        return Counter({ident: n for ident, n in found.items() if not ident.startswith(RULES)})


@dataclass(frozen=True)
class Stopped:
    """What a killed job left.

    Attributes:
        cut: the last completed checkpoint, as the disk has it.
        files: the disk.
        stores: what its sinks had prepared and published.
        runs: how many jobs there were so far.
        widths: their parallelism.
    """

    cut: CheckpointMetadata
    files: SimFiles
    stores: Mapping[str, Store]
    runs: int
    widths: frozenset[int]

    def put_back(self) -> None:
        """Make the world outside the jobs what it was at the kill; several jobs may go on from there."""
        STORES.update({uid: _copied(store) for uid, store in self.stores.items()})


def stop_in_flight(
    topology: Topology,
    mode: str,
    seed: int,
    after: Stopped | None = None,
    least: int = 8,
    level: int = 0,
) -> Stopped:
    """Run a job until a checkpoint holds records in flight, and kill it there.

    Args:
        topology: what runs.
        mode: one of `MODES`; an aligned one has no records in flight, its second checkpoint is taken.
        seed: the schedule.
        after: the job before, that this one goes on from.
        least: so many records at least.
        level: some of them at this level at least: of a job that has not got through what it restored.
    """
    unaligned = mode in ("unaligned", "timeout")

    def wanted(cut: CheckpointMetadata) -> bool:
        if not unaligned:
            return cut.checkpoint >= 2
        levels = {stream.level for stream in cut.in_flight}
        return records_in_flight(cut) >= least and max(levels) >= level

    for tried in range(SEEDS_TRIED):
        checks = StopAtCut(topology, wanted, after is not None)
        world = _world(topology, mode, seed + 100 * tried, checks, after, NO_FAULTS)
        try:
            world.run()
        except _StoppedError:
            return _left_by(world, topology, after)
    raise AssertionError(
        f"in {SEEDS_TRIED} schedules from seed {seed} no checkpoint held {least} records at level {level}"
    )


def _left_by(world: World, topology: Topology, after: Stopped | None) -> Stopped:
    widths = frozenset[int]() if after is None else after.widths
    return Stopped(
        _on_disk(world),
        world.files,
        {step.uid: _copied(STORES[step.uid]) for step in topology.of("sink")},
        1 if after is None else after.runs + 1,
        widths | {topology.steps[-1].parallelism},
    )


def go_on(
    topology: Topology,
    mode: str,
    seed: int,
    after: Stopped,
    mix: FaultMix = NO_FAULTS,
    order: bool = False,
) -> Outcome:
    """Run a job from what a killed one left to its end, and check the output of all of them together."""
    checks = RescaleChecks(topology, {*after.widths, topology.steps[-1].parallelism}, order)
    outcome = _world(topology, mode, seed, checks, after, mix).run()
    if outcome.violation is not None:
        story = "\n".join(outcome.story[-30:])
        raise AssertionError(
            f"seed {seed}, {mode}, after {'; '.join(outcome.faults) or 'no fault'}: {outcome.violation}\n"
            f"{topology.describe()}\nrestored from checkpoint {after.cut.checkpoint} with "
            f"{records_in_flight(after.cut)} records in flight\n{story}"
        )
    return outcome


def _world(
    topology: Topology,
    mode: str,
    seed: int,
    checks: TopologyChecks,
    after: Stopped | None,
    mix: FaultMix,
) -> CostlyWorld:
    run = f"{0 if after is None else after.runs}-"
    config = {**CROWDED, **MODES[mode]}
    job, _ = job_of(lambda env: build(topology, env, run), "rescaled", 1, config)
    if after is None:
        return CostlyWorld(job, seed, mix, checks)
    after.put_back()
    return RestoredWorld(job, seed, after.cut, after.files, mix, checks)


def _copied(store: Store) -> Store:
    return Store(dict(store.prepared), dict(store.published))


def _on_disk(world: World) -> CheckpointMetadata:
    disk = SimDisk(world.files)
    job = JobId(world.supervisor.submission.job_id)
    entry = CompletedCheckpointLog(disk, log_folder(job)).completed()[-1]
    return load_metadata(disk, entry.metadata, entry.sha256)


class Trouble:
    """A function that raises once after each of the first checkpoints, in the threads of this process."""

    lock = threading.Lock()
    armed = left = 0

    @classmethod
    def spend(cls, ms: float) -> None:
        """What a record costs, and perhaps a failure."""
        with cls.lock:
            strikes, cls.armed = cls.armed, 0
        if strikes:
            raise RuntimeError("a function raised after a checkpoint")
        time.sleep(max(ms, 1) / 1000)


class _Arming(JobListener):
    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        with Trouble.lock:
            if Trouble.left:
                Trouble.left, Trouble.armed = Trouble.left - 1, 1


def spend(ms: float) -> None:
    """:meth:`Trouble.spend`, found by name on workers."""
    Trouble.spend(ms)


MINI_EVENTS = 200
MINI: Mapping[str, Any] = {
    **SETTINGS,
    "execution.step-target": "1ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 10,
    "restart-strategy.fixed-delay.delay": "1ms",
}


def run_on_mini_cluster(topology: Topology, mode: str, folder: Path, failures: int = 2) -> int:
    """Run a topology in threads of this process with some failures, check its output; gives the restarts.

    It gets more events than in the simulator, so that checkpoints complete while there is something to fail.
    """
    events = {uid: events_of(uid, MINI_EVENTS, random.Random(uid)) for uid in topology.events}
    topology = replace(topology, events=events)
    answer = answer_of(topology)
    STORES.update({uid: Store() for uid in answer.sinks})
    LATE.clear()
    Trouble.armed, Trouble.left = 0, failures
    settings = {**MINI, **topology.settings, **MODES[mode]}
    env = Environment(1, settings, executor=MiniCluster(_Arming()))
    env.checkpoints(
        every="10ms", mode=settings.get(MODE, "EXACTLY_ONCE"), storage=str(folder / "checkpoints")
    )
    build(topology, env, spend=spend)
    result = env.execute("topology")
    complain(answer, {uid: STORES[uid].records() for uid in answer.sinks}, mode != "at-least-once")
    return result.restarts
