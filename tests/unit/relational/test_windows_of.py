"""The windows of rows against their definition."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.relational.resolved import Column, WindowsOf
from headgate.relational.spark_types import TIMESTAMP, WINDOW
from headgate.relational.windows_of import windows_of
from headgate.testing import MiniCluster

TIMES = st.lists(st.one_of(st.none(), st.integers(-200, 200)), max_size=6)
KIND = pa.list_(pa.field("element", WINDOW, False))


def found(
    times: list[int | None], size: int, slide: int, offset: int, grow: bool
) -> list[list[tuple[int, int]] | None]:
    """Start and end of the windows of each time, in microseconds."""
    column = Column(TIMESTAMP, True, 0, "at")
    wanted = WindowsOf(KIND, True, child=column, size=size, slide=slide, offset=offset, grow=grow)
    made = windows_of(wanted, pa.array(times, pa.int64()).cast(TIMESTAMP), len(times))
    made.validate(full=True)
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    step = dt.timedelta(microseconds=1)
    return [
        None if row is None else [((w["start"] - epoch) // step, (w["end"] - epoch) // step) for w in row]
        for row in made.to_pylist()
    ]


@given(TIMES, st.integers(1, 30), st.integers(1, 30), st.integers(0, 40))
def test_sliding_windows_have_their_times(
    times: list[int | None], size: int, slide: int, offset: int
) -> None:
    """All windows that begin at a multiple of the slide, moved by the offset, and have the time."""
    slide = min(size, slide)
    starts = range(-300 * slide + offset, 300 * slide + offset, slide)
    expected = [
        None if time is None else [(s, s + size) for s in starts if s <= time < s + size] for time in times
    ]
    assert found(times, size, slide, offset, grow=False) == expected


@given(TIMES, st.integers(1, 6), st.integers(1, 6), st.integers(0, 40))
def test_windows_that_grow_have_their_times(
    times: list[int | None], step: int, steps: int, offset: int
) -> None:
    """Those that begin with the time's longest one, and end after it."""
    size = step * steps

    def windows(time: int) -> list[tuple[int, int]]:
        start = (time - offset) // size * size + offset
        return [(start, end) for end in range(start + step, start + size + 1, step) if end > time]

    expected = [None if time is None else windows(time) for time in times]
    assert found(times, size, step, offset, grow=True) == expected


def test_rows_get_a_row_for_each_window() -> None:
    """Beside other columns; a row without a time has no window, and a session is known at its end only."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    rows = [{"at": 1_500, "n": 1}, {"at": None, "n": 2}]
    table = env.from_collection(rows).to_table(pa.schema({"at": pa.int64(), "n": pa.int64()}))
    moments = [dt.datetime(1970, 1, 1, 0, 0, second, tzinfo=dt.UTC) for second in range(4)]
    assert table.select("n", F.window("at", "2s", "1s")).collect() == [
        {"n": 1, "window": {"start": moments[0], "end": moments[2]}},
        {"n": 1, "window": {"start": moments[1], "end": moments[3]}},
    ]
    windows = table.select(F.window("at", "1s").alias("w")).select(F.window_time("w").alias("last"))
    assert windows.collect() == [{"last": moments[2] - dt.timedelta(microseconds=1)}]
    with pytest.raises(hg.PlanError, match="is known when it ends; it goes into group_by"):
        table.select(F.session_window("at", "1s"))
