"""The driver dies at every step of a checkpoint, or of the end of a job: a simulation for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from headgate.api.jobs.executor_contract import JobSpec
from headgate.testing.simulation.crash_points import PHASES, CrashPoints, Phase
from headgate.testing.simulation.faults import NO_FAULTS
from headgate.testing.simulation.simulated_jobs import job_of
from headgate.testing.simulation.world import Outcome, World
from sim.checkers import ExactlyOnce
from sim.runs import IN_FILES
from sim.workload import Workload, streaks, two_stages

EVENTS = 40
PARALLELISM = 2
CHECKPOINT = 2
"""Whose steps are tried: one that has a predecessor, so that something is retired."""


KEEPS_NOTHING: Final = {
    "execution.checkpointing.externalized-checkpoint-retention": "NO_EXTERNALIZED_CHECKPOINTS"
}
"""The next driver has nothing to go on from once the job has ended."""


@dataclass(frozen=True)
class Crash:
    """One simulation whose driver died.

    Attributes:
        step: where, in words.
        phase: before or after the effect of that step.
        elects: whether the next driver had to win an election.
        silently: whether the workers were left without news.
        outcome: how it ended.
        struck: whether the driver came to that step.
    """

    step: str
    phase: Phase
    elects: bool
    silently: bool
    outcome: Outcome
    struck: bool

    def tell(self) -> str:
        """A failure with everything that is needed to look into it."""
        how = f"{'with' if self.elects else 'without'} election{', silently' if self.silently else ''}"
        story = "\n".join((*self.outcome.story, *self.outcome.checkpoint_story))
        return (
            f"{story}\nseed {self.outcome.seed}, {self.phase} {self.step}, {how}:\n  {self.outcome.violation}"
        )


@lru_cache(maxsize=4)
def _small_job(kind: int, keeps: bool) -> tuple[Workload, JobSpec]:
    workload = (streaks, two_stages)[kind](0, EVENTS)
    settings = IN_FILES if keeps else IN_FILES | KEEPS_NOTHING
    return workload, job_of(workload.build, workload.name, PARALLELISM, settings)[0]


def _run(seed: int, points: CrashPoints, elects: bool, keeps: bool = True) -> Outcome:
    workload, job = _small_job(seed % 2, keeps)
    return World(job, seed, NO_FAULTS, ExactlyOnce(workload), 60, points, elects).run()


def driver_crashes(seed: int = 0, every: int = 1, offset: int = 0) -> Iterator[Crash]:
    """Kill the driver at the steps of a checkpoint.

    Args:
        seed: the job, and the order of everything else.
        every: 1 tries all steps, n every n-th.
        offset: the first step that is tried.
    """
    for elects in (False, True):
        counted = CrashPoints(CHECKPOINT)
        quiet = _run(seed, counted, elects)
        assert quiet.violation is None, quiet.violation
        for number in range(offset % every, len(counted.steps), every):
            for phase in PHASES:
                silently = number % 3 == 0
                points = CrashPoints(CHECKPOINT, number, phase, silently)
                outcome = _run(seed, points, elects)
                yield Crash(counted.steps[number], phase, elects, silently, outcome, points.struck)


def crashes_at_the_end(seed: int = 0, every: int = 1) -> Iterator[Crash]:
    """Kill the driver at the steps from a job's last checkpoint until the driver has left.

    Once with checkpoints that stay and once without any: whoever goes on there without knowing that the job
    is over begins it anew. Behind the very last step, by which the driver makes room, nobody can tell one
    that is started because the other was killed from one with which the user wants another run.

    Args:
        seed: the job, and the order of everything else.
        every: 1 tries all steps, n every n-th.
    """
    for keeps in (False, True):
        whole = CrashPoints(CHECKPOINT)
        _run(seed, whole, True, keeps)
        counted = CrashPoints(whole.last, to_end=True)
        quiet = _run(seed, counted, True, keeps)
        assert quiet.violation is None, quiet.violation
        for number in range(0, len(counted.steps), every):
            for phase in PHASES[: 1 if number == len(counted.steps) - 1 else 2]:
                silently = number % 3 == 0
                points = CrashPoints(whole.last, number, phase, silently, to_end=True)
                outcome = _run(seed, points, True, keeps)
                yield Crash(counted.steps[number], phase, True, silently, outcome, points.struck)
