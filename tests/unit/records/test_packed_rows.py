"""Packed rows are the rows that were packed, whole and in parts, and their stored form stays what it is."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.records.arrow_batch import ArrowBatch
from headgate.records.packed_rows import Part, packed_columns, packed_lists, rows_of_parts, times_of

KINDS = st.sampled_from(
    [
        *((kind, st.integers(-128, 127)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
        (pa.uint64(), st.integers(0, 2**64 - 1)),
        (pa.float64(), st.floats()),
        (pa.float32(), st.floats(width=32)),
        (pa.float16(), st.sampled_from([np.float16(1.5), np.float16(-2)])),
        (pa.string(), st.text()),
        (pa.bool_(), st.booleans()),
        (pa.date32(), st.dates()),
        (pa.timestamp("us"), st.datetimes()),
        (pa.timestamp("us", "UTC"), st.datetimes()),
        (pa.timestamp("ns"), st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2100, 1, 1))),
        (pa.timestamp("us", "Asia/Kolkata"), st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2100, 1, 1))),
        (pa.list_(pa.int64()), st.lists(st.integers(0, 9))),
    ]
)
COUNT = 6
COLUMNS = st.lists(
    KINDS.flatmap(
        lambda kind: st.tuples(
            st.just(kind[0]),
            st.lists(kind[1], min_size=COUNT, max_size=COUNT)
            | st.lists(st.none() | kind[1], min_size=COUNT, max_size=COUNT),
        )
    ),
    max_size=4,
)


@given(COLUMNS, st.lists(st.integers(0, COUNT - 2), min_size=1, max_size=8), st.integers(0, 8))
@settings(max_examples=200, deadline=None)
def test_parts_are_the_rows_that_were_packed(
    columns: list[tuple[pa.DataType, list[Any]]], places: list[int], cut: int
) -> None:
    """In the order of the places, for every type, slices and nulls; cut in two anywhere."""
    arrays = [pa.array(values, kind) for kind, values in columns]
    whole = pa.RecordBatch.from_arrays(
        [*arrays, pa.array(range(COUNT))], [*map(str, range(len(arrays))), "n"]
    )
    batch = ArrowBatch(whole.slice(1))
    indices = np.array(places, np.int64)
    packed = packed_columns(batch.columns, batch.views(), indices, indices * 10)
    middle = min(cut, len(places))
    parts = [part for part in (packed.part(0, middle), packed.part(middle, len(places))) if part.size]
    expected = [batch.columns.slice(place, 1).to_pylist()[0] for place in places]
    assert repr([row.as_dict() for row in rows_of_parts(packed.shape, parts)]) == repr(expected)
    assert [time for part in parts for time in times_of(part)] == [10 * place for place in places]


def test_lists_are_packed_as_they_are() -> None:
    """Rows that were no columns have their values in lists."""
    packed = packed_lists(("a", "b"), [[1, 2], ["x", None]], np.array([5, 6]))
    assert [row.as_dict() for row in rows_of_parts(packed.shape, [packed.part(0, 2)])] == [
        {"a": 1, "b": "x"},
        {"a": 2, "b": None},
    ]


def test_the_stored_form_stays() -> None:
    """What is in snapshots of earlier versions is read: shape, bytes, lists."""
    shape = '[["n", "int32"], ["at", "us UTC"], ["s", ""], ["x", "double"]]'
    data = bytes.fromhex("0100000000000000 0200000000000000 07000000 08000000")
    data += bytes.fromhex("40420f0000000000 80841e0000000000 000000000000f83f 0000000000000440")
    rows = rows_of_parts(shape, [Part(2, data, [["p", None]])])
    first, second = (dt.datetime(1970, 1, 1, 0, 0, second, tzinfo=dt.UTC) for second in (1, 2))
    assert [row.values() for row in rows] == [(7, first, "p", 1.5), (8, second, None, 2.5)]
    batch = ArrowBatch(
        pa.RecordBatch.from_arrays(
            [
                pa.array([7, 8], pa.int32()),
                pa.array([first, second], pa.timestamp("us", "UTC")),
                pa.array(["p", None]),
                pa.array([1.5, 2.5]),
            ],
            ["n", "at", "s", "x"],
        )
    )
    packed = packed_columns(batch.columns, batch.views(), np.arange(2), np.array([1, 2]))
    assert (packed.shape, packed.part(0, 2)) == (shape, Part(2, data, [["p", None]]))
