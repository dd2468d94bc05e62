"""What changes of both sides of a join make of it, against a join of what is there, for all kinds of
joins.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.runtime.worker.operators.columns.updating.inner_rows import InnerRows
from headgate.runtime.worker.operators.columns.updating.joined_rows import ALONE, PAIRS, JoinedRows, Side
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT

NAMES = ("a", "b", "c")
KEYS = pa.schema({"k": pa.int64()})
SIDES = [pa.schema({name: pa.int64(), WEIGHT: pa.int64()}) for name in NAMES]
ROW = st.tuples(st.integers(0, 2), st.integers(0, 1))
STEPS = st.lists(st.tuples(st.lists(ROW, max_size=3), st.lists(ROW, max_size=3), st.randoms()), max_size=12)
STEPS_OF_THREE = st.lists(st.tuples(*[st.lists(ROW, max_size=3)] * 3, st.randoms()), max_size=12)
Rows = Counter[tuple[int, int]]


def joined(how: str, left: Rows, right: Rows) -> Counter[tuple[Any, ...]]:
    """The join of what is there."""
    found = Counter[tuple[Any, ...]]()
    partners = [Counter[int](), Counter[int]()]
    for side, rows in enumerate((left, right)):
        for (key, _), count in rows.items():
            partners[side][key] += count
    for (key, one), count in left.items():
        for (other, two), more in right.items():
            if key == other and how in PAIRS:
                found[key, one, two] += count * more
        if how in ("left", "full", "anti") and not partners[1][key]:
            found[key, one, None] += count
        if how == "semi" and partners[1][key]:
            found[key, one, None] += count
    for (key, two), count in right.items():
        if how in ("right", "full") and not partners[0][key]:
            found[key, None, two] += count
    return +found


def joined_three(tables: list[Rows]) -> Counter[tuple[Any, ...]]:
    """The inner join of three tables."""
    found = Counter[tuple[Any, ...]]()
    for (key, one), count in tables[0].items():
        for (other, two), more in tables[1].items():
            for (third, three), most in tables[2].items():
                if key == other == third:
                    found[key, one, two, three] += count * more * most
    return found


@pytest.mark.parametrize("how", ALONE)
@given(steps=STEPS)
def test_changes_lead_to_the_join(how: str, steps: list[Any]) -> None:
    """Rows that are there may be taken back, also within the batch that brings them."""
    state = InnerRows(KEYS, SIDES[:2]) if how == "inner" else JoinedRows(how, KEYS, SIDES[:2])
    there, net = [Rows(), Rows()], Counter[tuple[Any, ...]]()
    for *came, random in steps:
        _change(state, came, random, there, net)
        assert {row: count for row, count in net.items() if count} == joined(how, +there[0], +there[1])


@given(steps=STEPS_OF_THREE)
def test_changes_lead_to_the_join_of_three(steps: list[Any]) -> None:
    """Rows of any of them may be taken back."""
    state, there, net = InnerRows(KEYS, SIDES), [Rows(), Rows(), Rows()], Counter[tuple[Any, ...]]()
    for *came, random in steps:
        _change(state, came, random, there, net)
        expected = joined_three([+each for each in there])
        assert {row: count for row, count in net.items() if count} == expected


def _change(
    state: JoinedRows, came: list[Any], random: Any, there: list[Rows], net: Counter[tuple[Any, ...]]
) -> None:
    sides = []
    for side, rows in enumerate(came):
        changes = [(*row, 1) for row in rows]
        there[side].update(rows)
        gone = [row for row in there[side].elements() if random.random() < 0.4]
        there[side].subtract(gone)
        sides.append(_side(state, side, [*changes, *((*row, -1) for row in gone)]))
    for found in state.change(*sides):
        keys = state.keys.keys(found.numbers).column("k").to_pylist()
        columns = [
            [None] * len(keys) if rows is None else rows.column(name).to_pylist()
            for name, rows in zip(NAMES, found.sides, strict=False)
        ]
        for *row, weight in zip(keys, *columns, found.weights.tolist(), strict=True):
            net[tuple(row)] += weight


def _side(state: JoinedRows, side: int, changes: list[tuple[int, int, int]]) -> Side:
    keys, values, weights = (
        (list(column) for column in zip(*changes, strict=True)) if changes else ([], [], [])
    )
    rows = pa.table([pa.array(values, pa.int64()), pa.array(weights, pa.int64())], schema=SIDES[side])
    return Side(rows, state.keys.of(pa.table([pa.array(keys, pa.int64())], schema=KEYS)))
