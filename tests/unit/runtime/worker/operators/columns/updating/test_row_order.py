"""The order of rows by integers, against Python's sort, and lists of keys against a dict."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.relational.relations import Order
from headgate.runtime.worker.operators.columns.updating.by_key.key_runs import KeyRuns, Lists
from headgate.runtime.worker.operators.columns.updating.by_key.packed_sort import (
    distinct,
    key_integers,
    sorted_by,
)
from headgate.runtime.worker.operators.columns.updating.ranked.row_order import first_rows

ENDS = [-(2**63), -(2**63) + 1, -(2**63) + 2, 2**63 - 1]
INTEGERS = st.sampled_from([*ENDS, -1, 0, 1, 2**40])
SCHEMA = pa.schema(
    {"k": pa.string(), "i": pa.int64(), "f": pa.float64(), "s": pa.string(), "at": pa.timestamp("us")}
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.none() | INTEGERS,
        st.sampled_from([None, -math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan]),
        st.none() | st.sampled_from(["", "x", "xx", "y"]),
        st.none() | st.integers(0, 2),
    ),
    max_size=12,
)
ORDERS = st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=4)


def rank_of(value: Any) -> tuple[Any, ...]:
    # Null is least, NaN greatest.
    if value is None:
        return (0,)
    return (2,) if value != value else (1, value)


@settings(max_examples=300)
@given(ROWS, ORDERS, st.integers(1, 13))
def test_the_first_rows_are_those_of_pythons_sort(
    rows: list[tuple[Any, ...]], order: list[tuple[int, bool]], n: int
) -> None:
    """With integers at both ends, null, NaN, both zeros, texts, and ties, which keep their order."""
    columns = list(zip(*rows, strict=True)) if rows else [[] for _ in SCHEMA]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    keys = key_integers(table.select(["k"]))
    found = first_rows(table, keys, [Order(*each) for each in order], n)
    expected = list(range(len(rows)))
    for place, descending in reversed(order):  # Python's sort keeps equal rows in order, reversed or not
        expected.sort(key=lambda row: rank_of(rows[row][place]), reverse=descending)
    for key in "ab":
        mine = [row for row in expected if rows[row][0] == key][:n]
        at = [i for i, row in enumerate(found.rows.tolist()) if rows[row][0] == key]
        assert [int(found.rows[i]) for i in at] == mine
        assert [int(found.places[i]) for i in at] == list(range(1, len(mine) + 1))


@pytest.mark.parametrize("descending", [False, True])
def test_the_least_integers_are_told_apart(descending: bool) -> None:
    """Although two of them and null have two codes."""
    values = [ENDS[1], None, ENDS[0], ENDS[2]]
    table = pa.table({"i": pa.array(values, pa.int64()), "n": [1, 1, 2, 1]})
    order = [Order(0, descending), Order(1, False)]
    found = first_rows(table, [np.zeros(4, np.int64)], order, 4).rows.tolist()
    assert found == ([3, 0, 2, 1] if descending else [1, 2, 0, 3])


@given(st.lists(st.tuples(INTEGERS, INTEGERS, st.integers(0, 2)), max_size=30), st.integers(1, 3))
def test_packed_columns_are_sorted_as_by_all(rows: list[tuple[int, ...]], count: int) -> None:
    """Whether they fit into one integer or not; which rows are like the one before is known."""
    columns = [np.array([row[place] for row in rows], np.int64) for place in range(count)]
    found, same = sorted_by(columns)
    assert found.tolist() == np.lexsort(columns[::-1]).tolist()
    ordered = [tuple(int(each[row]) for each in columns) for row in found]
    assert same.tolist() == [i > 0 and ordered[i] == ordered[i - 1] for i in range(len(ordered))]
    assert distinct(columns[0]).tolist() == sorted(set(columns[0].tolist()))


def joined(lists: Iterable[list[int]]) -> Any:
    return np.array([*chain(*lists)], np.int64)


LISTS = st.dictionaries(st.integers(0, 3000), st.lists(st.integers(0, 9), max_size=4), max_size=5)


@given(st.lists(LISTS, max_size=20))
def test_lists_of_keys_are_replaced(steps: list[dict[int, list[int]]]) -> None:
    """A batch of keys at a time."""
    runs, expected = KeyRuns(), dict[int, list[int]]()
    for step in steps:
        keys = np.array(sorted(step), np.int64)
        lists = [step[key] for key in sorted(step)]
        runs.put(keys, Lists(np.array([*map(len, lists)], np.int64), joined(lists)))
        expected |= step
    asked = np.array([*expected, 3001], np.int64)
    found = runs.of(asked)
    assert found.counts.tolist() == [*map(len, expected.values()), 0]
    assert found.values.tolist() == joined(expected.values()).tolist()
    assert runs.count == sum(map(len, expected.values()))


def test_lists_that_are_replaced_often_are_written_anew() -> None:
    """What they were before takes no room for long."""
    runs, keys = KeyRuns(), np.arange(1000)
    for step in range(50):
        runs.put(keys, Lists(np.full(1000, 2), np.arange(2000) + step))
    assert runs.of(np.array([7, 3])).values.tolist() == [63, 64, 55, 56]
    assert runs.at(np.array([999]), 1).tolist() == [1999 + 49]
    assert runs.all().counts[:1000].tolist() == [2] * 1000
