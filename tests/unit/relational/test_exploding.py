"""Elements of arrays and maps as rows, from any slice of a column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.relational.exploding import exploded, made_by

LISTS = pa.list_(pa.int64())
MAPS = pa.map_(pa.string(), pa.int64())


def model(values: list[Any], outer: bool) -> list[tuple[int, Any, Any]]:
    """Row, place and element, one by one."""
    found: list[tuple[int, Any, Any]] = []
    for row, elements in enumerate(values):
        found += [(row, place, element) for place, element in enumerate(elements or [])]
        if outer and not elements:
            found.append((row, None, None))
    return found


@pytest.mark.parametrize("kind", [LISTS, MAPS], ids=["array", "map"])
@given(
    st.lists(st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3), max_size=12),
    st.integers(0, 4),
    st.booleans(),
)
def test_elements_are_those_of_the_slice(
    kind: pa.DataType, lists: list[Any], start: int, outer: bool
) -> None:
    """Nulls, empty ones, and what lies before the slice in the same memory."""
    is_map = kind == MAPS
    values = [
        None if each is None else [(str(n), value) for n, value in enumerate(each)] if is_map else each
        for each in lists
    ]
    column = pa.array(values, kind).slice(start)
    got: list[tuple[int, Any, Any]] = []
    for rows, (places, *columns) in exploded(column, made_by(kind, position=True), outer=outer):
        elements = [each.to_pylist() for each in columns]
        joined = list(zip(*elements, strict=True)) if is_map else elements[0]
        filled = [None if is_map and each == (None, None) else each for each in joined]
        got += zip(rows.tolist(), places.to_pylist(), filled, strict=True)
    assert got == model(values[start:], outer)
