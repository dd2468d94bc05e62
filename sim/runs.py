"""One seed, one simulation: which job, which parallelism and which faults follow from the number."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any, Final

from headgate.api.jobs.executor_contract import JobSpec
from headgate.testing.simulation.crash_points import CrashPoints
from headgate.testing.simulation.faults import MIXES, NO_FAULTS, FaultMix
from headgate.testing.simulation.simulated_jobs import job_of
from headgate.testing.simulation.world import Outcome, World
from sim.checkers import ExactlyOnce
from sim.workload import Workload, streaks, two_stages

DATA_SEEDS = 4
"""Different sets of events; the interleaving is what a seed is about."""


IN_FILES: Final = {"execution.checkpointing.data-inline-threshold": "0b"}
VARIANTS: Final[tuple[dict[str, Any], ...]] = (
    {},
    IN_FILES,
    IN_FILES
    | {"execution.checkpointing.num-retained": 3, "execution.checkpointing.max-concurrent-checkpoints": 2},
    IN_FILES | {"execution.checkpointing.timeout": "150ms"},
    IN_FILES | {"state.changelog.enabled": True, "state.changelog.periodic-materialize.interval": "60ms"},
    {"state.changelog.enabled": True, "execution.checkpointing.num-retained": 2},
)
"""Settings of a job: where state goes, what is kept, and how long a checkpoint may take."""


@lru_cache(maxsize=256)
def prepared(kind: int, data: int, parallelism: int, variant: int) -> tuple[Workload, JobSpec]:
    """A workload and its job."""
    workload = (streaks, two_stages)[kind](data)
    return workload, job_of(workload.build, workload.name, parallelism, VARIANTS[variant])[0]


def run_seed(
    seed: int,
    mix: FaultMix = MIXES["default"],
    story_max: int | None = 200,
    crash_points: CrashPoints | None = None,
) -> Outcome:
    """Simulate one seed."""
    rng = random.Random(f"{seed} job")
    kind, data, parallelism = rng.randrange(2), rng.randrange(DATA_SEEDS), rng.choice((1, 2, 2, 3))
    workload, job = prepared(kind, data, parallelism, rng.randrange(len(VARIANTS)))
    return World(job, seed, mix, ExactlyOnce(workload), story_max, crash_points).run()


def run_without_faults(seed: int) -> Outcome:
    """The same job as :func:`run_seed`, undisturbed but for the order of events."""
    return run_seed(seed, NO_FAULTS)
