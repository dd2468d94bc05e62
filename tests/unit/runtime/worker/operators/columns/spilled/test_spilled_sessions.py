"""Sessions in RocksDB, whatever little of them is held in memory, are those that are held in memory alone."""

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
from headgate.runtime.worker.operators.columns.kept_windows import PANE, ROWS, Ended
from headgate.runtime.worker.operators.columns.panes import groups_of_rows
from headgate.runtime.worker.operators.columns.session_grouping import END, ENDS, SessionGrouping
from headgate.runtime.worker.operators.columns.sessions import SessionWindows
from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns
from headgate.runtime.worker.operators.columns.spilled.spill import Spill
from headgate.runtime.worker.operators.columns.spilled.spilled_sessions import SpilledSessions
from headgate.state.rocksdb.chunk_store import ChunkStore
from headgate.state.rocksdb.rocksdb_memory import RocksMemory
from headgate.state.targets import target_of

GAP, GROUPS = 10, 4
MEMORY = RocksMemory(8 << 20)
GROUPING = SessionGrouping((PANE, "k"), (ENDS, ("n", Accumulator("count", pa.int64(), "count_all", "sum"))))
KEYS, VALUES = pa.schema({"k": pa.string()}), pa.schema({END: pa.int64(), "n": pa.int64()})
Row = tuple[str, int]


class Held(NamedTuple):
    """The accumulators of a session."""

    end: int
    n: int


def sessions(folder: Path, memory: int) -> tuple[SpilledSessions, ChunkStore]:
    """Sessions without rows, and their store."""
    target = target_of(declared_state(windows_function("Windows", MapState[int, Held]))["windows"])
    made = iter([folder])
    chunks = ChunkStore(
        "windows", target, (0, GROUPS - 1), GROUPS, lambda: next(made), MEMORY, incremental=True
    )
    columns = ChunkColumns(KEYS, VALUES, GROUPS, placed=True, numbered=False)
    return SpilledSessions(Spill(chunks, columns, GROUPING.merged), GROUPING, 0, memory), chunks


def table(rows: list[Row]) -> pa.Table:
    """Each row by itself, as it comes in."""
    times = [time for _, time in rows]
    return pa.table(
        {
            PANE: pa.array(times, pa.int64()),
            "k": pa.array([key for key, _ in rows], pa.string()),
            END: pa.array([time + GAP for time in times], pa.int64()),
            "n": pa.array([1] * len(rows), pa.int64()),
            ROWS: pa.array([1] * len(rows), pa.int64()),
        }
    )


def listed(ended: Iterable[Ended]) -> list[Any]:
    """The sessions that have ended; where others may follow they are sent as of an earlier watermark."""
    found, sent = [], []
    for each in ended:
        rows = each.table.select(["k", PANE, END, "n"]).to_pylist()
        found += [tuple(row.values()) for row in rows]
        sent.append((each.ends - 1 if each.since is None else np.full(len(rows), each.since)).tolist())
        assert all(mark < end for mark, end in zip(sent[-1], each.ends.tolist(), strict=True))
    marks = [mark for each in sent for mark in each]
    assert marks == sorted(marks)
    return sorted(found)


def test_sessions_that_were_kept_for_late_rows_do_not_go_out_again(tmp_path: Path) -> None:
    """A program without lateness goes on from one that had some: ended sessions are in its state."""
    there, chunks = sessions(tmp_path / "s", 1)
    try:
        for each in (there, here := SessionWindows(GROUPING, 0, GROUPS)):
            each.of_group(0, 15).add(table([("a", 1), ("b", 9)]).drop_columns(ROWS))
        assert listed(there.reached(99)) == listed(here.reached(99)) == [("b", 9, 19, 1)]
    finally:
        chunks.close()


ROW = st.tuples(st.sampled_from("abcdef"), st.integers(-15, 30))
STEPS = st.lists(
    st.tuples(st.lists(ROW, max_size=6), st.integers(0, 12), st.booleans(), st.booleans()),
    min_size=1,
    max_size=25,
)


@pytest.mark.timeout(240)
@given(steps=STEPS, memory=st.sampled_from([1, 400, 1 << 20]))
@settings(max_examples=150, deadline=None)
def test_sessions_on_disk_are_those_in_memory(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[list[Row], int, bool, bool]],
    memory: int,
) -> None:
    """Rows about the watermark, late ones among them; now and then what is in memory is stored."""
    there, chunks = sessions(tmp_path_factory.mktemp("chunks") / "s", memory)
    here, mark = SessionWindows(GROUPING, 0, GROUPS), 0
    ahead = int(groups_of_rows(table([("b", 0)]), KEYS.names, GROUPS)[0])
    for each in (there, here):
        each.of_group(ahead, 20)
    try:
        for rows, step, spilled, stored in steps:
            if rows:
                batch = table([(key, mark + offset) for key, offset in rows])
                marks = np.full(len(rows), mark)
                assert there.add(batch, marks) == here.add(batch, marks)
            if spilled:
                there.spill()
            if stored:
                there.store_all()
                there.stored()
            mark += step
            assert listed(there.reached(mark)) == listed(here.reached(mark))
        assert listed(there.reached(WATERMARK_MAX)) == listed(here.reached(WATERMARK_MAX))
        assert not chunks
    finally:
        chunks.close()


def test_what_is_in_memory_is_bounded(tmp_path: Path) -> None:
    """Ten times the budget is open, and each watermark brings no more than a part of it back."""
    limit = 64_000
    windows, chunks = sessions(tmp_path / "s", limit)
    rows, most = 20_000, 0
    for start in range(0, rows, 1_000):
        batch = [(f"k{number}", number) for number in range(start, start + 1_000)]
        windows.add(table(batch), np.zeros(1_000, dtype=np.int64))
        most = max(most, windows._size())
    assert chunks.rows * 30 > 5 * limit
    ended = 0
    for mark in range(0, rows + GAP, 500):
        ended += sum(len(each.table) for each in windows.reached(mark))
        most = max(most, windows._size())
    ended += sum(len(each.table) for each in windows.reached(WATERMARK_MAX))
    assert ended == rows
    assert most < 3 * limit
    chunks.close()
