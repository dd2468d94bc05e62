"""As-of joins of any order of rows, watermarks, snapshots and changes of the parallelism; as DuckDB."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timed_subtasks import STEPS, Planned, Row, Subtasks, answer, planned

NEAREST = {
    "backward": ("r_at {less} l_at", "r_at DESC"),
    "forward": ("l_at {less} r_at", "r_at"),
    "nearest": ("(r_at {less} l_at OR l_at {less} r_at)", "abs(r_at - l_at), r_at"),
}
"""What a partner has to meet, and which comes first."""


@cache
def plan(how: str, direction: str, tolerance: int | None, exact: bool) -> Planned:
    """The join in the program's words."""
    words: Any = {"direction": direction, "tolerance": tolerance, "exact": exact}
    return planned(lambda left, right: left.join_asof(right, "k", how, uid="j", **words))


def subtasks(
    how: str, direction: str = "backward", tolerance: int | None = None, exact: bool = True
) -> Subtasks:
    """The join in subtasks."""
    return Subtasks(plan(how, direction, tolerance, exact))


def query(how: str, direction: str, tolerance: int | None, exact: bool) -> str:
    """The join in SQL, with the one that came last among those of one time."""
    condition, order = NEAREST[direction]
    near = "" if tolerance is None else f"AND abs(r_at - l_at) <= {tolerance}"
    first = (
        f"SELECT r_at, r_v FROM r WHERE r.k = l.k AND {condition.format(less='<=' if exact else '<')} {near} "
        f"ORDER BY {order}, r.n DESC LIMIT 1"
    )
    return f"SELECT k, l_at, l_v, r_at, r_v FROM l {how} JOIN LATERAL ({first}) ON true"


@pytest.mark.parametrize("direction", NEAREST)
@pytest.mark.parametrize("how", ["left", "inner"])
@settings(max_examples=40)
@given(steps=STEPS, tolerance=st.sampled_from([0, 2, 5, None]), exact=st.booleans())
def test_each_row_has_the_nearest_one_of_those_that_are_not_late(
    how: str, direction: str, steps: list[Any], tolerance: int | None, exact: bool
) -> None:
    """With null, NaN and both zeros as keys, wherever snapshots fall; no result is late."""
    if tolerance is None and direction != "backward":
        tolerance = 20
    job = subtasks(how, direction, tolerance, exact)
    job.play(steps)
    assert job.net == answer(query(how, direction, tolerance, exact), job.taken)


@settings(max_examples=40)
@given(steps=STEPS)
def test_it_is_the_as_of_join_of_duckdb(steps: list[Any]) -> None:
    """Rows of a side with equal key and time are equal there, as DuckDB takes any of them."""
    same = [
        (step[0], [row._replace(value=row.at % 4) for row in step[1]]) if step[0] in (0, 1) else step
        for step in steps
    ]
    job = subtasks("inner")
    job.play(same)
    columns = "l.k AS k, l_at, l_v, r_at, r_v"
    assert job.net == answer(f"SELECT {columns} FROM l ASOF JOIN r ON l.k = r.k AND l_at >= r_at", job.taken)


def test_old_versions_are_dropped_behind_the_watermark() -> None:
    """Of rows that replace each other, fewer are kept than a few of each key, however many come."""
    job = subtasks("left")
    for at in range(0, 4_000, 10):
        job.rows(1, [Row(float(key), at + 5, at, 0) for key in range(4)])
        job.watermark(0, 10)
    (operator,) = job.operators
    assert operator._kept.sides[1].count < 4 * 8


def test_with_a_tolerance_keys_are_forgotten() -> None:
    """Rows of keys that never come again go, too."""
    job = subtasks("left", tolerance=20)
    for at in range(0, 1_000, 10):
        job.rows(1, [Row(float(at), at + 5, at, 0)])
        job.watermark(0, 10)
    (operator,) = job.operators
    assert operator._kept.sides[1].count <= 3
