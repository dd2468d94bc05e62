"""Serializers of the user's: one value or batches, damage and wrong values, lists and maps over them."""

from __future__ import annotations

from typing import Any

import pytest
from custom_samples import Points, Text

import headgate as hg
from headgate.common.errors import StorageError, UsageError
from headgate.serde.composites import MapSerializer


class Nothing(hg.TypeSerializer[Any]):
    """Neither pair of methods."""

    def snapshot(self) -> Any:
        raise NotImplementedError


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


def test_map_keys_that_became_equal_are_not_lost() -> None:
    """A decoder that makes two keys one is noticed."""

    class Lossy(Text):
        def decode(self, data: bytes) -> str:
            return data.decode()[:1]

    lossy = MapSerializer(Lossy(), Text())
    with pytest.raises(StorageError, match="keys of a dict"):
        lossy.decode_many(lossy.encode_many([{"ab": "1", "ac": "2"}]), 1)
