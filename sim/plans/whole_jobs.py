"""One seed, one whole simulated job of a random plan: whatever fails, its sinks show exact answers only."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import Plain
from headgate.testing.simulation.drivers import JobScene
from headgate.testing.simulation.faults import MIXES, NO_FAULTS, FaultMix
from headgate.testing.simulation.invariants import Checks, Violation
from headgate.testing.simulation.simulated_jobs import job_of
from sim.plans.drawing import draw_plan
from sim.plans.logs import limits_of_log, logs_early
from sim.plans.plan import Plan
from sim.plans.program import build
from sim.plans.queries import Answers
from sim.plans.watching import PlanOutcome, Watch
from sim.store import STORES, Store, StoreCommitter, StoreWriter
from sim.topology_checks import records_in_flight
from sim.topology_runs import MODES, SETTINGS, TopologyOutcome, mode_of
from sim.worlds import CostlyWorld, cost

NODES_MAX = 3
"""Operators are what other tests are about: here a seed's time goes to what fails when."""


class ChangesSink(Sink[Any]):
    """A two-phase sink of changes into the store called `uid`, whose records cost time."""

    def __init__(self, uid: str, cost_ms: float) -> None:
        self.uid, self.cost_ms = uid, cost_ms

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[Any]:
        return ChangesWriter(self, context)

    @override
    def create_committer(self) -> SinkCommitter:
        return StoreCommitter(self.uid)


class ChangesWriter(StoreWriter):
    """Collects changes and marks as they come; a part has some of both."""

    accepts_columns = True

    def __init__(self, sink: ChangesSink, context: SinkWriterContext) -> None:
        super().__init__(sink.uid, context)
        self._cost_ms = sink.cost_ms

    @override
    def write(self, records: Any) -> None:
        cost(self._cost_ms * len(records))
        self._records.append(records.to_pylist())

    @override
    def mark(self, rows: Mapping[tuple[str, str], int]) -> None:
        self._records.append(dict(rows))


class ShownChecks(Checks):
    """What sinks show is compared with DuckDB at each mark of a part that becomes visible, and at the end.

    Args:
        outcome: counts what was compared.
        answers: of the plan.
        exact: otherwise the job may process records again, and nothing is compared.
    """

    def __init__(self, outcome: PlanOutcome, answers: Answers, *, exact: bool) -> None:
        super().__init__()
        self._exact, self.in_flight = exact, 0
        sinks = outcome.plan.sinks
        self._watches = {uid: Watch(outcome, uid, answers, alone=True) for uid in sinks}
        for watch in self._watches.values():
            watch.begins([])
        STORES.update({uid: Store() for uid in sinks})

    @override
    def begins(self, world: JobScene) -> None:
        super().begins(world)
        for uid in self._watches:
            STORES[uid].on_publish = lambda part, uid=uid: self._publishing(world, uid, part)
            STORES[uid].on_abandon = lambda: world.driver.reached("sink.abandoning")

    @override
    def checkpoint(self, world: JobScene, checkpoint: int) -> None:
        super().checkpoint(world, checkpoint)
        point = world.master.checkpoints.points.latest
        if point is not None:
            self.in_flight += records_in_flight(point.checkpoint)

    @override
    def ended(self, world: JobScene) -> None:
        super().ended(world)
        if self._exact:
            for uid, watch in self._watches.items():
                watch.ended(_parts(uid))

    def _publishing(self, world: JobScene, uid: str, part: str) -> None:
        world.driver.reached("sink.publishing")
        store = STORES[uid]
        if not self._exact or part in store.published:
            return
        entries = store.prepared[part]
        if isinstance(entries[-1], list):
            raise Violation(f"sink {uid!r} shows changes that no mark has followed: {entries[-1][:3]}")
        later = [other for other in store.published if other > part]
        if later:
            raise Violation(f"sink {uid!r} shows {part!r} after {later[0]!r}")
        self._watches[uid].follow(entries)


def _parts(uid: str) -> list[Any]:
    published = STORES[uid].published
    return [published[part] for part in sorted(published)]


def draw_job(seed: int) -> tuple[Plan, int, float, dict[str, Any]]:
    """The plan of a seed, its parallelism, what a change costs its sinks (ms), and options."""
    rng = random.Random(f"{seed} marks")
    config = {
        "execution.mark-interval": rng.choice(("5ms", "10ms", "30ms")),
        "taskmanager.network.credit-initial": rng.choice((1, 2, 4)),
        "execution.buffer-timeout": rng.choice(("0ms", "2ms", "5ms")),
        "execution.checkpointing.interval": rng.choice(("10ms", "25ms", "60ms")),
        "execution.checkpointing.data-inline-threshold": rng.choice(("0b", "20kb")),
    }
    if logs_early(seed):
        config["execution.checkpointing.data-inline-threshold"] = "0b"
    return draw_plan(seed, NODES_MAX), rng.choice((1, 2, 2, 3)), rng.choice((0, 0, 0.5, 4)), config


def run_marks(
    seed: int, mode: str | None = None, mix: FaultMix = MIXES["default"], story_max: int | None = 60
) -> TopologyOutcome:
    """Simulate the job of a seed.

    Args:
        seed: decides the plan, the schedule and the faults.
        mode: one of `MODES`; None for the one that the seed draws.
        mix: which faults.
        story_max: lines of story to keep.
    """
    mode = mode or mode_of(seed)
    plan, width, spent, config = draw_job(seed)
    job, _ = job_of(
        lambda env: build(plan, env, lambda uid: ChangesSink(uid, spent), 1),
        f"marks-{seed}",
        width,
        {**SETTINGS, **config, **MODES[mode]},
    )
    counts, answers = PlanOutcome(seed, plan, mode), Answers(plan)
    checks = ShownChecks(counts, answers, exact=mode != "at-least-once" or mix == NO_FAULTS)
    try:
        with limits_of_log(seed):
            outcome = CostlyWorld(job, seed, mix, checks, story_max).run()
    finally:
        answers.close()
    return TopologyOutcome(mode, plan, outcome, checks.in_flight, "marks", answers=counts.different)
