"""Values that pass through a rewriting without their classes come out as the bytes that went in."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import headgate as hg
from headgate.common.errors import UsageError
from headgate.serde.resolve import serializer_for
from headgate.state.canonical.table_layout import stored_type
from headgate.state.stored.blob_format import Chunk, Section
from headgate.state.stored.values import PlainMaps, PlainSerializer, PlainValues

HUGE = 2**70


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (int, [1, -5, HUGE]),
        (list[tuple[int, str]], [[(1, "a")], [], [(HUGE, "b")]]),
        (int | None, [None, 3]),
        (dict[str, Any], [{"a": (1, {2})}, {}]),
        (dt.datetime, [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]),
    ],
)
def test_plain_values_are_written_as_they_were(hint: Any, values: list[Any]) -> None:
    """Every mode of a batch, split into single values and put together again."""
    serializer = serializer_for(hint)
    plain = PlainSerializer(serializer.describe())
    apart = [
        plain.encode_many([one]) for one in plain.decode_many(serializer.encode_many(values), len(values))
    ]
    back = [value for one in apart for value in plain.decode_many(one, 1)]
    assert serializer.decode_many(plain.encode_many(back), len(values)) == values


@pytest.mark.parametrize(
    ("key", "value", "maps"),
    [
        (str, int, [{"b": 1, "a": HUGE}, {}]),
        (tuple[int, str], list[int], [{(1, "x"): [1], (HUGE, "y"): []}]),
        (dt.date, str, [{dt.date(2026, 1, 2): "a", dt.date(2025, 1, 2): "\ud800"}]),
    ],
)
def test_entries_of_plain_maps_can_be_told_apart(key: Any, value: Any, maps: list[dict[Any, Any]]) -> None:
    """As many entries, in their order, whatever msgpack makes of the keys."""
    serializer = serializer_for(dict[key, value])
    schema = {"kind": "map", "of": [serializer_for(key).describe(), serializer_for(value).describe()]}
    plain = PlainMaps(*schema["of"])
    found = plain.decode_many(serializer.encode_many(maps), len(maps))
    assert [len(each) for each in found] == [len(each) for each in maps]
    singles = [{k: v} for each in found for k, v in each.items()]
    merged = [{k: v for one in singles for k, v in one.items()}]
    together = {k: v for each in maps for k, v in each.items()}
    assert serializer.decode_many(plain.encode_many(merged), 1) == [together]
    assert stored_type(schema)["kind"] == "dict"


class Celsius(hg.TypeSerializer[float]):
    """A serializer of a program's own."""

    def snapshot(self) -> Any:
        raise NotImplementedError

    def encode(self, value: float) -> bytes:
        return str(value).encode()

    def decode(self, data: bytes) -> float:
        return float(data)


def test_values_of_a_programs_own_serializer_need_the_program() -> None:
    """Unless each has bytes of its own."""
    schema = {"kind": "value", "of": [{"kind": "custom", "version": 1, "name": "Celsius", "snapshot": b""}]}
    both = Celsius().encode_many([1.5, 2.5])
    with pytest.raises(UsageError, match="state 'heat' was written by a serializer of the program's own"):
        PlainValues().codec(Section("heat", schema, [Chunk(0, 0, len(both), 2, 0)]))
    one = Celsius().encode_many([1.5])
    form = PlainValues().codec(Section("heat", schema, [Chunk(0, 0, len(one), 1, 0)]))
    assert form is not None
    assert form.target.serializer.encode_many(form.read(one, 1)) == one


def test_values_of_two_types_need_the_program() -> None:
    """One section of a blob has one type."""
    forms = PlainValues()
    forms.codec(Section("count", {"kind": "value", "of": [serializer_for(int).describe()]}, []))
    with pytest.raises(UsageError, match="state 'count' holds values of several types"):
        forms.codec(Section("count", {"kind": "value", "of": [serializer_for(float).describe()]}, []))
