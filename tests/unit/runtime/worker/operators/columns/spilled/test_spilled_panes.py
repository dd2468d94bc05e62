"""Windows in RocksDB, whatever little of them is held in memory, are those that are held in memory alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.api.declared.keyed_states import MapState, declared_state
from headgate.api.tables.aggregation_state import windows_function
from headgate.common.time import WATERMARK_MAX
from headgate.relational.aggregating.accumulators import Accumulator
from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns.kept_rows import KeptRows
from headgate.runtime.worker.operators.columns.kept_windows import PANE, ROWS, Ended
from headgate.runtime.worker.operators.columns.paned_windows import PanedWindows
from headgate.runtime.worker.operators.columns.panes import groups_of_rows
from headgate.runtime.worker.operators.columns.spilled import spill as spill_module
from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns
from headgate.runtime.worker.operators.columns.spilled.spill import Spill
from headgate.runtime.worker.operators.columns.spilled.spilled_panes import SpilledPanes, SpilledRows
from headgate.runtime.worker.operators.columns.window_times import CumulativeTimes, PanedTimes, WindowTimes
from headgate.state.rocksdb.chunk_store import ChunkStore
from headgate.state.rocksdb.rocksdb_memory import RocksMemory
from headgate.state.targets import target_of

GROUPS = 16
MEMORY = RocksMemory(8 << 20)
KEYS, VALUES = pa.schema({"k": pa.string(), "j": pa.int64()}), pa.schema({"n": pa.int64(), "top": pa.int64()})
GROUPING = Grouping(
    ("k", "j"),
    (
        ("n", Accumulator("count", pa.int64(), "count_all", "sum")),
        ("top", Accumulator("max", pa.int64(), "max", "max")),
    ),
)
TIMES: list[PanedTimes] = [
    WindowTimes(20, 20, 0, 20),
    WindowTimes(30, 10, 3, 10),
    WindowTimes(25, 10, 0, 5),
    CumulativeTimes(40, 10, 0),
]


class Held(NamedTuple):
    """The accumulators of a key in a pane."""

    n: int
    top: int


Row = tuple[str, int, int, int]
ROW = st.tuples(
    st.sampled_from(["a", "b", "ä"]), st.integers(0, 3), st.integers(-30, 100), st.integers(-9, 9)
)


def store(folder: Path, incremental: bool = False) -> ChunkStore:
    """A store of the state of windows in a new folder."""
    target = target_of(declared_state(windows_function("Windows", MapState[int, Held]))["windows"])
    made = iter([folder])
    return ChunkStore(
        "windows", target, (0, GROUPS - 1), GROUPS, lambda: next(made), MEMORY, incremental=incremental
    )


def columns(*, placed: bool = False, numbered: bool = False) -> ChunkColumns:
    """The columns of the chunks of these tests."""
    return ChunkColumns(KEYS, VALUES, GROUPS, placed=placed, numbered=numbered)


def table(rows: list[Row], times: PanedTimes | None) -> pa.Table:
    """Each row by itself, as it comes in."""
    at = np.array([at for *_, at, _ in rows], dtype=np.int64)
    return pa.table(
        {
            PANE: pa.array(at if times is None else times.panes_of(at), pa.int64()),
            "k": pa.array([key for key, *_ in rows], pa.string()),
            "j": pa.array([key for _, key, *_ in rows], pa.int64()),
            "n": pa.array([1] * len(rows), pa.int64()),
            "top": pa.array([top for *_, top in rows], pa.int64()),
            ROWS: pa.array([1] * len(rows), pa.int64()),
        }
    )


def listed(ended: Iterable[Ended]) -> list[Any]:
    """The windows that have ended, in the order of their ends."""
    found = []
    for each in ended:
        shown = each.table.select(["k", "j", "n", "top"]).to_pylist()
        found += zip(each.ends.tolist(), each.starts.tolist(), map(str, shown), strict=True)
    ends = [end for end, *_ in found]
    assert ends == sorted(ends)
    return sorted(found)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Portions of few rows."""
    monkeypatch.setattr(spill_module, "PORTION_ROWS", 3)


STEPS = st.lists(
    st.tuples(st.lists(ROW, max_size=6), st.integers(0, 25), st.booleans()), min_size=1, max_size=15
)


@given(steps=STEPS, times=st.sampled_from(TIMES), memory=st.sampled_from([1, 300, 1 << 20]))
@settings(max_examples=60, deadline=None)
def test_panes_on_disk_are_those_in_memory(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[list[Row], int, bool]],
    times: PanedTimes,
    memory: int,
) -> None:
    """Rows in batches, watermarks between, and now and then everything is stored."""
    chunks = store(tmp_path_factory.mktemp("chunks") / "s")
    spill = Spill(chunks, columns(), Grouping((PANE, *GROUPING.keys), GROUPING.columns).merged)
    there, here = SpilledPanes(spill, GROUPING, times, 0, memory), PanedWindows(GROUPING, times, 0, GROUPS)
    ahead = int(groups_of_rows(table([("b", 1, 0, 0)], times), KEYS.names, GROUPS)[0])
    for each in (there, here):
        each.of_group(ahead, 40)
    mark = 0
    try:
        for rows, step, stored in steps:
            if rows:
                marks = np.full(len(rows), mark)
                batch = table(rows, times)
                assert there.add(batch, marks) == here.add(batch, marks)
            if stored:
                there.spill()
            mark += step
            assert listed(there.reached(mark)) == listed(here.reached(mark))
            assert there.ahead == here.ahead
        assert listed(there.reached(WATERMARK_MAX)) == listed(here.reached(WATERMARK_MAX))
        assert not chunks
        assert chunks.rows == 0
    finally:
        chunks.close()


@given(steps=STEPS, memory=st.sampled_from([1, 300, 1 << 20]))
@settings(max_examples=30, deadline=None)
def test_rows_on_disk_are_those_in_memory(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[list[Row], int, bool]], memory: int
) -> None:
    """Rows wait for the end of their window, also equal ones."""
    chunks = store(tmp_path_factory.mktemp("chunks") / "s")
    there = SpilledRows(Spill(chunks, columns(numbered=True), None), KEYS.names, 0, memory)
    here, mark = KeptRows(KEYS.names, 0, GROUPS), 0
    try:
        for rows, step, stored in steps:
            if rows:
                batch, marks = table(rows, None).drop_columns(ROWS), np.full(len(rows), mark)
                assert there.add(batch, marks) == here.add(batch, marks)
            if stored:
                there.spill()
            mark += step
            assert rows_of(there.reached(mark)) == rows_of(here.reached(mark))
        assert rows_of(there.reached(WATERMARK_MAX)) == rows_of(here.reached(WATERMARK_MAX))
    finally:
        chunks.close()


def rows_of(ended: Iterable[Ended]) -> list[str]:
    """All rows; which of a window come first is not said."""
    names = [PANE, "k", "j", "n", "top"]
    return sorted(str(row) for each in ended for row in each.table.select(names).to_pylist())


@pytest.mark.usefixtures("small")
def test_a_large_window_comes_in_portions(tmp_path: Path) -> None:
    """Of whole key groups, and together they are the window."""
    chunks, times = store(tmp_path / "s"), TIMES[0]
    spill = Spill(chunks, columns(), Grouping((PANE, *GROUPING.keys), GROUPING.columns).merged)
    windows = SpilledPanes(spill, GROUPING, times, 0, 1)
    rows: list[Row] = [("a", number, 5, number) for number in range(40)]
    windows.add(table(rows, times), np.zeros(40, dtype=np.int64))
    ended = list(windows.reached(19))
    assert len(ended) > 3
    assert sorted(key for each in ended for key in each.table.column("j").to_pylist()) == list(range(40))
    chunks.close()


def test_a_window_of_many_batches_has_few_chunks(tmp_path: Path) -> None:
    """A key that comes 100 times, each time stored at once."""
    chunks, times = store(tmp_path / "s"), TIMES[0]
    spill = Spill(chunks, columns(), Grouping((PANE, *GROUPING.keys), GROUPING.columns).merged)
    windows = SpilledPanes(spill, GROUPING, times, 0, 1)
    for number in range(100):
        windows.add(table([("a", 1, 5, number)], times), np.zeros(1, dtype=np.int64))
        windows.spill()
    group = int(groups_of_rows(table([("a", 1, 5, 0)], times), KEYS.names, GROUPS)[0])
    assert len(spill.tables(group, [0])) < 8
    (ended,) = windows.reached(19)
    assert ended.table.to_pylist() == [{"k": "a", "j": 1, "n": 100, "top": 99}]
    chunks.close()
