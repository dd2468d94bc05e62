"""`simulate`: runs a user's job under many schedules and faults, in one thread, each from a seed.

What runs is the code of production; only clocks, network, disk and processes are virtual. Real time, real
files and real chance inside the program itself are not caught: use sources without them. What may go wrong is
in `docs/simulator.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from headgate.api.environment import Environment
from headgate.testing.simulation.drivers import JobScene
from headgate.testing.simulation.faults import (
    ALL_KINDS,
    NO_FAULTS,
    REQUESTS,
    WITHOUT_DRIVERS,
    FaultMix,
)
from headgate.testing.simulation.invariants import Checks, Violation
from headgate.testing.simulation.simulated_jobs import job_of
from headgate.testing.simulation.world import Outcome, World

B = TypeVar("B")
R = TypeVar("R")
OptionValue = str | int | float | bool


class SimulationError(AssertionError):
    """A simulated job broke one of its guarantees; the message names the seed that repeats it."""


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """Counts over all jobs that :func:`simulate` has run, one job per seed.

    Attributes:
        seeds: number of schedules, each from one seed.
        faults: number of injected faults and requests of users.
        drivers: number of started drivers; more than `seeds` where one was replaced or doubled, or ran again.
        restarts: number of restarts of jobs.
        checkpoints: number of completed checkpoints.
        digests: seed -> digest of its trace; equal whenever the same job runs with that seed again.
    """

    seeds: int
    faults: int
    drivers: int
    restarts: int
    checkpoints: int
    digests: Mapping[int, str]


def simulate(
    build: Callable[[Environment], B],
    seeds: Iterable[int] = range(100),
    *,
    parallelism: int = 2,
    config: Mapping[str, OptionValue] | None = None,
    expected: Mapping[str, Iterable[R]] | None = None,
    faults: bool = True,
    drivers: bool = True,
    requests: bool = True,
    rescale: bool = False,
) -> SimulationReport:
    """Run a job once per seed, and check that its collected results are exactly the right ones.

    Each seed decides the order in which everything happens, and what goes wrong when: workers are killed,
    paused or cut off; writes fail, hang, or find no space; control messages are late, lost or come twice;
    drivers die and are started again, or meet another one. Besides the results it is checked that the job
    ends, that no failure has another reason than the injected faults, that checkpoints and watermarks never
    go back, and that every completed checkpoint and savepoint is whole at all times.

    Args:
        build: called for each seed, adds a bounded job to the Environment given; results that count go to
            ``stream.collect_later()``. It must not call ``execute()``.
        seeds: numbers, each of which decides one schedule and its faults.
        parallelism: subtasks of operators that set none.
        config: options; every duration is virtual. The defaults are short.
        expected: uid of a collecting sink -> its records, in any order; by default what the job gives
            when it runs undisturbed with parallelism 1.
        faults: whether anything goes wrong; if not, only the order changes, and `drivers` and below are moot.
        drivers: whether that includes the driver: it dies, stands still, or another one is started.
        requests: whether checkpoints and savepoints are asked for at random moments, and the job is stopped
            or cancelled and started again from its savepoint or last checkpoint.
        rescale: whether the parallelism changes while the job runs. For jobs whose results do not depend on
            the order in which splits are read.

    Raises:
        SimulationError: a seed broke one of these promises.
        PlanError: `build` called ``execute()``, or the job cannot run as it is written.

    Example:
        >>> def build(env):
        ...     env.from_collection(range(20), uid="numbers").map(lambda n: n * n).collect_later(uid="out")
        >>> report = simulate(build, seeds=range(3), expected={"out": [n * n for n in range(20)]})
        >>> report.seeds, report.checkpoints > 0
        (3, True)
    """
    if expected is None:
        right, _ = _run(build, 0, 1, config, None, NO_FAULTS)
    else:
        right = {uid: Counter(map(_hashable, records)) for uid, records in expected.items()}
    mix = _mix(drivers, requests, rescale) if faults else NO_FAULTS
    outcomes = [_run(build, seed, parallelism, config, right, mix)[1] for seed in seeds]
    return SimulationReport(
        seeds=len(outcomes),
        faults=sum(len(outcome.faults) for outcome in outcomes),
        drivers=sum(outcome.drivers for outcome in outcomes),
        restarts=sum(outcome.restarts for outcome in outcomes),
        checkpoints=sum(outcome.checkpoints for outcome in outcomes),
        digests={outcome.seed: outcome.digest for outcome in outcomes},
    )


def _mix(drivers: bool, requests: bool, rescale: bool) -> FaultMix:
    kinds = ALL_KINDS if drivers else WITHOUT_DRIVERS.kinds
    asked = [kind for kind in REQUESTS if (rescale if kind == "rescale" else requests)]
    return FaultMix((*kinds, *asked))


Results = dict[str, Counter[Hashable]]


class _Collected(Checks):
    """Checks, when a simulated job has ended, that its collecting sinks got the expected records."""

    def __init__(self, env: Environment, right: Results | None) -> None:
        super().__init__()
        self._env, self._right = env, right

    def results(self) -> Results:
        return {uid: Counter(map(_hashable, sink.results)) for uid, sink in self._env.collecting.items()}

    def ended(self, scene: JobScene) -> None:
        super().ended(scene)
        if self._right is None:
            return
        for uid, got in self.results().items():
            right = self._right.get(uid, Counter())
            if got != right:
                raise Violation(
                    f"{uid!r} collected {sum(got.values())} records, expected {sum(right.values())}; "
                    f"missing {_some(right - got)}; too many {_some(got - right)}"
                )


def _run(
    build: Callable[[Environment], B],
    seed: int,
    parallelism: int,
    config: Mapping[str, OptionValue] | None,
    right: Results | None,
    mix: FaultMix,
) -> tuple[Results, Outcome]:
    job, env = job_of(build, "simulated", parallelism, config)
    checks = _Collected(env, right)
    outcome = World(job, seed, mix, checks, story_max=40).run()
    if outcome.violation is not None:
        story = "\n".join([*outcome.story, *outcome.checkpoint_story])
        done = "; ".join(outcome.faults) or "none"
        raise SimulationError(
            f"seed {seed}, parallelism {parallelism}: {outcome.violation}\n"
            f"faults: {done}\nlast events:\n{story}"
        )
    return checks.results(), outcome


def _hashable(record: R) -> Hashable:
    if isinstance(record, dict):
        return ("dict", *sorted((key, _hashable(value)) for key, value in record.items()))
    if isinstance(record, list):
        return ("list", *map(_hashable, record))
    try:
        hash(record)
    except TypeError:
        return repr(record)
    return record


def _some(records: Counter[Hashable]) -> str:
    shown = sorted(records.items(), key=repr)
    return f"{shown[:4]}{'...' if len(shown) > 4 else ''}"
