"""The dynamic codec: plain values of unknown type come back equal and of the same type."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections import OrderedDict
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import StorageError, UsageError
from headgate.serde.codecs.dynamic import DynamicSerializer, untag
from headgate.serde.codecs.pickled import decode_rows, encode_rows

codec = DynamicSerializer()
small = settings(max_examples=80, derandomize=True, deadline=None, database=None)

text = st.text(alphabet=st.characters(), max_size=8)
atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | text
    | st.binary(max_size=8)
    | st.datetimes()
    | st.datetimes(timezones=st.sampled_from([dt.UTC, ZoneInfo("Europe/Warsaw")]), allow_imaginary=True)
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
)
hashables = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
plain = st.recursive(
    hashables,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(hashables, inner, max_size=3)
        | st.sets(hashables, max_size=3)
    ),
    max_leaves=10,
)


def typed(value: Any) -> Any:
    """The value with the type of every part, so that 1, 1.0 and True differ; order of sets is left out."""
    if isinstance(value, (list, tuple)):
        return type(value), [typed(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return type(value), sorted(map(repr, map(typed, value)))
    if isinstance(value, dict):
        return dict, [(typed(key), typed(entry)) for key, entry in value.items()]
    extra = (value.fold, repr(value.tzinfo)) if isinstance(value, (dt.datetime, dt.time)) else ()
    return type(value), repr(value), extra


def round_trip(batch: list[Any]) -> list[Any]:
    """A batch, encoded and decoded."""
    return codec.decode_many(codec.encode_many(batch), len(batch))


@small
@given(st.lists(plain, max_size=5))
def test_any_plain_values_round_trip(batch: list[Any]) -> None:
    """Every batch comes back equal, with every part of the type it had."""
    assert typed(batch) == typed(round_trip(batch))


@small
@given(
    st.one_of(
        st.lists(st.tuples(text, st.integers())),
        st.lists(st.lists(st.none() | st.booleans() | st.floats(allow_nan=False) | st.binary()).map(tuple)),
        st.lists(st.dictionaries(text, st.integers(-(2**65), 2**65) | text, max_size=3)),
        st.lists(st.integers()),
    )
)
def test_homogeneous_batches_round_trip(batch: list[Any]) -> None:
    """Batches that may take the fast path come back the same, whichever path they take."""
    assert typed(batch) == typed(round_trip(batch))


@pytest.mark.parametrize(
    "value",
    [
        2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**400, "\ud800", ("\udfff", {"\ud800": 1}), -0.0, math.inf,
        (), [], {}, set(), frozenset(), ((),), {"a": (1,)}, {1: "a", "1": "b"}, {(1, (2,)): {3}},
        dt.timedelta.max, dt.timedelta.min, dt.datetime.max, dt.datetime.min, dt.date.max,
        dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Warsaw")),
        dt.datetime(2024, 1, 1, fold=1), dt.datetime(2024, 1, 1,
        tzinfo=dt.timezone(dt.timedelta(hours=1), "CET")),
        dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5))), dt.time(1, 2, 3, 4, tzinfo=dt.UTC),
        Decimal("-0.00"), Decimal("Infinity"), Decimal("1E+5"), uuid.UUID(int=7),
    ],
    ids=lambda value: repr(value)[:40],
)  # fmt: skip
def test_edge_values_round_trip(value: Any) -> None:
    """The ends of every type's range come back exactly."""
    assert typed([value]) == typed(round_trip([value]))
    assert typed(value) == typed(codec.decode(codec.encode(value)))


def test_nan_round_trips() -> None:
    """NaN, as float and Decimal, comes back as NaN."""
    back = round_trip([math.nan, Decimal("sNaN")])
    assert math.isnan(back[0])
    assert str(back[1]) == "sNaN"


class Point(NamedTuple):
    x: int


class Shout(str):
    """A str of another class."""


@pytest.mark.parametrize(
    "value", [Point(1), Shout("a"), object(), OrderedDict(a=1), b"a".__class__, bytearray(b"a")]
)
def test_what_is_not_plain_is_refused(value: Any) -> None:
    """Other classes, subclasses too, are refused at any depth, with the type and the way out."""
    for nested in (value, [value], ({"a": value},)):
        with pytest.raises(UsageError, match=rf"{type(value).__qualname__} has no declared type.*annotate"):
            codec.encode_many([nested])


def test_unknown_time_zones_are_refused() -> None:
    """A time zone that has no name to find it again by is refused."""

    class Mars(dt.tzinfo):
        def utcoffset(self, when: dt.datetime | None) -> dt.timedelta:
            return dt.timedelta(minutes=39)

    with pytest.raises(UsageError, match="Mars"):
        codec.encode(dt.datetime(2024, 1, 1, tzinfo=Mars()))


def test_a_value_inside_itself_is_refused() -> None:
    """Endless values are refused, not followed."""
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UsageError, match="contains itself"):
        codec.encode(endless)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (b"\x00", 0),
        (b"\x00\x91", 1),
        (b"\x00\x91\x01", 2),
        (b"\x01\x91\x01", 1),
        (b"\x00\x91\xc7\x01\x63a", 1),
    ],
)
def test_wrong_bytes_are_refused(data: bytes, count: int) -> None:
    """Bytes that are no batch of that many values are refused as such."""
    with pytest.raises(StorageError):
        codec.decode_many(data, count)


def test_unknown_extension_types_are_refused() -> None:
    """An extension type of another format is named."""
    with pytest.raises(StorageError, match="extension type 99"):
        untag(99, memoryview(b""))


def test_copies_are_deep() -> None:
    """Changing a value does not reach its copy."""
    value = {"a": [1]}
    copied = codec.copy(value)
    value["a"].append(2)
    assert copied == {"a": [1]}
    assert not codec.immutable


def test_pickled_rows_round_trip_and_refuse() -> None:
    """Rows of any class travel between workers; what pickle refuses is a usage error."""
    assert [Point(1), "a"] == decode_rows(encode_rows([Point(1), "a"]))
    with pytest.raises(UsageError, match="cannot be sent to another worker"):
        encode_rows([lambda: 0])
