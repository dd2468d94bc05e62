"""Rows that wait for the end of their window, against a list."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.time import WATERMARK_MIN
from headgate.runtime.worker.operators.columns.kept_rows import KeptRows
from headgate.runtime.worker.operators.columns.kept_windows import PANE

GROUPS = 128
ROW = st.tuples(st.integers(0, 5), st.sampled_from("abc"))
Row = tuple[int, str]


def table(rows: list[Row]) -> pa.Table:
    """Rows as they come in."""
    return pa.table(
        {
            PANE: pa.array([pane for pane, _ in rows], pa.int64()),
            "k": pa.array([key for _, key in rows], pa.string()),
        }
    )


def listed(tables: list[pa.Table]) -> list[Row]:
    """Rows of tables, in order."""
    return [(row[PANE], row["k"]) for each in tables for row in each.to_pylist()]


@given(st.lists(st.tuples(st.lists(ROW, min_size=1, max_size=6), st.integers(-1, 5)), max_size=12))
def test_rows_come_out_when_their_window_ends(steps: list[tuple[list[Row], int]]) -> None:
    """In the order in which they came, by window; a snapshot has those that wait."""
    kept, mark, waiting = KeptRows(("k",), -1, GROUPS), -1, list[Row]()
    for rows, to in steps:
        late = [row for row in rows if row[0] <= mark]
        waiting += [row for row in rows if row[0] > mark]
        assert kept.add(table(rows), np.full(len(rows), mark)) == len(late)
        mark = max(mark, to)
        ended = sorted([row for row in waiting if row[0] <= mark], key=lambda row: row[0])
        waiting = [row for row in waiting if row[0] > mark]
        assert listed([each.table for each in kept.reached(mark)]) == ended
        (view,) = kept.at_snapshot()
        assert sorted(listed(list(view.tables()))) == sorted(waiting)


def test_many_small_batches_become_few_tables() -> None:
    """A table of one row takes kilobytes, and a long window gets very many of them."""
    kept = KeptRows(("k",), WATERMARK_MIN, GROUPS)
    rows = [(0, f"k{n}") for n in range(1_000)]
    for row in rows:
        kept.add(table([row]), np.full(1, WATERMARK_MIN))
    (view,) = kept.at_snapshot()
    tables = list(view.tables())
    assert len(tables) <= 12
    assert max(column.num_chunks for each in tables for column in each.columns) == 1
    assert listed(tables) == rows
