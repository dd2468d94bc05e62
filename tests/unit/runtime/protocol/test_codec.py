"""Frames of a channel: every record comes back equal and of its own type; damage is a ProtocolError."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime as dt
import decimal
import enum
import struct
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_samples import columns, rows

from headgate.common.errors import ProtocolError
from headgate.core.alignment.barriers import SavepointOrder
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.row import Row
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Barrier, CancelMarker, EndOfData, Idle, Trace, Watermark
from headgate.runtime.protocol.frames import FrameKind


@dataclasses.dataclass
class Point:
    x: int
    name: str
    tags: tuple[str, ...] = ()


class Pair(NamedTuple):
    a: int
    b: str


class Packed(msgspec.Struct):
    a: int
    b: float | None = None


class Colour(enum.Enum):
    RED = 1


class Plain:
    """A class that declares nothing."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and other.value == self.value

    __hash__ = None  # type: ignore[assignment]


def travel(codec: ElementCodec, element: Any) -> Any:
    """Encode, put the parts together as the network does, decode."""
    kind, parts = codec.encode(element)
    return codec.decode(kind, memoryview(b"".join(bytes(part) for part in parts)))


def same(left: Any, right: Any) -> bool:
    """Equal and of equal types, all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    return bool(left == right) or left != left


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**80), 2**80),
    st.floats(),
    st.text(),
    st.binary(),
    st.datetimes(),
    st.dates(),
    st.decimals(allow_nan=False),
    st.uuids(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers()), inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(max_examples=200)
@given(st.lists(VALUES, min_size=1, max_size=8))
def test_plain_values_come_back_as_they_were(values: list[Any]) -> None:
    """Of equal value and type at every depth: tuples stay tuples, lists lists, big ints ints."""
    assert same(travel(ElementCodec(), rows(values)).rows(), values)


POINTS = st.builds(Point, st.integers(), st.text(), st.lists(st.text(), max_size=2).map(tuple))


@pytest.mark.parametrize(
    ("record_type", "strategy"),
    [
        (Point, POINTS),
        (Pair, st.builds(Pair, st.integers(), st.text())),
        (Packed, st.builds(Packed, st.integers(-(2**63), 2**63), st.none() | st.floats(allow_nan=False))),
    ],
)
@given(data=st.data())
def test_records_of_the_declared_class_come_back_as_that_class(
    record_type: Any, strategy: Any, data: st.DataObject
) -> None:
    """Dataclasses, named tuples and structs, by their serializer."""
    records = data.draw(st.lists(strategy, min_size=1, max_size=6))
    assert same(travel(ElementCodec(record_type), rows(records)).rows(), records)


MISFITS = [
    [Point("text", "n")],  # type: ignore[arg-type]
    [Point(1.5, "n"), Point(2, "m")],  # type: ignore[arg-type]
    [Point(1, "n", ["list"])],  # type: ignore[arg-type]
    [Point(1, None)],  # type: ignore[arg-type]
    [Point(1, "a"), "something else", None],
    [Pair(1, "a")],
    [(1, "n", ())],
]


@pytest.mark.parametrize("records", MISFITS, ids=repr)
def test_what_a_function_emits_travels_whatever_was_declared(records: list[Any]) -> None:
    """Annotations bind nobody: what arrives in another process is what would in the same one."""
    assert same(travel(ElementCodec(Point), rows(records)).rows(), records)


@pytest.mark.parametrize(
    "record",
    [
        Plain(3),
        Colour.RED,
        collections.OrderedDict(a=1),
        collections.defaultdict(int, a=1),
        Pair(1, "b"),
        {"nested": Point(1, "x")},
        [Row.of(a=1, b="x")],
        Row.of(a=1),
        {1, 2},
        frozenset({1}),
        dt.timedelta(1),
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        decimal.Decimal("1.10"),
        uuid.UUID(int=5),
        1 + 2j,
        "\ud800",
        -0.0,
    ],
    ids=lambda record: f"{type(record).__name__}",
)
def test_objects_of_any_class_come_back_as_that_class(record: Any) -> None:
    """What no codec holds goes by the fallback, unchanged."""
    assert same(travel(ElementCodec(), rows([record, 1])).rows(), [record, 1])
    assert same(travel(ElementCodec(), rows([record])).rows(), [record])


def test_row_views_travel_without_their_batch() -> None:
    """Views of columns in a row batch take only their own values along."""
    views = list(columns([{"a": n, "text": "x" * 1000} for n in range(500)]).rows())[:2]
    kind, parts = ElementCodec().encode(rows(views))
    assert sum(map(len, map(bytes, parts))) < 5000
    assert travel(ElementCodec(), rows(views)).rows() == views
    assert kind is FrameKind.PICKLED_ROWS


@given(
    st.lists(
        st.tuples(st.integers(-(2**62), 2**62), st.one_of(st.none(), st.text())), min_size=1, max_size=20
    ),
    st.booleans(),
    st.integers(0, 5),
)
def test_columns_come_back_as_columns(records: list[tuple[int, Any]], timed: bool, cut: int) -> None:
    """Also where the batch is a slice of a larger one; event time comes along."""
    times = list(range(len(records))) if timed else None
    whole = columns([{"n": n, "t": t} for n, t in records], times, times)
    batch = whole.slice(min(cut, len(whole) - 1), len(whole))
    back = travel(ElementCodec(), batch)
    assert isinstance(back, ArrowBatch)
    assert back.columns.equals(batch.columns)
    assert times_of(back) == times_of(batch)


def times_of(batch: Any) -> Any:
    """Both times as lists."""
    return [None if t is None else t.tolist() for t in (batch.timestamps, batch.watermarks)]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9))
def test_rows_bring_their_event_time(times: list[int]) -> None:
    """Timestamps and watermarks of each record arrive, in every form of rows."""
    marks = sorted(times)
    for record in (1, ("a", 2**70), Plain(1)):
        back = travel(ElementCodec(), rows([record] * len(times), times, marks))
        assert times_of(back) == [times, marks]
        assert times_of(back.slice(0, 1)) == [times[:1], marks[:1]]


@pytest.mark.parametrize(
    "event",
    [
        Watermark(-(2**63)),
        Watermark(5),
        Idle(),
        Barrier(7, 1_700_000_000_000),
        Barrier(
            8, 1_700_000_000_000, savepoint=SavepointOrder("file:///s/savepoint-\u00e9", "native", stop=True)
        ),
        Barrier(9, 0, savepoint=SavepointOrder("s3://b/s", drain=True), completed=4),
        CancelMarker(3),
        Trace(1 << 58, 3, 1_700_000_000_000_000),
        EndOfData(),
    ],
    ids=repr,
)
def test_events_come_back(event: Any) -> None:
    """Each kind of control event."""
    assert travel(ElementCodec(), event) == event


def frames() -> list[tuple[FrameKind, bytes]]:
    """One sound frame of every kind that this codec makes."""
    elements: Sequence[Any] = [
        rows([1, "a", (2**70,)], [1, 2, 3], [0, 0, 0]),
        rows([Point(1, "x"), Point(2, "y")]),
        rows([Plain(1)]),
        columns([{"a": 1, "b": "x"}], [1], [0]),
        Watermark(5),
        Barrier(1, 2),
        Barrier(1, 2, savepoint=SavepointOrder("file:///s")),
        CancelMarker(9),
        Trace(1 << 58, 3, 1_700_000_000_000_000),
    ]
    encoded = [ElementCodec(Point).encode(element) for element in elements]
    return [(kind, b"".join(bytes(part) for part in parts)) for kind, parts in encoded]


@pytest.mark.parametrize(("kind", "payload"), frames(), ids=lambda value: getattr(value, "name", ""))
def test_a_truncated_payload_is_a_protocol_error(kind: FrameKind, payload: bytes) -> None:
    """Cut at every byte: refused in our own words, never with another exception, never with fewer records."""
    codec = ElementCodec(Point)
    whole = codec.decode(kind, memoryview(payload))
    for length in range(len(payload)):
        try:
            decoded = codec.decode(kind, memoryview(payload[:length]))
        except ProtocolError:
            pass
        else:
            # Arrow pads its streams: what is cut off there may say nothing.
            assert kind is FrameKind.COLUMNS
            assert decoded.rows() == whole.rows()  # type: ignore[union-attr]


@settings(max_examples=200)
@given(st.sampled_from(frames()), st.data())
def test_a_damaged_payload_raises_nothing_but_protocol_errors(
    frame: tuple[FrameKind, bytes], data: st.DataObject
) -> None:
    """Checksums catch damage before this codec; what gets through must not crash a worker oddly."""
    kind, payload = frame
    if kind is FrameKind.PICKLED_ROWS:
        return  # Only bytes of an authenticated peer with a sound checksum are ever unpickled.
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolError):
        ElementCodec(Point).decode(kind, memoryview(bytes(damaged)))


def test_a_count_that_does_not_fit_is_refused() -> None:
    """Announced and held records must be as many, in every form."""
    for element in (rows([1, 2]), rows([Plain(1), Plain(2)]), columns([{"a": 1}, {"a": 2}])):
        kind, parts = ElementCodec().encode(element)
        payload = b"".join(bytes(part) for part in parts)
        (count,) = struct.unpack_from("<I", payload)
        assert count == 2
        with pytest.raises(ProtocolError):
            ElementCodec().decode(kind, memoryview(struct.pack("<I", 3) + payload[4:]))


def test_a_typed_frame_needs_a_typed_receiver() -> None:
    """Both ends are made from one plan; should they differ, it is said."""
    kind, parts = ElementCodec(Point).encode(rows([Point(1, "a")]))
    with pytest.raises(ProtocolError, match="a record type that the receiver does not"):
        ElementCodec().decode(kind, memoryview(b"".join(bytes(part) for part in parts)))


def test_a_credit_frame_is_no_element() -> None:
    """Kinds that this codec does not make are refused."""
    with pytest.raises(ProtocolError, match="CREDIT frame came in where records or events"):
        ElementCodec().decode(FrameKind.CREDIT, memoryview(b""))


def test_a_class_whose_annotations_name_nothing_here_travels_by_the_fallback() -> None:
    """A declared type that cannot be resolved is no reason to fail."""

    @dataclasses.dataclass
    class Odd:
        x: Nowhere  # type: ignore[name-defined] # noqa: F821

    ElementCodec(Odd)


def test_an_empty_schema_and_nulls_survive() -> None:
    """Columns of nulls, nested types and dictionaries are Arrow's business and come back."""
    table = pa.RecordBatch.from_pydict(
        {
            "n": pa.array([None, None], pa.int64()),
            "d": pa.array(["a", "a"]).dictionary_encode(),
            "l": [[1], []],
        }
    )
    assert travel(ElementCodec(), ArrowBatch(table)).columns.equals(table)
