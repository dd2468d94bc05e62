"""Serializers of the user's: one value or batches, damage and wrong values, lists and maps over them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.common.errors import StorageError, UsageError
from headgate.serde.composites import ListSerializer, MapSerializer
from headgate.serde.resolve import serializer_for
from headgate.serde.serializer import Buffer


class Text(hg.TypeSerializer[str]):
    """One value at a time."""

    immutable = True

    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()

    def snapshot(self) -> TextSnapshot:
        return TextSnapshot()


class TextSnapshot(hg.SimpleTypeSerializerSnapshot[str]):
    def __init__(self) -> None:
        super().__init__(Text)


class Points(hg.TypeSerializer[list[float]]):
    """Batches of pairs."""

    name = "points"

    def encode_many(self, values: Sequence[list[float]]) -> bytes:
        return b"".join(struct.pack(">2d", *value) for value in values)

    def decode_many(self, data: Buffer, count: int) -> list[list[float]]:
        return [list(pair) for pair in struct.iter_unpack(">2d", data)]

    def snapshot(self) -> PointsSnapshot:
        return PointsSnapshot()


class PointsSnapshot(hg.SimpleTypeSerializerSnapshot[list[float]]):
    def __init__(self) -> None:
        super().__init__(Points)


class Nothing(hg.TypeSerializer[Any]):
    """Neither pair of methods."""

    def snapshot(self) -> Any:
        raise NotImplementedError


TEXTS = st.lists(st.text(max_size=5), max_size=5)


@given(TEXTS)
@settings(max_examples=30)
def test_one_value_at_a_time_is_enough(values: list[str]) -> None:
    """Batches follow from single values, also empty ones and empty values."""
    text = Text()
    assert text.decode_many(memoryview(text.encode_many(values)), len(values)) == values
    assert text.encode_checked(values) == text.encode_many(values)


def test_batches_are_enough() -> None:
    """Single values follow from batches."""
    points = Points()
    assert points.decode(points.encode([1.0, 2.0])) == [1.0, 2.0]


def test_neither_is_refused_when_it_is_used() -> None:
    """There is no endless call of one default by the other."""
    with pytest.raises(UsageError, match=r"Nothing has neither encode\(\) nor encode_many\(\)"):
        Nothing().encode(1)
    with pytest.raises(UsageError, match=r"Nothing has neither decode\(\) nor decode_many\(\)"):
        Nothing().decode(b"")


def test_defaults() -> None:
    """The name is the class's; values are copied deeply unless they cannot be changed."""
    assert (Text().name, Points().name, Nothing().immutable) == ("Text", "points", False)
    value = [[1], [2]]
    copied = Nothing().copy(value)
    assert copied == value
    assert copied[0] is not value[0]
    text = "".join(["a", "b"])
    assert Text().copy(text) is text


@pytest.mark.parametrize("serializer", [Text(), Points()], ids=["single", "batch"])
def test_a_value_of_another_type_is_refused_before_it_is_stored(serializer: Any) -> None:
    """Whatever the user's code raises; the message shows the value."""
    with pytest.raises(UsageError, match=f"5 of type int is not a {serializer.name}"):
        serializer.encode_checked([5])


def test_a_batch_of_another_length_is_damaged() -> None:
    """A decoder of the user's need not count."""
    with pytest.raises(StorageError, match="a batch of points holds 2 values; expected 1"):
        Points().decode_stored(Points().encode_many([[1.0, 2.0], [3.0, 4.0]]), 1)


CONTAINERS: dict[str, tuple[Any, list[Any]]] = {
    "single": (Text(), ["a", "", "long"]),
    "batch": (Points(), [[1.0, 2.0], [3.0, 4.0]]),
    "list": (ListSerializer(Text()), [["a", "b"], [], ["c"]]),
    "list of built-in": (ListSerializer(serializer_for(int)), [[2**70], [1]]),
    "map": (MapSerializer(Text(), Points()), [{"a": [1.0, 2.0], "": [0.0, 1.0]}, {}]),
    "map of built-in": (MapSerializer(Text(), serializer_for(list[int])), [{"a": [1]}, {"b": [], "a": [2]}]),
    "nested": (ListSerializer(MapSerializer(Text(), ListSerializer(Text()))), [[{"a": ["b"]}], []]),
}


@pytest.mark.parametrize("what", CONTAINERS)
def test_composites_hold_what_they_are_given(what: str) -> None:
    """Values and their order come back; copies do not share what can be changed."""
    serializer, values = CONTAINERS[what]
    found = serializer.decode_many(serializer.encode_checked(values), len(values))
    assert found == values
    assert [list(one) for one in found] == [list(one) for one in values]
    assert serializer.copy(values[0]) == values[0]


@pytest.mark.parametrize("what", CONTAINERS)
@given(st.integers(0, 200), st.integers(0, 255), st.integers(0, 3))
@settings(max_examples=30)
def test_damaged_bytes_are_a_storage_error_or_other_values(what: str, at: int, byte: int, cut: int) -> None:
    """One byte changed and some cut off: no other exception, and never another number of values."""
    serializer, values = CONTAINERS[what]
    data = bytearray(serializer.encode_many(values))
    data[at % len(data)] = byte
    try:
        found = serializer.decode_stored(bytes(data[: len(data) - cut]), len(values))
    except StorageError:
        return
    assert len(found) == len(values)


def test_map_keys_that_became_equal_are_not_lost() -> None:
    """A decoder that makes two keys one is noticed."""

    class Lossy(Text):
        def decode(self, data: bytes) -> str:
            return data.decode()[:1]

    lossy = MapSerializer(Lossy(), Text())
    with pytest.raises(StorageError, match="keys of a dict"):
        lossy.decode_many(lossy.encode_many([{"ab": "1", "ac": "2"}]), 1)


def test_inner_copies_are_deep_where_they_must() -> None:
    """Elements that can be changed are copied, others are shared."""
    points = {"a": [1.0, 2.0]}
    copied = MapSerializer(Text(), Points()).copy(points)
    copied["a"].append(3.0)
    assert points == {"a": [1.0, 2.0]}
    pair = [[1.0, 2.0]]
    assert ListSerializer(Points()).copy(pair)[0] is not pair[0]
    assert ListSerializer(Text()).copy(["a"]) == ["a"]
    assert MapSerializer(Text(), Text()).copy({"a": "b"}) == {"a": "b"}
