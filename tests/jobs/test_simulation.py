"""Whole jobs in the simulator: production code, virtual doors, every fault from a seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.testing import SimulationError, simulate
from headgate.testing.simulation.faults import ALL_KINDS, MIXES, NO_FAULTS, REQUESTS, FaultMix
from headgate.testing.simulation.simulated_jobs import job_of
from headgate.testing.simulation.world import World
from sim.checkers import ExactlyOnce
from sim.exhaustive import crashes_at_the_end, driver_crashes
from sim.planted import BUGS, METRIC_BUGS, planted
from sim.runs import run_seed, run_without_faults
from sim.store import EventSource
from sim.workload import streaks

ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(10)
SEEDS_MAX = 150
"""A planted bug must be found within so many, counted from where it was found first."""
WITH_DRIVERS = 5
"""A seed in which a driver dies."""


@pytest.mark.parametrize("seed", range(4))
def test_jobs_run_undisturbed(seed: int) -> None:
    """Without faults a job ends in its first attempt with the batch answer, whatever the order of events."""
    outcome = run_without_faults(seed)
    assert outcome.violation is None
    assert (outcome.faults, outcome.restarts) == ([], 0)
    assert outcome.checkpoints > 0


def test_jobs_survive_faults() -> None:
    """Under every mix of faults: exactly once, exact cuts, ids that grow, and an end."""
    outcomes = [run_seed(seed) for seed in SEEDS]
    assert [(outcome.seed, outcome.violation) for outcome in outcomes if outcome.violation] == []
    assert sum(outcome.restarts for outcome in outcomes) > len(SEEDS) / 2


@pytest.mark.ci
@pytest.mark.parametrize("kind", [*ALL_KINDS, *REQUESTS])
def test_each_kind_of_fault_alone(kind: str) -> None:
    """Each kind of fault is really injected, and survived."""
    outcomes = [run_seed(seed, FaultMix((kind,), 4)) for seed in range(2)]
    assert [outcome.violation for outcome in outcomes if outcome.violation] == []
    assert any(outcome.faults for outcome in outcomes)


def test_same_seed_same_trace() -> None:
    """A seed decides everything: the same one gives the same trace, another one another."""
    assert run_seed(3).digest == run_seed(3).digest
    assert len({run_seed(seed).digest for seed in range(4)}) == 4


@pytest.mark.ci
def test_same_seed_same_trace_when_drivers_die() -> None:
    """Also which driver dies where, who is elected next, and where it goes on."""
    mix = MIXES["coordinator"]
    outcomes = [run_seed(seed, mix) for seed in range(4)]
    assert [run_seed(seed, mix).digest for seed in range(4)] == [outcome.digest for outcome in outcomes]
    assert sum(outcome.drivers for outcome in outcomes) > 2 * len(outcomes)


@pytest.mark.ci
@pytest.mark.parametrize("mix", ["coordinator", "storage", "messages"])
def test_jobs_survive_each_mix(mix: str) -> None:
    """Mostly drivers, mostly storage, mostly messages."""
    outcomes = [run_seed(seed, MIXES[mix]) for seed in range(1_000, 1_003)]
    assert [(outcome.seed, outcome.violation) for outcome in outcomes if outcome.violation] == []


def test_same_trace_in_another_process() -> None:
    """Neither the process nor its hash seed shows in a trace."""
    code = "from sim.runs import run_seed; print(run_seed(SEED).digest)".replace("SEED", str(WITH_DRIVERS))
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    here = run_seed(WITH_DRIVERS)
    assert done.stdout.split() == [here.digest]
    assert here.drivers > 1


def search(bug: str, seeds: range) -> int | None:
    """The first seed that shows a bug under its mix of faults."""
    with planted(bug):
        mix = MIXES[(BUGS | METRIC_BUGS)[bug].mix]
        return next((seed for seed in seeds if run_seed(seed, mix).violation is not None), None)


@pytest.mark.parametrize("bug", ["sink commits at the snapshot", "commit before the log holds it"])
def test_planted_bugs_are_found(bug: str) -> None:
    """The simulator finds what it is there to find."""
    assert search(bug, range(20)) is not None


@pytest.mark.parametrize("bug", METRIC_BUGS)
def test_metrics_that_lie_are_found(bug: str) -> None:
    """Time that is lost, and counts that come twice or go back."""
    assert search(bug, range(METRIC_BUGS[bug].first, METRIC_BUGS[bug].first + SEEDS_MAX)) is not None


def test_metrics_are_looked_at() -> None:
    """In every job there is time to add up, many times over."""
    workload = streaks(0)
    checks = ExactlyOnce(workload)
    job, _ = job_of(workload.build, workload.name, 2, {})
    assert World(job, 0, NO_FAULTS, checks, 0).run().violation is None
    assert checks.metrics.looks > 20


@pytest.mark.ci
@pytest.mark.parametrize("bug", sorted(BUGS))
def test_every_planted_bug_is_found(bug: str) -> None:
    """Each of the known mistakes, near the seed that is known to show it; docs/simulator.md has the table."""
    first = BUGS[bug].first
    assert search(bug, range(first, first + SEEDS_MAX)) is not None


@pytest.mark.ci
def test_the_driver_dies_at_some_steps_of_a_checkpoint() -> None:
    """Whatever a driver was about to do or had just done, its successor finds a whole checkpoint."""
    crashes = list(driver_crashes(every=13))
    assert [crash.tell() for crash in crashes if crash.outcome.violation is not None] == []
    assert {(crash.phase, crash.elects) for crash in crashes if crash.struck} == {
        (phase, elects) for phase in ("before", "after") for elects in (False, True)
    }


def test_a_job_that_was_cancelled_can_be_started_again() -> None:
    """Its driver died with the end on record; only the first one in its place has nothing to do."""
    assert run_seed(429, MIXES["default"]).violation is None


@pytest.mark.ci
def test_the_driver_dies_at_some_steps_of_the_end() -> None:
    """The next one finds the job's last checkpoint, or that the job is over; nothing comes twice."""
    crashes = list(crashes_at_the_end(every=11))
    assert [crash.tell() for crash in crashes if crash.outcome.violation is not None] == []
    assert sum(crash.struck for crash in crashes) > 20


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_driver_dies_at_every_step_of_the_end(seed: int) -> None:
    """Before and after each effect: also between the word that the job is over and its last file."""
    crashes = list(crashes_at_the_end(seed))
    assert [crash.tell() for crash in crashes if crash.outcome.violation is not None] == []
    steps = "\n".join(crash.step for crash in crashes if crash.struck)
    for word in ("0000000000000000001.ended", "create-if-absent simulated/log/", "/_metadata"):
        assert word in steps


@pytest.mark.proof
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_driver_dies_at_every_step_of_a_checkpoint(seed: int) -> None:
    """From the trigger to the deletion of its predecessor, before and after each effect."""
    crashes = list(driver_crashes(seed))
    assert [crash.tell() for crash in crashes if crash.outcome.violation is not None] == []
    steps = "\n".join(crash.step for crash in crashes if crash.struck)
    for word in (
        "create-if-absent simulated/log/",
        "_metadata",
        "message, worker",
        "delete simulated/chk-1/_metadata",
    ):
        assert word in steps


def squares(env) -> None:
    """A program: the even squares, spread over the subtasks."""
    (
        env.from_source(EventSource(range(60), 7), uid="numbers")
        .map(lambda n: n * n)
        .rebalance()
        .filter(lambda n: n % 2 == 0)
        .collect_later(uid="out")
    )


def test_simulate_a_program() -> None:
    """A user's program is checked against its own undisturbed run, or against given results."""
    report = simulate(squares, seeds=range(6))
    again = simulate(squares, seeds=range(6), expected={"out": [n * n for n in range(0, 60, 2)]})
    assert report == again
    assert report.faults > 0
    assert report.drivers > report.seeds


def test_simulate_without_drivers_and_requests() -> None:
    """What is not wanted does not happen."""
    everything = simulate(squares, seeds=range(6), rescale=True)
    less = simulate(squares, seeds=range(6), drivers=False, requests=False)
    assert less.faults > 0
    assert less.seeds <= less.drivers < everything.drivers


def test_simulate_names_the_seed() -> None:
    """A source whose positions are wrong is found, and the message says how to see it again."""
    with (
        planted("source position off by one"),
        pytest.raises(SimulationError, match=r"seed \d+, parallelism 2"),
    ):
        simulate(squares, seeds=range(50))


def test_simulate_shows_failing_user_code() -> None:
    """An exception of the program is a violation, not one more restart."""

    def build(env) -> None:
        env.from_collection([1, 0], uid="numbers").map(lambda n: 1 / n).collect_later(uid="out")

    with pytest.raises(SimulationError, match="ZeroDivisionError"):
        simulate(build, seeds=range(1), expected={"out": []})
