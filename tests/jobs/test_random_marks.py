"""Whole simulated jobs with corrected tables: what their sinks show is exact, whatever fails."""

from __future__ import annotations

import pytest

from headgate.testing.simulation.faults import MIXES, NO_FAULTS
from sim.campaign import Tally, Wanted, run_part
from sim.plans.planted import planted_in_plans
from sim.plans.whole_jobs import NODES_MAX, draw_job, run_marks
from sim.topology_runs import MODES

SEEDS = range(3)
SEEDS_CI, SEEDS_PROOF, TOGETHER = 500, 5_000, 100
SEEDS_MAX = 60
"""A planted bug must be found within so many, counted from where it was found first."""
WHOLE_BUGS = {
    "a gate passes the first channel's mark on": (None, 0),
    "a restore loses what came since the last mark": ("unaligned", 0),
    "a sink writes before a mark follows": ("unaligned", 0),
    "a sink's snapshot lacks what came since the last mark": ("unaligned", 30),
    "a barrier that overtakes is a mark": ("unaligned", 0),
    "counts of rows are not restored": (None, 0),
}
"""Of `PLAN_BUGS`, what whole jobs show, too: the way of taking checkpoints, and where a search begins."""


@pytest.mark.parametrize("mode", MODES)
def test_corrected_tables_run_undisturbed(mode: str) -> None:
    """Without faults every answer is exact, at-least-once included, and some differ."""
    runs = [run_marks(seed, mode, NO_FAULTS) for seed in SEEDS]
    assert [run.tell() for run in runs if run.outcome.violation] == []
    assert sum(run.answers for run in runs) > len(SEEDS)
    assert sum(run.outcome.restarts for run in runs) == 0


@pytest.mark.parametrize("mode", MODES)
def test_corrected_tables_survive_faults(mode: str) -> None:
    """No sink shows a part of a mark's changes, one twice, or an answer of other rows than its counts."""
    runs = [run_marks(seed, mode, MIXES["rescales"]) for seed in SEEDS]
    assert [run.tell() for run in runs if run.outcome.violation] == []


def simulated(first: int) -> Tally:
    """Some seeds, with the modes and mixes of faults that they draw."""
    return run_part(range(first, first + TOGETHER), Wanted("marks"))


@pytest.mark.ci
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, SEEDS_CI, TOGETHER))
def test_many_jobs_with_corrected_tables_survive_faults(first: int) -> None:
    """The same for more, in every mode, under every mix of faults."""
    tally = simulated(first)
    assert [story for _, story in tally.failures] == []
    assert tally.counts["faults"] > TOGETHER


@pytest.mark.proof
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(SEEDS_CI, SEEDS_CI + SEEDS_PROOF, TOGETHER))
def test_very_many_jobs_with_corrected_tables_survive_faults(first: int) -> None:
    """The same for many more."""
    assert [story for _, story in simulated(first).failures] == []


@pytest.mark.ci
@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", sorted(WHOLE_BUGS))
def test_planted_bugs_are_found_in_whole_jobs(bug: str) -> None:
    """What the checks are there to find, they find, near the seed that is known to show it."""
    mode, first = WHOLE_BUGS[bug]
    with planted_in_plans(bug):
        runs = (run_marks(seed, mode) for seed in range(first, first + SEEDS_MAX))
        assert any(run.outcome.violation for run in runs)


def test_a_seed_decides_everything() -> None:
    """The same seed gives the same job and the same trace; the command that is told names it."""
    first, again = run_marks(1, "unaligned"), run_marks(1, "unaligned")
    assert first.topology == again.topology
    assert first.outcome.digest == again.outcome.digest
    assert first.again == "python -m sim --jobs marks --mode unaligned --seed 1 --story"


def test_jobs_are_diverse_and_short() -> None:
    """Seeds draw sinks that cost time, every parallelism, and plans of a few nodes."""
    drawn = [draw_job(seed) for seed in range(100)]
    assert {width for _, width, _, _ in drawn} == {1, 2, 3}
    assert {spent > 0 for _, _, spent, _ in drawn} == {True, False}
    assert max(len(plan.nodes) for plan, _, _, _ in drawn) == NODES_MAX
