"""Panes against a dict, with tables added in any portions."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.relational.aggregating.accumulators import Accumulator
from headgate.relational.aggregating.grouping import Grouping
from headgate.relational.rules import RowsFailed
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.panes import Panes

COUNT, TOTAL, TOP = (
    Accumulator("count", pa.int64(), "count_all", "sum"),
    Accumulator("sum", pa.int64(), "sum", "sum"),
    Accumulator("max", pa.int64(), "max", "max"),
)
GROUPING = Grouping(("k",), (("n", COUNT), ("s", TOTAL), ("m", TOP)))
ROW = st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.one_of(st.none(), st.integers(-5, 5)))
Answer = dict[tuple[int, str], tuple[int, int | None, int | None]]


def accumulators(rows: list[tuple[int, str, int | None]]) -> pa.Table:
    """Each row by itself."""
    values = [value for *_, value in rows]
    return pa.table(
        {
            PANE: pa.array([pane for pane, *_ in rows], pa.int64()),
            "k": pa.array([key for _, key, _ in rows], pa.string()),
            "n": pa.array([1] * len(rows), pa.int64()),
            "s": pa.array(values, pa.int64()),
            "m": pa.array(values, pa.int64()),
        }
    )


def answer(rows: list[tuple[int, str, int | None]]) -> Answer:
    """By plain Python."""
    groups: dict[tuple[int, str], list[int | None]] = defaultdict(list)
    for pane, key, value in rows:
        groups[pane, key].append(value)
    known = {at: [value for value in values if value is not None] for at, values in groups.items()}
    return {
        at: (len(values), sum(known[at]) if known[at] else None, max(known[at], default=None))
        for at, values in groups.items()
    }


def found(panes: Panes) -> Answer:
    """What a snapshot would store."""
    return {
        (row[PANE], row["k"]): (row["n"], row["s"], row["m"])
        for table in panes.at_snapshot().tables()
        for row in table.to_pylist()
    }


@given(st.lists(st.lists(ROW, max_size=12), max_size=12))
def test_any_portions_give_one_row_for_each_key(portions: list[list[tuple[int, str, int | None]]]) -> None:
    """A snapshot taken on the way has what was there then, whatever came later."""
    panes, seen = Panes(GROUPING), list[tuple[int, str, int | None]]()
    view, then = panes.at_snapshot(), Answer()
    for number, portion in enumerate(portions):
        panes.add(accumulators(portion))
        seen += portion
        if number == len(portions) // 2:
            view, then = panes.at_snapshot(), answer(seen)
    assert found(panes) == answer(seen)
    kept = {(row[PANE], row["k"]): row["n"] for table in view.tables() for row in table.to_pylist()}
    assert kept == {at: n for at, (n, *_) in then.items()}
    if seen:
        merged = panes.merged(0, 4)
        assert merged.num_rows == len({key for _, key, _ in seen})
    panes.drop_before(2)
    assert found(panes) == {at: values for at, values in answer(seen).items() if at[0] >= 2}


def test_a_sum_that_does_not_fit_is_an_error() -> None:
    """Arrow's own sum would wrap around; one that fits again after all is no error."""
    panes = Panes(GROUPING)
    panes.add(accumulators([(0, "a", 2**62), (0, "a", 2**62), (0, "a", -(2**62))]))
    assert found(panes)[0, "a"][1] == 2**62
    panes.add(accumulators([(1, "a", 2**62), (1, "a", 2**62)]))
    with pytest.raises(RowsFailed, match="ARITHMETIC_OVERFLOW"):
        panes.starts()
