"""Interval joins of any order of rows, watermarks, snapshots and changes of the parallelism; as DuckDB."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timed_subtasks import STEPS, Planned, Row, Subtasks, answer, few_hashes, planned

import headgate.functions as F  # noqa: N812  # as PySpark's users write it

KINDS = ["inner", "left", "right", "full", "semi", "anti"]
BOUNDS = st.sampled_from([(0, 5), (-3, 4), (0, 0), (2, 6), (-7, -2), (-30, 30)])


def query(how: str, bounds: tuple[int, int], where: bool) -> str:
    """The join in SQL."""
    columns = (
        "l.k AS k, l_at, l_v" if how in ("semi", "anti") else "coalesce(l.k, r.k) AS k, l_at, l_v, r_at, r_v"
    )
    residual = "AND l_v < r_v" if where else ""
    interval = f"r_at BETWEEN l_at + ({bounds[0]}) AND l_at + ({bounds[1]})"
    return f"SELECT {columns} FROM l {how} JOIN r ON l.k = r.k AND {interval} {residual}"


@cache
def plan(how: str, bounds: tuple[int, int], where: bool) -> Planned:
    """The join in the program's words."""
    condition = F.col("l_v") < F.col("r_v") if where else None
    return planned(lambda left, right: left.join(right, "k", how, uid="j", within=bounds, where=condition))


def subtasks(how: str, bounds: tuple[int, int], where: bool) -> Subtasks:
    """The join in subtasks."""
    return Subtasks(plan(how, bounds, where))


@pytest.mark.parametrize("how", KINDS)
@settings(max_examples=40)
@given(steps=STEPS, bounds=BOUNDS, where=st.booleans())
def test_the_rows_that_are_not_late_are_joined_exactly(
    how: str, steps: list[Any], bounds: tuple[int, int], where: bool
) -> None:
    """With null, NaN and both zeros as keys, wherever snapshots fall; no result is late."""
    job = subtasks(how, bounds, where)
    job.play(steps)
    assert job.net == answer(query(how, bounds, where), job.taken)


@given(steps=STEPS, bounds=BOUNDS)
def test_rows_are_kept_as_long_as_a_partner_may_come(steps: list[Any], bounds: tuple[int, int]) -> None:
    """And no longer: as the watermarks of their key groups say."""
    job = subtasks("full", bounds, False)
    for step in steps:
        match step:
            case ("watermark", number, by):
                job.watermark(number, by)
            case ("restore", parallelism):
                job.restore(parallelism)
            case (side, rows):
                job.rows(side, rows)
    most = [
        sum(each.at + kept > min(job.marks) for each in rows)
        for rows, kept in zip(job.taken, job.node.join.kept_ms, strict=True)
    ]
    kept = [sum(operator._kept.sides[side].count for operator in job.operators) for side in (0, 1)]
    assert all(one <= other for one, other in zip(kept, most, strict=True))


def test_results_do_not_depend_on_the_order_of_both_inputs() -> None:
    """Rows that are not late, in two orders."""
    left = [Row(1.0, at, at % 3, 0) for at in range(20)]
    right = [Row(1.0, at, at % 2, 0) for at in range(20)]
    found = []
    for order in ([(0, left), (1, right)], [(1, right), (0, left)]):
        job = subtasks("full", (-2, 3), True)
        job.play(order)
        found.append(job.net)
    assert found[0] == found[1]


@given(steps=STEPS)
@settings(max_examples=30)
def test_keys_with_the_same_hash_are_told_apart(steps: list[Any]) -> None:
    """Here all keys have one of two hashes, of both kinds of joins by time."""
    with few_hashes():
        job = subtasks("full", (-3, 4), False)
        job.play(steps)
        assert job.net == answer(query("full", (-3, 4), False), job.taken)
        job = Subtasks(planned(lambda left, right: left.join_asof(right, "k", "inner", uid="j")))
        job.play(steps)
    last = "SELECT r_at, r_v FROM r WHERE r.k = l.k AND r_at <= l_at ORDER BY r_at DESC, r.n DESC LIMIT 1"
    columns = "k, l_at, l_v, r_at, r_v"
    assert job.net == answer(f"SELECT {columns} FROM l JOIN LATERAL ({last}) ON true", job.taken)
