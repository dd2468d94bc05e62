"""Late columns are the columns of a record batch, whatever was picked of them before they were made."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headgate.records.arrow_batch import ArrowBatch
from headgate.records.late_columns import LateColumns, concat_late

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
LINES = st.lists(
    st.tuples(st.none() | st.integers(0, 9), st.none() | st.text(max_size=2), st.none() | st.integers(0, 5)),
    max_size=8,
).map(lambda rows: Tuples(rows))


class Tuples(list[Any]):
    """Rows as tuples; implements `Lines`."""

    def slice(self, start: int, stop: int) -> Tuples:
        return Tuples(self[start:stop])

    def take(self, places: NDArray[np.int64]) -> Tuples:
        return Tuples(self[place] for place in places)

    def joined(self, others: Sequence[Tuples]) -> Tuples:
        return Tuples(itertools.chain(self, *others))


def make(lines: Tuples, index: int) -> pa.Array:
    """A column of tuples."""
    return pa.array([line[index] for line in lines], SCHEMA.types[index])


def both(lines: Tuples, made: set[int]) -> tuple[LateColumns, pa.RecordBatch]:
    """Late columns, of which some were made, and all columns."""
    columns = [make(lines, index) for index in range(3)]
    late = LateColumns(SCHEMA, lines, make, {index: columns[index] for index in made})
    return late, pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@given(st.data())
def test_late_columns_are_those_of_a_record_batch(data: st.DataObject) -> None:
    """After any choice of rows and columns, of several batches as of one."""
    made = st.sets(st.integers(0, 2))
    pairs = [both(data.draw(LINES), data.draw(made)) for _ in range(data.draw(st.integers(1, 3)))]
    late, whole = concat_late([pair[0] for pair in pairs]), pa.concat_batches([pair[1] for pair in pairs])
    mixed = concat_late([pairs[0][1], *(pair[0] for pair in pairs[1:])])
    assert isinstance(mixed, pa.RecordBatch)
    assert mixed.equals(whole)
    for _ in range(data.draw(st.integers(0, 3))):
        rows = whole.num_rows
        kind = data.draw(st.sampled_from(("read", "slice", "take", "select")))
        if kind == "read" and whole.num_columns:
            index = data.draw(st.integers(0, whole.num_columns - 1))
            assert late.column(index).equals(whole.column(index))
        elif kind == "slice":
            start = data.draw(st.integers(0, rows))
            stop = data.draw(st.integers(start, rows))
            late, whole = late[start:stop], whole.slice(start, stop - start)
        elif kind == "take":
            places = pa.array(
                data.draw(st.lists(st.integers(0, max(0, rows - 1)), max_size=5 * bool(rows))), pa.int64()
            )
            late, whole = late.take(places), whole.take(places)
        elif kind == "select":
            indices = data.draw(
                st.lists(st.sampled_from(range(whole.num_columns)), min_size=1, max_size=2, unique=True)
            )
            whole = whole.select(indices)
            late = late.select(indices, whole.schema)
    assert (len(late), late.num_rows) == (whole.num_rows, whole.num_rows)
    assert late.complete().equals(whole)
    assert pa.record_batch(late).equals(whole)


def test_a_column_is_made_once_and_only_if_it_is_asked_for() -> None:
    """Also for batches with event time, and for rows that were picked."""
    asked = []

    def noted(lines: Tuples, index: int) -> pa.Array:
        asked.append((len(lines), index))
        return make(lines, index)

    lines = Tuples([(1, "x", 0.5), (2, "y", 1.5), (3, "z", 2.5)])
    batch = ArrowBatch(LateColumns(SCHEMA, lines, noted, {}))
    assert batch.parts.column(0).to_pylist() == [1, 2, 3]
    assert batch.slice(1, 3).parts.column(0).to_pylist() == [2, 3]
    assert asked == [(3, 0)]
    picked = batch.take(pa.array([2]).to_numpy())
    assert (len(picked), picked.field("b"), picked.columns.to_pylist()) == (
        1,
        1,
        [{"a": 3, "b": "z", "c": 2.5}],
    )
    assert asked == [(3, 0), (1, 1), (1, 2)]
    assert picked.columns is picked.columns
