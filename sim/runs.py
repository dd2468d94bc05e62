"""One seed, one simulation: which job, which parallelism and which faults follow from the number."""

from __future__ import annotations

import random
from functools import lru_cache

from headgate.api.executor import JobSpec
from headgate.testing.simulation.crash_points import CrashPoints
from headgate.testing.simulation.faults import MIXES, NO_FAULTS, FaultMix
from headgate.testing.simulation.jobs import job_of
from headgate.testing.simulation.world import Outcome, World
from sim.checkers import ExactlyOnce
from sim.workload import Workload, streaks, two_stages

DATA_SEEDS = 4
"""Different sets of events; the interleaving is what a seed is about."""


@lru_cache(maxsize=64)
def prepared(kind: int, data: int, parallelism: int) -> tuple[Workload, JobSpec]:
    """A workload and its job."""
    workload = (streaks, two_stages)[kind](data)
    return workload, job_of(workload.build, workload.name, parallelism)[0]


def run_seed(
    seed: int,
    mix: FaultMix = MIXES["default"],
    story_max: int | None = 200,
    crash_points: CrashPoints | None = None,
) -> Outcome:
    """Simulate one seed."""
    rng = random.Random(f"{seed} job")
    workload, job = prepared(rng.randrange(2), rng.randrange(DATA_SEEDS), rng.choice((1, 2, 2, 3)))
    return World(job, seed, mix, ExactlyOnce(workload), story_max, crash_points).run()


def run_without_faults(seed: int) -> Outcome:
    """The same job as :func:`run_seed`, undisturbed but for the order of events."""
    return run_seed(seed, NO_FAULTS)
