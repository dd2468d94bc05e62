"""Sessions against a list, with rows in any portions, late ones among them."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.relational.aggregating.accumulators import Accumulator
from headgate.runtime.worker.operators.columns.kept_windows import PANE, ROWS, Ended
from headgate.runtime.worker.operators.columns.panes import groups_of_rows, hashes_of_rows
from headgate.runtime.worker.operators.columns.session_grouping import END, ENDS, SessionGrouping
from headgate.runtime.worker.operators.columns.sessions import SessionWindows

GAP, GROUPS = 10, 128
COUNT = ("n", Accumulator("count", pa.int64(), "count_all", "sum"))
GROUPING = SessionGrouping((PANE, "k", "j"), (ENDS, COUNT))
ROW = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 1), st.integers(0, 200))
Row = tuple[str, int, int]


class Session(NamedTuple):
    """A session of the model."""

    key: tuple[str, int]
    start: int
    end: int
    rows: int


def table(rows: list[Row]) -> pa.Table:
    """Each row by itself, as it comes in."""
    times = [time for *_, time in rows]
    return pa.table(
        {
            PANE: pa.array(times, pa.int64()),
            "k": pa.array([key for key, *_ in rows], pa.string()),
            "j": pa.array([key for _, key, _ in rows], pa.int64()),
            END: pa.array([time + GAP for time in times], pa.int64()),
            "n": pa.array([1] * len(rows), pa.int64()),
            ROWS: pa.array([1] * len(rows), pa.int64()),
        }
    )


def sessions_of(rows: list[Row]) -> list[Session]:
    """The batch answer: a session goes on while pauses are not longer than the gap."""
    by_key: dict[tuple[str, int], list[int]] = defaultdict(list)
    for key, other, time in rows:
        by_key[key, other].append(time)
    found = []
    for key, times in by_key.items():
        run: list[int] = []
        for time in sorted(times):
            if run and time - run[-1] > GAP:
                found.append(Session(key, run[0], run[-1] + GAP, len(run)))
                run = []
            run.append(time)
        found.append(Session(key, run[0], run[-1] + GAP, len(run)))
    return sorted(found)


def listed(ended: list[Ended]) -> list[Session]:
    """The sessions that have ended."""
    found = []
    for each in ended:
        assert each.ends.tolist() == sorted(each.ends.tolist())
        rows = each.table.to_pylist()
        assert [row[PANE] for row in rows] == each.starts.tolist()
        found += [Session((row["k"], row["j"]), row[PANE], row[END], row["n"]) for row in rows]
    return sorted(found)


def stored(windows: SessionWindows) -> list[Session]:
    """What a snapshot holds."""
    rows = [row for view in windows.at_snapshot() for part in view.tables() for row in part.to_pylist()]
    return sorted(Session((row["k"], row["j"]), row[PANE], row[END], row["n"]) for row in rows)


@given(st.lists(st.lists(ROW, max_size=8), max_size=10))
def test_sessions_are_those_of_the_batch_answer(portions: list[list[Row]]) -> None:
    """Whatever the order of rows; a snapshot has each open session once."""
    windows, seen = SessionWindows(GROUPING, WATERMARK_MIN, GROUPS), list[Row]()
    for portion in portions:
        seen += portion
        if portion:
            assert windows.add(table(portion), np.full(len(portion), WATERMARK_MIN)) == 0
    assert stored(windows) == sessions_of(seen)
    assert listed(windows.reached(WATERMARK_MAX)) == sessions_of(seen)
    assert stored(windows) == []


@given(st.lists(st.tuples(ROW, st.integers(0, 30)), max_size=40))
def test_sessions_end_with_the_watermark(steps: list[tuple[Row, int]]) -> None:
    """Row by row, after each a higher watermark: a late row is taken in if it meets an open session."""
    windows, mark = SessionWindows(GROUPING, 0, GROUPS), 0
    open_rows: list[Row] = []
    late, gone, expected_late, expected = 0, list[Session](), 0, list[Session]()
    for row, step in steps:
        late += windows.add(table([row]), np.array([mark]))
        key, other, time = row
        alone = Session((key, other), time, time + GAP, 1)
        if alone.end - 1 <= mark and not any(meets(alone, each) for each in sessions_of(open_rows)):
            expected_late += 1
        else:
            open_rows.append(row)
        mark += step
        gone += listed(windows.reached(mark))
        over = [each for each in sessions_of(open_rows) if each.end - 1 <= mark]
        expected += over
        open_rows = [row for row in open_rows if not any(within(row, each) for each in over)]
        assert stored(windows) == sessions_of(open_rows)
    assert (late, gone) == (expected_late, expected)


def meets(one: Session, other: Session) -> bool:
    """Whether two sessions of one key overlap or touch."""
    return one.key == other.key and one.start <= other.end and other.start <= one.end


def within(row: Row, session: Session) -> bool:
    """Whether a row is one of a session's."""
    return session.key == row[:2] and session.start <= row[2] <= session.end


def test_rows_are_as_late_for_a_group_as_they_were() -> None:
    """A group that stood at 50 has sent its sessions out until then; the subtask begins at 20."""
    rows = [("a", 0, 25), ("b", 0, 25)]
    slow, fast = (int(group) for group in groups_of_rows(table(rows), ("k", "j"), GROUPS))
    windows = SessionWindows(GROUPING, 20, GROUPS)
    windows.of_group(fast, 50).add(table([("b", 0, 45)]).drop_columns(ROWS))
    windows.of_group(slow, 20).add(table([("a", 0, 15)]).drop_columns(ROWS))
    assert windows.ahead == [(fast, 50)]
    assert windows.add(table(rows), np.array([20, 20])) == 1
    assert listed(windows.reached(40)) == [Session(("a", 0), 15, 35, 2)]
    assert listed(windows.reached(60)) == [Session(("b", 0), 45, 55, 1)]
    assert windows.ahead == []


def test_an_early_row_joins_two_sessions() -> None:
    """Rows of one key in three tables, of which the last lies between the others."""
    windows = SessionWindows(GROUPING, 0, GROUPS)
    for time in (20, 40, 30):
        windows.add(table([("a", 0, time)]), np.array([0]))
    assert listed(windows.reached(49)) == [Session(("a", 0), 20, 50, 3)]


def test_a_view_of_no_session_has_no_rows() -> None:
    """As a live query asks for a key that has no open session, while others have one."""
    windows = SessionWindows(GROUPING, 0, GROUPS)
    windows.add(table([("a", 0, 20)]), np.array([0]))
    (view,) = windows.at_snapshot()
    none = view.where(lambda rows: np.zeros(len(rows), dtype=np.bool_))
    assert sum(len(part) for part in none.tables()) == 0


def test_keys_of_one_hash_stay_apart() -> None:
    """Two numbers of 64 bits that fold to one hash, in sessions that overlap, beside a key alone."""
    grouping = SessionGrouping((PANE, "k"), (ENDS, COUNT))
    keys, times = [1 << 33, 2, 7, 1 << 33, 2], [0, 3, 4, 6, 20]
    columns = {PANE: times, "k": keys, END: [time + GAP for time in times], "n": [1] * 5}
    rows = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    assert hashes_of_rows(rows, ("k",))[:2].tolist() == [2, 2]
    found = sorted(tuple(row.values()) for row in grouping.merged(rows).to_pylist())
    assert found == [(0, 1 << 33, 16, 2), (3, 2, 13, 1), (4, 7, 14, 1), (20, 2, 30, 1)]
