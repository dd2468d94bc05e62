"""One seed, one random topology with tables under one way of taking checkpoints, with faults."""

from __future__ import annotations

import random
from typing import Final

from headgate.testing.simulation.faults import MIXES, NO_FAULTS, FaultMix
from headgate.testing.simulation.simulated_jobs import job_of
from sim.tables import draw_tables
from sim.tables_checks import TablesChecks
from sim.tables_job import build_tables
from sim.topology_runs import MODES, SETTINGS, TopologyOutcome, mode_of
from sim.worlds import CostlyWorld

LATE: Final = 0.2
"""Share of seeds whose records may come behind the watermark."""


def is_late(seed: int) -> bool:
    """Whether records of a seed's job may come behind the watermark."""
    return random.Random(f"{seed} late").random() < LATE


def run_tables(
    seed: int,
    mode: str | None = None,
    mix: FaultMix = MIXES["default"],
    story_max: int | None = 60,
    late: bool | None = None,
) -> TopologyOutcome:
    """Simulate the topology with tables of a seed.

    Args:
        seed: decides the topology, the schedule and the faults.
        mode: one of `MODES`; None for the one that the seed draws.
        mix: which faults.
        story_max: lines of story to keep.
        late: whether records may come behind the watermark; None: as the seed draws.
    """
    mode = mode or mode_of(seed)
    late = is_late(seed) if late is None else late
    topology = draw_tables(seed, late)
    config = {**SETTINGS, **topology.settings, **MODES[mode]}
    job, _ = job_of(lambda env: build_tables(topology, env), f"tables-{seed}", topology.width, config)
    checks = TablesChecks(topology, mode != "at-least-once" or mix == NO_FAULTS, late)
    with checks.late_counts.watching():
        outcome = CostlyWorld(job, seed, mix, checks, story_max).run()
    return TopologyOutcome(mode, topology, outcome, checks.in_flight, "tables", checks.dropped)


def run_tables_without_faults(
    seed: int, mode: str | None = None, late: bool | None = None
) -> TopologyOutcome:
    """The same, undisturbed but for the order of events."""
    return run_tables(seed, mode, NO_FAULTS, late=late)
