"""The cases of the proof of `headgate why` are the same each time, and wrong answers count as wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.core.bottleneck.findings import Kind
from headgate.testing import MiniCluster
from proof.bottleneck_cases import HEALTHY, MAKERS, Case, case_of
from proof.bottlenecks import EACH, FIRST_SEED, HEALTHY_CASES, Outcome, planned, summary


def answer(case: Case, **changes: Any) -> dict[str, Any]:
    """The right one, with changes."""
    named = {"uid": next(iter(case.uids), None), "worker": next(iter(case.workers), 0)}
    return {"kind": str(case.kind), "text": "", **named, **changes}


def test_every_kind_is_planted() -> None:
    """But for the one that says that the cause is none of the others; and the proof has 60 cases."""
    assert {*MAKERS} == {*Kind} - {Kind.BUSY} | {HEALTHY}
    cases = planned(EACH, FIRST_SEED, list(MAKERS))
    assert len(cases) == EACH * (len(MAKERS) - 1) + HEALTHY_CASES == 60
    assert min(case.seed for case in cases) == FIRST_SEED == 1_000


@pytest.mark.parametrize("kind", MAKERS)
def test_a_seed_brings_a_case_back(kind: str, tmp_path: Path) -> None:
    """With its place and strength; another seed is another case, and each can be planned."""
    first, again, others = case_of(kind, 7), case_of(kind, 7), [case_of(kind, seed) for seed in range(20)]
    assert (first.strength, first.uids, first.workers) == (again.strength, again.uids, again.workers)
    assert first.shape.rate == again.shape.rate
    assert len({case.strength for case in others if case.strength}) > 1
    for case in others:
        plan = case.shape.build(MiniCluster(), tmp_path).plan()
        uids = {node.known_as for vertex in plan.vertices for node in vertex.chain}
        assert {*case.uids} <= uids
        assert all(worker < case.shape.parallelism for worker in case.workers)


def test_only_the_right_kind_at_the_right_place_is_right() -> None:
    """Of an operator, and of a worker."""
    function, worker = case_of(Kind.FUNCTION, 1), case_of(Kind.WORKER, 1)
    assert function.right(answer(function))
    assert not function.right(answer(function, kind="slow sink"))
    assert not function.right(answer(function, uid="read"))
    assert worker.right(answer(worker))
    assert not worker.right(answer(worker, worker=worker.workers[0] + 1))


def test_too_few_right_answers_are_not_enough() -> None:
    """In all, and of each kind; no answer is a wrong one."""
    cases = [case_of(kind, seed) for kind in MAKERS for seed in range(5)]
    good = [Outcome(case, answer(case), 1.0) for case in cases]
    assert summary(good)["enough"]
    assert summary([*good[:-2], *(Outcome(case, {}, 1.0, "no") for case in cases[-2:])])["enough"]
    lost = summary([*good[:-3], *(Outcome(case, {}, 1.0, "no") for case in cases[-3:])])
    assert (lost["enough"], lost["right_of_kind"]["none"], lost["right"]) == (False, 0.4, 52)
    everywhere = [Outcome(case, {} if case.seed == 0 else answer(case), 1.0, "no") for case in cases]
    assert summary(everywhere)["right"] == 44
    assert not summary(everywhere)["enough"]
