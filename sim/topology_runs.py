"""One seed, one random topology under one way of taking checkpoints, with faults."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from headgate.testing.simulation.faults import ALL_FAULTS, NO_FAULTS, FaultMix
from headgate.testing.simulation.simulated_jobs import job_of
from headgate.testing.simulation.world import Outcome
from sim.plans.plan import Plan
from sim.topology import Topology, draw_topology
from sim.topology_checks import TopologyChecks
from sim.topology_job import build
from sim.worlds import CostlyWorld

UNALIGNED: Final = "execution.checkpointing.unaligned.enabled"
ALIGNED_TIMEOUT: Final = "execution.checkpointing.aligned-checkpoint-timeout"
MODE: Final = "execution.checkpointing.mode"

MODES: Final[Mapping[str, Mapping[str, Any]]] = {
    "aligned": {},
    "unaligned": {UNALIGNED: True},
    "timeout": {UNALIGNED: True, ALIGNED_TIMEOUT: "20ms"},
    "at-least-once": {MODE: "AT_LEAST_ONCE"},
}
"""Ways of taking checkpoints, and their options."""

SETTINGS: Final[Mapping[str, Any]] = {
    "execution.checkpointing.timeout": "3s",
    "execution.checkpointing.tolerable-failed-checkpoints": 1000,
    "pipeline.max-parallelism": 32,
}
"""Under backpressure aligned checkpoints take long, and that is no failure."""


@dataclass(frozen=True)
class TopologyOutcome:
    """How one run ended.

    Attributes:
        mode: the way of taking checkpoints.
        topology: what ran; of "marks" a plan of tables.
        outcome: of the simulation.
        in_flight: records that completed checkpoints held beside state.
        jobs: "random", "tables" or "marks".
        dropped: records that windows of tables dropped as late.
        answers: different answers that sinks of corrected tables have shown.
    """

    mode: str
    topology: Topology | Plan
    outcome: Outcome
    in_flight: int
    jobs: str = "random"
    dropped: int = 0
    answers: int = 0

    @property
    def again(self) -> str:
        """The command that shows it again."""
        return f"python -m sim --jobs {self.jobs} --mode {self.mode} --seed {self.outcome.seed} --story"

    def tell(self) -> str:
        """A failure with everything that is needed to look into it."""
        faults = "; ".join(self.outcome.faults) or "no fault"
        return (
            f"seed {self.outcome.seed}, {self.mode}, after {faults}:\n  {self.outcome.violation}\n"
            f"{self.topology.describe()}\nagain: {self.again}"
        )


def mode_of(seed: int) -> str:
    """The way of taking checkpoints that a seed draws."""
    return random.Random(f"{seed} mode").choice(list(MODES))


def run_topology(
    seed: int, mode: str | None = None, mix: FaultMix = ALL_FAULTS, story_max: int | None = 60
) -> TopologyOutcome:
    """Simulate the topology of a seed.

    Args:
        seed: decides the topology, the schedule and the faults.
        mode: one of `MODES`; None for the one that the seed draws.
        mix: which faults.
        story_max: lines of story to keep.
    """
    mode = mode or mode_of(seed)
    topology = draw_topology(seed)
    job, _ = job_of(
        lambda env: build(topology, env),
        f"topology-{seed}",
        1,
        {**SETTINGS, **topology.settings, **MODES[mode]},
    )
    if any(feed.travel == "broadcast" for step in topology.steps for feed in step.feeds):
        # At another parallelism broadcast records come another number of times.
        mix = replace(mix, kinds=tuple(kind for kind in mix.kinds if kind != "rescale"))
    checks = TopologyChecks(topology, exactly_once=mode != "at-least-once")
    outcome = CostlyWorld(job, seed, mix, checks, story_max).run()
    return TopologyOutcome(mode, topology, outcome, checks.in_flight)


def run_topology_without_faults(seed: int, mode: str | None = None) -> TopologyOutcome:
    """The same, undisturbed but for the order of events."""
    return run_topology(seed, mode, NO_FAULTS)
