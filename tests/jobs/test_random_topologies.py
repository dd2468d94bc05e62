"""Random topologies under every way of taking checkpoints: the output is that of plain Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from topologies import run_on_mini_cluster

from headgate.testing.simulation.faults import MIXES
from sim.planted import IN_FLIGHT_BUGS, planted
from sim.topology import draw_topology
from sim.topology_answer import answer_of
from sim.topology_runs import MODES, TopologyOutcome, run_topology, run_topology_without_faults

SEEDS = range(9)
SEEDS_LONG = range(1_000, 1_100)
SEEDS_MAX = 200
"""A planted bug must be found within so many."""
UNALIGNED = ("unaligned", "timeout")
SPLIT_AND_JOINED = 5501
"""A stream beside itself: by a broadcast and two slow steps, and straight; with hardly any credit."""


def failures(outcomes: list[TopologyOutcome]) -> str:
    """What went wrong, each with the command that shows it again; empty when nothing did."""
    return "\n\n".join(run.tell() for run in outcomes if run.outcome.violation is not None)


@pytest.mark.parametrize("mode", MODES)
def test_topologies_run_undisturbed(mode: str) -> None:
    """Without faults every topology ends in its first attempt, exactly, at-least-once included."""
    outcomes = [run_topology_without_faults(seed, mode) for seed in range(4)]
    assert failures(outcomes) == ""
    assert sum(run.outcome.restarts for run in outcomes) == 0
    assert sum(run.outcome.checkpoints for run in outcomes) >= len(outcomes)


@pytest.mark.parametrize("mode", MODES)
def test_topologies_survive_faults(mode: str) -> None:
    """Under every mix of faults the output, its order and the final state are right, and nothing is late."""
    outcomes = [run_topology(seed, mode) for seed in SEEDS]
    assert failures(outcomes) == ""
    assert sum(run.outcome.restarts for run in outcomes) > len(SEEDS) / 2
    assert (sum(run.in_flight for run in outcomes) > len(SEEDS)) == (mode in UNALIGNED)


@pytest.mark.ci
@pytest.mark.parametrize("mode", UNALIGNED)
def test_barriers_wait_for_those_that_come_behind_records(mode: str) -> None:
    """What overtakes must not stop the subtask that a late barrier needs in order to get through."""
    run = run_topology_without_faults(SPLIT_AND_JOINED, mode)
    assert failures([run]) == ""
    assert run.outcome.checkpoints > 5


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
def test_many_topologies_survive_faults(mode: str) -> None:
    """The same for many more."""
    assert failures([run_topology(seed, mode) for seed in SEEDS_LONG]) == ""


@pytest.mark.ci
@pytest.mark.parametrize(
    ("seed", "mode", "mix"), [(12_666, "timeout", "default"), (3_923, "timeout", "storage")]
)
def test_seeds_that_once_failed(seed: int, mode: str, mix: str) -> None:
    """Rescaled while one copy of a keyed function had seen the end of time and the others no time at all; a
    checkpoint that one subtask of an operator took aligned and the other unaligned.
    """
    assert failures([run_topology(seed, mode, MIXES[mix])]) == ""


def test_a_seed_decides_everything() -> None:
    """The same seed gives the same topology and the same trace; the command that is told names it."""
    first, again = run_topology(5, "aligned"), run_topology(5, "aligned")
    assert first.topology == again.topology
    assert first.outcome.digest == again.outcome.digest
    assert first.again == "python -m sim --jobs random --mode aligned --seed 5 --story"


@pytest.mark.ci
def test_topologies_are_diverse() -> None:
    """Seeds draw every verb, way to travel and width, and streams with and without order and alignment."""
    drawn = [draw_topology(seed) for seed in range(60)]
    steps = [step for topology in drawn for step in topology.steps]
    assert {step.verb for step in steps} == {
        *("source", "map", "plain", "filter", "flat_map", "split", "count", "quiet", "sink")
    }
    assert {step.notes for step in steps if step.verb == "map"} == {True, False}
    feeds = [feed for step in steps for feed in step.feeds]
    assert {feed.travel for feed in feeds} == {"", "rebalance", "broadcast"}
    assert {feed.tag for feed in feeds} == {None, "aside", "sums"}
    assert {step.parallelism for step in steps} == {1, 2, 3, 4}
    assert any(len(step.feeds) == 2 for step in steps)
    sinks = [stream for topology in drawn for stream in answer_of(topology).sinks.values()]
    assert {(stream.ordered, stream.free) for stream in sinks} >= {
        (True, True),
        (True, False),
        (False, False),
    }


@pytest.mark.ci
@pytest.mark.parametrize("bug", ["no barrier alignment", "source position off by one", *IN_FLIGHT_BUGS])
def test_planted_bugs_are_found(bug: str) -> None:
    """What the checks are there to find, they find, near the seed that is known to show it."""
    mode, first = ("unaligned", IN_FLIGHT_BUGS[bug].first) if bug in IN_FLIGHT_BUGS else ("aligned", 0)
    with planted(bug):
        seeds = range(first, first + SEEDS_MAX)
        assert any(run_topology(seed, mode).outcome.violation for seed in seeds)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", [3, pytest.param(14, marks=pytest.mark.ci)])
def test_topologies_on_the_mini_cluster(tmp_path: Path, mode: str, seed: int) -> None:
    """With real threads, sockets and files, and a function that raises after a checkpoint."""
    assert run_on_mini_cluster(draw_topology(seed), mode, tmp_path) > 0
