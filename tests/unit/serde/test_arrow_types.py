"""Values as Arrow columns: the type of each description, and the way there and back without any loss."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import io
import struct
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from column_batches import from_arrow, to_arrow
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.common.errors import StorageError, UsageError
from headgate.serde.arrow.arrow_types import arrow_type
from headgate.serde.arrow.stored_values import Beyond, close_batch, open_batch
from headgate.serde.resolve import serializer_for


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Perm(enum.Flag):
    R = 1
    W = 2


class Pair(NamedTuple):
    left: int
    right: str | None


class Options(TypedDict):
    name: str
    since: NotRequired[dt.date]
    size: NotRequired[int | None]
    free: NotRequired[Any]


@dataclass(frozen=True)
class Visit:
    page: str
    at: dt.datetime
    extra: Any = None


AMBIGUOUS = dt.datetime(2024, 10, 27, 2, fold=1, tzinfo=ZoneInfo("Europe/Warsaw"))
MOMENT = "struct<wall: timestamp[us], fold: bool, zone: string, utc_offset: duration[us]>"

TYPES: list[tuple[Any, str | None]] = [
    (bool, "bool"), (int, "int64"), (float, "double"), (str, "string"), (bytes, "binary"),
    (dt.datetime, MOMENT), (dt.date, "date32[day]"), (dt.time, MOMENT.replace("timestamp", "duration")),
    (dt.timedelta, "duration[us]"), (Decimal, "string"), (uuid.UUID, "fixed_size_binary[16]"),
    (Colour, "string"), (Perm, "int64"), (Literal["a", "b"], "string"), (np.float32, "float"),
    (np.uint64, "uint64"), (np.bool_, "bool"), (np.float16, None), (np.complex128, None),
    (int | None, "int64"), (int | str, None), (int | float | None, None), (Any, None), (None, None),
    (list[int], "list<element: int64>"), (tuple[float, ...], "list<element: double>"),
    (list[int | None], "list<element: int64>"), (list[Any], None), (set[int], None), (frozenset[str], None),
    (dict[str, list[int]], "map<string, list<element: int64>>"), (dict[str | None, int], None),
    (dict[str, Any], None), (tuple[int, str], "struct<_1: int64, _2: string>"), (tuple[()], None),
    (tuple[int, set[int]], "struct<_1: int64, _2: binary>"), (tuple[set[int], Any], None),
    (Pair, "struct<left: int64, right: string>"),
    (Options, "struct<name: string, since: date32[day], size: binary, free: binary>"),
    (Visit, f"struct<page: string, at: {MOMENT}, extra: binary>"),
    (Annotated[Pair, hg.json], "string"), (np.ndarray, None), (pa.Table, None),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "expected"), TYPES, ids=lambda case: str(case)[:40])
def test_each_type_has_its_arrow_type_or_none(hint: Any, expected: str | None) -> None:
    """The type is told by the description alone, also by one that came back from a checkpoint's metadata."""
    serializer = serializer_for(hint)
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(serializer.describe()))
    assert arrow_type(stored) == arrow_type(serializer.describe())
    assert (None if arrow_type(stored) is None else str(arrow_type(stored))) == expected


@pytest.mark.parametrize("kind", ["protobuf", "avro"])
def test_messages_are_their_own_bytes(kind: str) -> None:
    """What other tools decode by a schema of its own is not wrapped."""
    assert arrow_type({"kind": kind, "version": 1, "name": "shop.Order"}) == pa.binary()


def exact(value: Any) -> Any:
    """What tells values apart that are merely equal: classes, bits of floats, folds, order of dicts."""
    if isinstance(value, float | np.floating):
        return type(value), struct.pack("<d", value)
    if isinstance(value, dt.datetime | dt.time):
        return type(value), repr(value), value.fold
    if isinstance(value, set | frozenset):
        return type(value), sorted(map(repr, map(exact, value)))
    if isinstance(value, dict):
        return dict, [(exact(k), exact(v)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [exact(part) for part in value]
    if dataclasses.is_dataclass(value):
        return type(value), [exact(getattr(value, field.name)) for field in dataclasses.fields(value)]
    return type(value), repr(value)


def through_parquet(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch out of a Parquet file."""
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), file)
    (back,) = pq.read_table(file).combine_chunks().to_batches() or [batch]
    assert back.schema.types == batch.schema.types
    return back


def check_round_trip(hint: Any, values: list[Any]) -> None:
    """Values come back the same through Arrow, a slice of it, and a file."""
    serializer = serializer_for(hint)
    batch = to_arrow(serializer, values)
    for found, expected in [
        (batch, values), (batch.slice(1), values[1:]), (through_parquet(batch), values)
    ]:  # fmt: skip
        back = from_arrow(found, serializer.describe(), serializer)
        assert exact(back) == exact(expected)


ZONES = st.sampled_from(
    [
        None, dt.UTC, ZoneInfo("UTC"), ZoneInfo("Europe/Warsaw"), dt.timezone(dt.timedelta(microseconds=-1)),
        dt.timezone(dt.timedelta(hours=2), "two"), dt.timezone(dt.timedelta(0), "+00:00"),
    ]
)  # fmt: skip
NAN_BITS = [0x7FF8000000000000, 0xFFF8000000000ABC, 0x7FF0000000000001]
NANS = st.sampled_from([struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in NAN_BITS])
TEXT = st.text(st.characters(), max_size=4) | st.just("\ud800")
FLOATS = st.floats() | NANS | st.sampled_from([0.0, -0.0])

Typed = tuple[Any, "st.SearchStrategy[Any]"]
SCALARS: list[Typed] = [
    (bool, st.booleans()),
    (int, st.integers() | st.sampled_from([2**63 - 1, 2**63, -(2**63) - 1, 2**70]) | st.booleans()),
    (float, FLOATS | st.integers() | st.booleans()),
    (str, TEXT),
    (bytes, st.binary(max_size=4)),
    (dt.datetime, st.datetimes(timezones=ZONES, allow_imaginary=True)),
    (dt.time, st.times(timezones=st.sampled_from([None, dt.UTC]))),
    (dt.date, st.dates()),
    (dt.timedelta, st.timedeltas()),
    (Decimal, st.decimals() | st.sampled_from(list(map(Decimal, ["1.0", "1.00", "-0", "sNaN7"])))),
    (uuid.UUID, st.uuids()),
    (Colour, st.sampled_from(Colour)),
    (Perm, st.sampled_from([Perm(0), Perm.R, Perm.R | Perm.W])),
    (np.float64, FLOATS.map(np.float64)),
    (np.int8, st.integers(-128, 127).map(np.int8)),
    (np.bool_, st.booleans().map(np.bool_)),
    (int | str | None, st.integers() | TEXT | st.none()),
    (Any, st.integers() | TEXT | st.tuples(st.integers(), TEXT) | st.sets(st.integers(), max_size=2)),
]  # fmt: skip
KEYS: list[Typed] = [typed for typed in SCALARS if typed[0] in (int, str, bytes, dt.date, Colour, uuid.UUID)]


def made_record(parts: list[Typed]) -> Typed:
    """A dataclass of the parts; its class is nowhere to be imported from."""
    cls = dataclasses.make_dataclass("Made", [(f"f{place}", hint) for place, (hint, _) in enumerate(parts)])
    return cls, st.builds(cls, **{f"f{place}": values for place, (_, values) in enumerate(parts)})


def containers(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    """Types made of a type."""
    return st.one_of(
        inner.map(lambda typed: (list[typed[0]], st.lists(typed[1], max_size=3))),  # type: ignore[name-defined]
        inner.map(lambda typed: (tuple[typed[0], ...], st.lists(typed[1], max_size=3).map(tuple))),  # type: ignore[name-defined]
        inner.filter(lambda typed: typed[0] is not Any).map(
            lambda typed: (typed[0] | None, st.none() | typed[1])
        ),
        st.tuples(st.sampled_from(KEYS), inner).map(
            lambda pair: (dict[pair[0][0], pair[1][0]], st.dictionaries(pair[0][1], pair[1][1], max_size=3))  # type: ignore[name-defined]
        ),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: (
                tuple[tuple(hint for hint, _ in parts)],
                st.tuples(*(values for _, values in parts)),
            )  # type: ignore[misc]
        ),
        st.lists(inner, min_size=1, max_size=3).map(made_record),
    )


ANY_TYPE: st.SearchStrategy[Typed] = st.recursive(st.sampled_from(SCALARS), containers, max_leaves=4)
TYPED_VALUES = ANY_TYPE.flatmap(lambda typed: st.tuples(st.just(typed[0]), st.lists(typed[1], max_size=5)))


@settings(max_examples=30)
@given(TYPED_VALUES)
def test_any_value_of_any_type_round_trips(typed: tuple[Any, list[Any]]) -> None:
    """Through Arrow and through Parquet every value stays what it is, classes and bits included."""
    check_round_trip(*typed)


@pytest.mark.proof
@settings(max_examples=3000)
@given(TYPED_VALUES)
def test_any_value_of_any_type_round_trips_many_times(typed: tuple[Any, list[Any]]) -> None:
    """The same with many more types."""
    check_round_trip(*typed)


@pytest.mark.parametrize(("hint", "values"), SCALARS, ids=lambda case: str(case)[:30])
def test_each_single_type_round_trips(hint: Any, values: st.SearchStrategy[Any]) -> None:
    """Each type that others are made of, for itself."""

    @settings(max_examples=10)
    @given(st.lists(values, max_size=5))
    def check(some: list[Any]) -> None:
        check_round_trip(hint, some)

    check()


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (Options, [{"name": "a"}, {"name": "b", "size": None}, {"size": 3, "name": "c"}]),
        (Options, [{"name": "d", "free": None}, {"name": "e", "free": {1}}]),
        (Options | None, [None, {"name": "a", "since": dt.date(1, 1, 1)}]),
        (Pair | None, [None, Pair(1, None), Pair(True, "\ud800")]),
        (Visit, [Visit("/", AMBIGUOUS, {1: {2}}), Visit("/", AMBIGUOUS.replace(fold=0))]),
        (list[Visit | None], [[None], [], [Visit("\ud800", dt.datetime.min, 2**80)]]),
        (dict[float, int], [{0.5: 1, -0.0: 2}, {}]),
        (tuple[set[int], dict[dt.date, Any], int], [({1}, {dt.date.max: (1, {2})}, 2**64)]),
        (tuple[set[int], dict[dt.date, Any], int], [(set(), {}, 1)]),
        (int | str | Visit, [1, "\ud800", Visit("/", dt.datetime.max)]),
        (np.ndarray, [np.arange(3), np.zeros((1, 2), np.int8)]),
        (Annotated[Pair, hg.json], [Pair(2**70, None)]),
        (bool, []),
    ],
    ids=lambda case: str(case)[:30],
)  # fmt: skip
def test_records_round_trip(hint: Any, values: list[Any]) -> None:
    """Records with absent keys, unset fields, parts without a type, and values that no column holds."""
    serializer = serializer_for(hint)
    batch = through_parquet(to_arrow(serializer, values))
    back = from_arrow(batch, serializer.describe(), serializer)
    assert list(map(repr, back)) == list(map(repr, values))


def test_what_fits_is_typed_and_only_the_rest_is_bytes() -> None:
    """In each row one column has the value; bytes are what the serializer writes."""
    serializer = serializer_for(int)
    batch = to_arrow(serializer, [1, 2**63, True, -(2**63)])
    assert batch.column("value").to_pylist() == [1, None, None, -(2**63)]
    cells = batch.column("value_raw").to_pylist()
    assert [cell and serializer.decode(cell) for cell in cells] == [None, 2**63, True, None]
    assert to_arrow(serializer_for(bool), [True]).schema.names == ["value"]
    assert to_arrow(serializer_for(Any), [(1,)]).schema.names == ["value_raw"]


@hg.formerly(f"{__name__}.Visit")
@dataclass
class PageView:
    url: Annotated[str, hg.alias("page")]
    at: dt.datetime | None
    country: str = "?"


def test_columns_of_an_older_type_become_the_new_one() -> None:
    """Columns follow the same rules as bytes: renamed, widened, added and removed fields."""
    old, new = serializer_for(Visit), serializer_for(PageView)
    visits = [Visit("/", dt.datetime.min), Visit("\ud800", dt.datetime.max, {1})]
    back = from_arrow(through_parquet(to_arrow(old, visits)), old.describe(), new)
    assert back == [PageView("/", dt.datetime.min), PageView("\ud800", dt.datetime.max)]
    with pytest.raises(UsageError, match=r"was the record .*Visit and is"):
        from_arrow(to_arrow(old, visits), old.describe(), serializer_for(Pair))


def test_a_value_of_another_type_is_refused_when_written() -> None:
    """As in every checkpoint, and not when it is read."""
    with pytest.raises(UsageError, match="'a' of type str is not a int"):
        to_arrow(serializer_for(int), ["a"])


@pytest.mark.parametrize("cell", [b"", b"\x00", b"\x02\x91\x01", b"\x00\x92\x01\x02", b"\x01\xc1"])
def test_cells_that_are_no_batch_are_refused(cell: bytes) -> None:
    """Bytes that nobody wrote so end the reading with one error."""
    ints = serializer_for(int)
    batch = pa.record_batch({"value": pa.array([None], pa.int64()), "value_raw": pa.array([cell])})
    with pytest.raises(StorageError, match="column 'value' does not hold stored values"):
        from_arrow(batch, ints.describe(), ints)
    empty = pa.record_batch(
        {"value": pa.array([None], pa.int64()), "value_raw": pa.array([None], pa.binary())}
    )
    with pytest.raises(StorageError):
        from_arrow(empty, ints.describe(), ints)


@settings(max_examples=20)
@given(TYPED_VALUES)
def test_batches_are_taken_apart_and_closed_again(typed: tuple[Any, list[Any]]) -> None:
    """In either mode, and in a mixture of both; what is within 64 bits comes out of both the same."""
    hint, values = typed
    serializer = serializer_for(hint)
    stored = serializer.describe()
    plain = open_batch(stored, serializer.encode_many(values), len(values))
    back = serializer.decode_many(close_batch(stored, plain), len(values))
    assert exact(back) == exact(values)
    for value, one in zip(values, plain, strict=True):
        alone = serializer.encode(value)
        assert (type(one) is Beyond) == (alone[0] == 1 and stored["kind"] != "any")


@pytest.mark.parametrize(
    "data", [b"", b"\x07\x90", b"\x00\x91", b"\x00\x81\x01\x01", b"\x01\xc1", b"\x00\x92\x01\x01"]
)
def test_bytes_that_are_no_batch_are_refused(data: bytes) -> None:
    """One error, whatever is wrong."""
    with pytest.raises(StorageError, match="a stored batch of int"):
        open_batch(serializer_for(int).describe(), data, 1)
