"""Random plans of corrected tables: at every mark a sink shows DuckDB's answer on the rows that it counts."""

from __future__ import annotations

import pytest

from sim.plans import campaign
from sim.plans.campaign import PART, run_plans
from sim.plans.drawing import HOWS, SETS, draw_plan
from sim.plans.plan import Chosen, Different, First, Grouped, Joined, Node, Over, United
from sim.plans.planted import PLAN_BUGS, planted_in_plans
from sim.plans.runs import run_plan

SEEDS = 8
SEEDS_LONG, SEEDS_TOGETHER = 1_000, 100
SEEDS_MAX = 400
"""A planted bug must be found within so many, counted from where it was found first: in most plans it does
nothing, and which plans show it moves with every change of how many turns an operator takes."""


def test_plans_give_the_answers_of_duckdb() -> None:
    """Some of the plans that follow, so that a change is told at once."""
    figures = run_plans(range(SEEDS))
    assert figures.stories == []
    assert figures.different > SEEDS


@pytest.mark.ci
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, SEEDS_LONG, SEEDS_TOGETHER))
def test_many_plans_give_the_answers_of_duckdb(first: int) -> None:
    """Under every way of taking checkpoints, with kills and other parallelisms."""
    figures = run_plans(range(first, first + SEEDS_TOGETHER))
    assert figures.stories == []
    assert figures.different > 2 * SEEDS_TOGETHER
    assert figures.checkpoints > SEEDS_TOGETHER
    assert figures.restores > SEEDS_TOGETHER / 10


@pytest.mark.ci
@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", sorted(PLAN_BUGS))
def test_planted_bugs_are_found(bug: str) -> None:
    """What the comparison is there to find, it finds, near the seed that is known to show it."""
    found = PLAN_BUGS[bug]
    with planted_in_plans(bug):
        seeds = range(found.first, found.first + SEEDS_MAX)
        assert any(run_plan(seed, found.mode).violation for seed in seeds)


def test_a_seed_decides_everything() -> None:
    """The same seed gives the same plan and the same run."""
    assert run_plan(5) == run_plan(5)


def test_plans_are_diverse() -> None:
    """Seeds draw every kind of node, join and set, tables that are read twice, and joins with themselves."""
    plans = [draw_plan(seed) for seed in range(200)]
    nodes: list[Node] = [node for plan in plans for node in plan.nodes]
    assert {type(node) for node in nodes} == {Chosen, Different, First, Grouped, Joined, Over, United}
    assert {node.how for node in nodes if isinstance(node, Joined)} == set(HOWS)
    assert {node.how for node in nodes if isinstance(node, United)} == set(SETS)
    assert any(len(set(node.inputs)) < len(node.inputs) for node in nodes)
    read = [[each for node in plan.nodes for each in set(node.inputs)] for plan in plans]
    assert sum(len(set(each)) < len(each) for each in read) > 20
    assert max(len(plan.nodes) for plan in plans) >= 7


@pytest.mark.ci
def test_a_campaign_goes_on_with_new_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each so many parts."""
    monkeypatch.setattr(campaign, "PARTS_OF_A_POOL", 1)
    parts = list(campaign.campaign(0, 4 * PART + 1, 2))
    assert [part.plans for part in parts] == [PART] * 4 + [1]
    assert not any(part.failed for part in parts)
