"""The driver dies at every step of one checkpoint, a simulation for each; afterwards everything must hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from headgate.api.executor import JobSpec
from headgate.testing.simulation.crash_points import PHASES, CrashPoints, Phase
from headgate.testing.simulation.faults import NO_FAULTS
from headgate.testing.simulation.jobs import job_of
from headgate.testing.simulation.world import Outcome, World
from sim.checkers import ExactlyOnce
from sim.runs import IN_FILES
from sim.workload import Workload, streaks, two_stages

EVENTS = 40
PARALLELISM = 2
CHECKPOINT = 2
"""Whose steps are tried: one that has a predecessor, so that something is retired."""


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


@lru_cache(maxsize=2)
def _small_job(kind: int) -> tuple[Workload, JobSpec]:
    workload = (streaks, two_stages)[kind](0, EVENTS)
    return workload, job_of(workload.build, workload.name, PARALLELISM, IN_FILES)[0]


def _run(seed: int, points: CrashPoints, elects: bool) -> Outcome:
    workload, job = _small_job(seed % 2)
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
