"""NumPy scalars and arrays, Arrow batches and tables: lossless round trips, checks, damaged bytes."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from case_ids import case_id
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from headgate.common.errors import StorageError, UsageError
from headgate.serde.resolve import serializer_for
from headgate.serde.verdicts import Incompatible, compare

small = settings(max_examples=60, derandomize=True, deadline=None, database=None)

SCALARS = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.complex64, np.complex128, np.longlong,
]  # fmt: skip

ARRAY_DTYPES = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes(endianness="=")
    | hnp.floating_dtypes(sizes=(16, 32, 64))
    | hnp.complex_number_dtypes(sizes=(64, 128))
    | hnp.unicode_string_dtypes()
    | hnp.byte_string_dtypes()
    | hnp.datetime64_dtypes()
    | hnp.timedelta64_dtypes()
)


@dataclass
class Reading:
    """A record with an array."""

    sensor: np.int32
    samples: NDArray[np.float64]
    rows: pa.RecordBatch | None = None


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """An Arrow batch of plain rows."""
    return pa.RecordBatch.from_pylist(
        rows, pa.schema([("n", pa.int64()), ("t", pa.list_(pa.string()))], metadata={"made": "here"})
    )


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are equal to the bit."""
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.mark.parametrize("cls", SCALARS, ids=lambda cls: cls.__name__)
@small
@given(data=st.data())
def test_scalars_come_back_to_the_bit(cls: type, data: st.DataObject) -> None:
    """A scalar keeps its class and every bit of its value, NaNs included; it is immutable."""
    serializer = serializer_for(cls)
    values = [cls(v) for v in data.draw(st.lists(hnp.from_dtype(np.dtype(cls)), max_size=4))]
    back = serializer.decode_many(serializer.encode_checked(values), len(values))
    assert [type(value) for value in back] == [cls] * len(values)
    assert [value.tobytes() for value in back] == [value.tobytes() for value in values]
    assert serializer.immutable


def test_the_description_holds_the_exact_dtype() -> None:
    """Types of another width do not fit, and neither do arrays of another dtype or dimension."""
    assert serializer_for(np.float32).describe() == {"kind": "numpy", "version": 1, "dtype": "<f4"}
    for stored, current in [
        (np.float32, np.float64),
        (NDArray[np.int32], NDArray[np.int64]),
        (np.ndarray, NDArray[np.int64]),
        (np.ndarray[tuple[int, int], np.dtype[np.int8]], NDArray[np.int8]),
        (pa.RecordBatch, pa.Table),
    ]:
        verdict = compare(serializer_for(stored).describe(), serializer_for(current).describe())
        assert isinstance(verdict, Incompatible)


@small
@given(data=st.data())
def test_arrays_come_back_equal_writable_and_in_c_order(data: st.DataObject) -> None:
    """Any storable dtype and shape, in any memory order, under a plain ndarray annotation."""
    dtype = data.draw(ARRAY_DTYPES)
    array = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0)))
    if data.draw(st.booleans()):
        array = np.asfortranarray(array)
    serializer = serializer_for(np.ndarray)
    back = serializer.decode(serializer.encode_checked([array]))
    assert same(array, back)
    assert back.flags.writeable
    assert back.flags.c_contiguous
    assert back.flags.owndata


@small
@given(hnp.arrays(np.float64, hnp.array_shapes(min_side=0)))
def test_declared_dtypes_round_trip(array: np.ndarray) -> None:
    """An array of the declared dtype comes back, also inside a record beside an integer beyond 64 bits."""
    serializer = serializer_for(tuple[NDArray[np.float64], int])
    for number in (1, 2**80):
        back, count = serializer.decode(serializer.encode_checked([(array, number)]))
        assert same(array, back)
        assert count == number


@pytest.mark.parametrize(
    ("hint", "array"),
    [
        (NDArray[np.str_], np.array(["ż", "ab"])),
        (NDArray[np.datetime64], np.array(["2024-01-02"], "M8[D]")),
        (NDArray[Any], np.array([1], ">i4")),
        (np.ndarray[tuple[int, int], np.dtype[np.int8]], np.ones((2, 3), np.int8)),
        (np.ndarray[tuple[int, ...], np.dtype[np.bool_]], np.array([True, False])),
    ],
    ids=case_id,
)
def test_every_spelling_of_an_array_type_is_understood(hint: Any, array: np.ndarray) -> None:
    """Open widths, any dtype, a number of dimensions."""
    serializer = serializer_for(hint)
    assert same(array, serializer.decode(serializer.encode_checked([array])))


@pytest.mark.parametrize(
    ("hint", "wrong", "why"),
    [
        (np.int32, np.int64(1), "got int64, expected int32"),
        (np.float64, 1.0, "got float"),
        (NDArray[np.float64], np.ones(2, np.float32), "dtype '<f4', expected '<f8'"),
        (NDArray[np.float64], np.ones(2, ">f8"), "dtype '>f8'"),
        (NDArray[np.str_], np.ones(2), "expected 'U'"),
        (np.ndarray[tuple[int, int], np.dtype[np.int8]], np.ones(2, np.int8), "1 dimensions, expected 2"),
        (np.ndarray, np.array([object()]), "dtype '|O' cannot be stored"),
        (np.ndarray, np.zeros(1, [("a", "i4")]), "'|V4' cannot be stored"),
        (np.ndarray, np.ma.array([1]), "got MaskedArray, expected ndarray"),
        (np.ndarray, [1], "got list, expected ndarray"),
        (pa.Table, batch([]), "got RecordBatch, expected Table"),
    ],
    ids=case_id,
)
def test_wrong_values_are_refused_when_written(hint: Any, wrong: Any, why: str) -> None:
    """The refusal says what was got and what was expected."""
    with pytest.raises(UsageError) as caught:
        serializer_for(hint).encode_checked([wrong])
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "hint",
    [np.generic, np.floating, np.number, np.str_, np.datetime64, np.void, np.object_, np.longdouble,
     NDArray[np.object_], NDArray[np.floating[Any]], NDArray[np.void], pa.Array, pa.Schema],
    ids=case_id,
)  # fmt: skip
def test_types_that_cannot_be_stored_are_refused_at_once(hint: Any) -> None:
    """No exact size, objects inside, or no serializer at all."""
    with pytest.raises(UsageError, match="state 'x' is declared as"):
        serializer_for(hint, "state 'x'")


@small
@given(
    st.lists(
        st.fixed_dictionaries({"n": st.none() | st.integers(-9, 9), "t": st.none() | st.lists(st.text())})
    )
)
def test_arrow_values_come_back_with_their_schema(rows: list[dict[str, Any]]) -> None:
    """Batches, slices of them, and tables of several chunks, with the schema's metadata."""
    batches, tables = serializer_for(pa.RecordBatch), serializer_for(pa.Table)
    for value in (batch(rows), batch(rows).slice(1) if rows else batch([])):
        back = batches.decode(batches.encode_checked([value]))
        assert back.equals(value, check_metadata=True)
    table = pa.Table.from_batches([batch(rows), batch(rows[1:])])
    assert tables.decode(tables.encode_checked([table])).equals(table, check_metadata=True)
    assert batches.immutable
    assert tables.copy(table) is table


def test_records_hold_arrays_and_columns() -> None:
    """Fields of these types work like all others, absent or not."""
    serializer = serializer_for(Reading)
    for rows in (None, batch([{"n": 1, "t": ["a"]}])):
        value = Reading(np.int32(4), np.array([0.5, np.nan]), rows)
        back = serializer.decode(serializer.encode_checked([value]))
        assert (type(back.sensor), back.sensor) == (np.int32, 4)
        assert same(back.samples, value.samples)
        assert back.rows is None if rows is None else back.rows.equals(rows)


@pytest.mark.parametrize("hint", [pa.RecordBatch, pa.Table])
def test_every_flipped_bit_of_columns_is_noticed(hint: Any) -> None:
    """Arrow's bytes have a checksum, so not even a changed number is read."""
    serializer = serializer_for(hint)
    value = batch([{"n": 7, "t": None}])
    data = serializer.encode_many([value if hint is pa.RecordBatch else pa.Table.from_batches([value])])
    start = data.index(b"\xff\xff\xff\xff")
    for place in range(start, len(data)):
        with pytest.raises(StorageError):
            serializer.decode_many(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], 1)


def test_columns_are_validated_in_full() -> None:
    """Bytes that Arrow itself wrote, but that are no text, are refused when written and when read."""
    offsets, text = pa.py_buffer(np.array([0, 1], np.int32).tobytes()), pa.py_buffer(b"\xff")
    column = pa.Array.from_buffers(pa.string(), 1, [None, offsets, text])
    wrong, serializer = pa.RecordBatch.from_arrays([column], ["t"]), serializer_for(pa.RecordBatch)
    with pytest.raises(StorageError, match="stored columns cannot be read"):
        serializer.decode(serializer.encode(wrong))
    with pytest.raises(UsageError):
        serializer.encode_checked([wrong])


def packed(*plain: Any) -> bytes:
    """A batch of one value, made by hand."""
    return b"\x00" + msgspec.msgpack.encode([plain])


@pytest.mark.parametrize(
    ("hint", "data"),
    [
        (np.ndarray, packed("<f8", (2**40,), b"12345678")),
        (np.ndarray, packed("<f8", (1,), b"1234567812345678")),
        (np.ndarray, packed("<f8", (2**62, 2**62), b"")),
        (np.ndarray, packed("<f8", (-1, -1), b"12345678")),
        (np.ndarray, packed("<f8", (1,) * 70, b"12345678")),
        (np.ndarray, packed("<U0", (2**40,), b"")),
        (np.ndarray, packed("<U999999999", (0,), b"")),
        (np.ndarray, packed("|O", (1,), b"12345678")),
        (np.ndarray, packed("<f8,<f8", (1,), b"1234567812345678")),
        (np.ndarray, packed("<i3", (1,), b"123")),
        (np.ndarray, packed("|b1", (1,), b"\x02")),
        (np.ndarray, packed("<U1", (1,), b"\xff\xff\xff\xff")),
        (NDArray[np.int64], packed("<f8", (1,), b"12345678")),
        (np.bool_, b"\x00" + msgspec.msgpack.encode([b"\x02"])),
        (np.int8, b"\x00" + msgspec.msgpack.encode([b"ab"])),
        (pa.Table, packed(0, b"")),
    ],
    ids=case_id,
)
def test_impossible_sizes_are_refused_before_memory_is_taken(hint: Any, data: bytes) -> None:
    """A size that the bytes do not have costs nothing but a StorageError."""
    serializer = serializer_for(hint)
    tracemalloc.start()
    try:
        with pytest.raises(StorageError):
            serializer.decode_many(data, 1)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
