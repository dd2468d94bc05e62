"""Batches of one, many at a time: the same bytes and values as one by one, whatever the type."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.common.errors import StorageError, UsageError
from headgate.serde.codecs.dynamic import encode_tagged, encode_tagged_each
from headgate.serde.codecs.singles import Singles
from headgate.serde.resolve import serializer_for


@dataclass
class Visit:
    page: str
    seconds: float
    tags: list[str]


class Tenths(hg.TypeSerializer[float]):
    """A serializer of the user's, which works value by value."""

    immutable = True

    def encode(self, value: float) -> bytes:
        return round(value * 10).to_bytes(4, "big", signed=True)

    def decode(self, data: bytes) -> float:
        return int.from_bytes(data, "big", signed=True) / 10

    def snapshot(self) -> Any:
        return hg.SimpleTypeSerializerSnapshot(Tenths)


text = st.text(st.characters(), max_size=6)  # lone surrogates among them
CASES = [
    (serializer_for(int), st.integers()),
    (serializer_for(str), text),
    (serializer_for(bool | None), st.none() | st.booleans()),
    (serializer_for(dt.datetime), st.datetimes()),
    (serializer_for(dict[str, int]), st.dictionaries(text, st.integers(), max_size=3)),
    (serializer_for(Visit), st.builds(Visit, text, st.floats(allow_nan=False), st.lists(text, max_size=2))),
    (serializer_for(Any), st.integers() | text | st.lists(st.integers(), max_size=2)),
    (Tenths(), st.integers(-1000, 1000).map(lambda n: n / 10)),
]


@pytest.mark.parametrize(("serializer", "values"), CASES, ids=[case[0].name for case in CASES])
def test_they_are_what_the_serializer_makes_of_each_value(serializer: Any, values: Any) -> None:
    """Also where one value of many needs the slower mode: the bytes are part of checkpoints."""

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(st.lists(values, max_size=5))
    def check(some: list[Any]) -> None:
        singles = Singles(serializer)
        encoded = singles.encode(some)
        assert encoded == [serializer.encode_many((value,)) for value in some]
        assert singles.decode(encoded) == some

    check()


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x90", b"\0\x92\x01\x02", b"\0\x91\xc1", b"\0\x91\xa1a"])
def test_bytes_that_are_no_batch_of_one_are_told(data: bytes) -> None:
    """Two values in one and none in the next do not make up for each other."""
    singles = Singles(serializer_for(int))
    good = singles.encode([5])
    for batches in ([data], [*good, data], [b"\0\x92\x01\x02", data]):
        with pytest.raises(StorageError):
            singles.decode(batches)


def test_a_value_of_another_type_is_told_by_the_serializer() -> None:
    """What cannot be encoded at all fails with the type's name."""
    with pytest.raises(UsageError, match="Visit"):
        Singles(serializer_for(Visit)).encode([Visit("a", 1.0, []), 7])


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.one_of(
        st.lists(st.integers() | text | st.binary(max_size=3) | st.none() | st.booleans(), max_size=4),
        st.lists(st.tuples(st.integers(), text), max_size=4),
        st.lists(st.tuples(st.integers(), st.dates() | st.tuples(text)), max_size=4),
    )
)
def test_tagged_values_are_the_same_one_by_one(values: list[Any]) -> None:
    """The fast ways give the bytes of the slow one."""
    assert encode_tagged_each(values) == [encode_tagged(value) for value in values]
