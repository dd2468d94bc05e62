"""Functions of arrays and maps: nulls among elements, NaN and -0.0, places from the end, slices."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_call import column, typed

from headgate.relational.evaluation import evaluate
from headgate.relational.rules import RowsFailed
from headgate.relational.spark_types import text_of

INTS = pa.list_(pa.int64())
LISTS = st.lists(st.none() | st.lists(st.none() | st.integers(0, 3), max_size=5), min_size=1, max_size=6)


def pair(function: str, one: list[Any], other: list[Any]) -> list[Any]:
    """What a function gives for two columns of arrays."""
    found: list[Any] = evaluate(*typed(function, a=pa.array(one, INTS), b=pa.array(other, INTS))).to_pylist()
    return found


def test_null_among_elements_may_be_what_is_looked_for() -> None:
    """So the answer is unknown, where it is not found among the others."""
    given_arrays = pa.array([[1, None], [2, None], [2], [], None], INTS)
    assert column("array_contains", given_arrays, 1) == [True, None, False, False, None]
    assert column("array_position", given_arrays, 2) == [0, 1, 1, 0, None]
    assert column("array_remove", given_arrays, 2) == [[1, None], [None], [], [], None]


@given(LISTS, st.data())
def test_sets_of_elements(one: list[Any], data: st.DataObject) -> None:
    """As Python has them, with null as an element, in the order of the first array."""
    other = [data.draw(st.none() | st.lists(st.none() | st.integers(0, 3), max_size=5)) for _ in one]
    both = [None if None in (a, b) else (a, b) for a, b in zip(one, other, strict=True)]
    assert pair("array_union", one, other) == [
        None if p is None else list(dict.fromkeys(p[0] + p[1])) for p in both
    ]
    assert pair("array_except", one, other) == [
        None if p is None else [each for each in dict.fromkeys(p[0]) if each not in p[1]] for p in both
    ]
    assert pair("array_intersect", one, other) == [
        None if p is None else [each for each in dict.fromkeys(p[0]) if each in p[1]] for p in both
    ]
    assert pair("concat", one, other) == [None if p is None else p[0] + p[1] for p in both]


@given(LISTS)
def test_order(one: list[Any]) -> None:
    """Nulls come first upwards in `sort_array`, and last in `array_sort`."""
    known = [None if each is None else sorted(e for e in each if e is not None) for each in one]
    nulls = [0 if each is None else each.count(None) for each in one]
    first = [None if k is None else [None] * n + k for k, n in zip(known, nulls, strict=True)]
    last = [None if k is None else k + [None] * n for k, n in zip(known, nulls, strict=True)]
    assert column("sort_array", pa.array(one, INTS)) == first
    assert column("array_sort", pa.array(one, INTS)) == last
    assert column("array_max", pa.array(one, INTS)) == [k[-1] if k else None for k in known]
    assert column("reverse", pa.array(one, INTS)) == [None if each is None else each[::-1] for each in one]


def test_nan_is_the_largest_and_equals_itself() -> None:
    """And 0.0 equals -0.0."""
    doubles = pa.array([[1.0, math.nan, 2.0], [0.0, -0.0, None]], pa.list_(pa.float64()))
    greatest = column("array_max", doubles)
    assert math.isnan(greatest[0])
    assert greatest[1] == 0.0
    assert column("array_contains", doubles, math.nan) == [True, None]
    assert column("array_distinct", doubles)[1] == [0.0, None]


def test_slices_of_a_batch_have_their_own_elements() -> None:
    """Arrow keeps the elements of the rows before."""
    arrays = pa.array([[1, 2], [3], None, [4, None]], INTS)
    plan, batch = typed("array_compact", column=arrays)
    assert evaluate(plan, batch.slice(1)).to_pylist() == [[3], None, [4]]
    maps = pa.array([[("a", 1)], [("b", 2)], None], pa.map_(pa.string(), pa.int64()))
    plan, batch = typed("map_keys", column=maps)
    assert evaluate(plan, batch.slice(1)).to_pylist() == [["b"], None]


def test_places() -> None:
    """From 1, from the end, beyond the array, and 0, which is none."""
    arrays = pa.array([[1, 2], [3], None], INTS)
    assert column("try_element_at", arrays, -1) == [2, 3, None]
    assert column("get", arrays, 1) == [2, None, None]
    with pytest.raises(RowsFailed, match="INVALID_ARRAY_INDEX_IN_ELEMENT_AT"):
        column("element_at", arrays, 2)
    with pytest.raises(RowsFailed, match="INVALID_INDEX_OF_ZERO"):
        column("try_element_at", arrays, 0)
    assert column("array_insert", pa.array([[1, 2]], INTS), 5, 9) == [[1, 2, None, None, 9]]
    assert column("array_insert", pa.array([[1, 2]], INTS), -5, 9) == [[9, None, None, 1, 2]]
    assert column("slice", pa.array([[1, 2, 3]], INTS), -2, 9) == [[2, 3]]


def test_keys_come_once_and_are_never_null() -> None:
    """Whoever makes a map is told."""
    keys = pa.array(["a", "b"])
    assert column("map", keys, 1) == [[("a", 1)], [("b", 1)]]
    with pytest.raises(RowsFailed, match="DUPLICATED_MAP_KEY"):
        column("map", keys, 1, "a", 2)
    with pytest.raises(RowsFailed, match="NULL_MAP_KEY"):
        column("map", pa.array(["a", None]), 1)


def test_fields_of_structs_have_the_names_of_their_columns() -> None:
    """What has no name is counted."""
    plan, batch = typed("struct", 1, n=pa.array([1]), w=pa.array(["x"]))
    assert text_of(plan.type) == "struct<n:bigint,w:string,col3:int>"
    assert evaluate(plan, batch).to_pylist() == [{"n": 1, "w": "x", "col3": 1}]
    plan, batch = typed("arrays_zip", a=pa.array([[1, 2]], INTS), b=pa.array([[3]], INTS))
    assert evaluate(plan, batch).to_pylist() == [[{"a": 1, "b": 3}, {"a": 2, "b": None}]]
