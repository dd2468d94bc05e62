"""Whole jobs in the simulator: production code, virtual doors, every fault from a seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.testing import SimulationError, simulate
from headgate.testing.simulation.faults import ALL_KINDS, FaultMix
from sim.planted import BUGS, planted
from sim.runs import run_seed, run_without_faults
from sim.store import EventSource

ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(30)
SEEDS_MAX = 300
"""A planted bug must be found within so many."""


@pytest.mark.parametrize("seed", range(6))
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


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_each_kind_of_fault_alone(kind: str) -> None:
    """Each kind of fault is really injected, and survived."""
    outcomes = [run_seed(seed, FaultMix((kind,), 4)) for seed in range(3)]
    assert [outcome.violation for outcome in outcomes if outcome.violation] == []
    assert any(outcome.faults for outcome in outcomes)


def test_same_seed_same_trace() -> None:
    """A seed decides everything: the same one gives the same trace, another one another."""
    assert run_seed(3).digest == run_seed(3).digest
    assert len({run_seed(seed).digest for seed in range(8)}) == 8


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_same_trace_in_another_process(hash_seed: str) -> None:
    """Neither the process nor its hash seed shows in a trace."""
    code = "from sim.runs import run_seed; print(run_seed(5).digest)"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.split() == [run_seed(5).digest]


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_planted_bugs_are_found(bug: str) -> None:
    """The simulator finds what it is there to find."""
    with planted(bug):
        assert any(run_seed(seed).violation is not None for seed in range(SEEDS_MAX))


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
