"""Values stored as JSON text: readable as it lies there, without loss, evolving as the inner type does."""

from __future__ import annotations

import datetime as dt
import enum
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.serde.evolution.judging_types import judge, reader_for
from headgate.serde.resolve import serializer_for
from headgate.serde.verdicts import AfterMigration, AsIs, Incompatible


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: int
    y: float


class Options(TypedDict):
    name: str
    size: NotRequired[int]


@dataclass
class Visit:
    page: str
    count: int | None = None
    colour: Colour = Colour.RED
    points: list[Point] = field(default_factory=list)
    by_page: dict[str, float] = field(default_factory=dict)
    extra: Any = None


def as_json(hint: Any) -> Any:
    """The serializer of a type as JSON text."""
    return serializer_for(Annotated[hint, hg.json])


def text_of(hint: Any, value: Any) -> str:
    """The stored text of a value."""
    (text,) = msgspec.msgpack.decode(as_json(hint).encode_checked([value])[1:])
    return str(text)


def round_trip(hint: Any, value: Any) -> Any:
    """The value as it comes back, after its text passed an ordinary reader of JSON."""
    json.loads(text_of(hint, value))
    return as_json(hint).decode(as_json(hint).encode_checked([value]))


plain_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
numbers = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | plain_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain_text, inner, max_size=3),
    max_leaves=6,
)


# -- what is stored


@settings(max_examples=60)
@given(json_values)
def test_what_json_has_comes_back(value: Any) -> None:
    """Of the same classes, the sign of zero and ints of any size included."""
    assert repr(round_trip(Any, value)) == repr(value)
    assert repr(round_trip(dict, {"a": value})) == repr({"a": value})
    assert repr(round_trip(list, [value])) == repr([value])


@settings(max_examples=40)
@given(
    st.builds(
        Visit,
        plain_text,
        st.none() | st.integers(),
        st.sampled_from(Colour),
        st.lists(st.builds(Point, st.integers(), numbers), max_size=2),
        st.dictionaries(plain_text, numbers, max_size=2),
        json_values,
    )
)
def test_records_come_back(value: Visit) -> None:
    """Of their class, alone and beside None."""
    assert round_trip(Visit, value) == value
    optional = serializer_for(Annotated[Visit, hg.json] | None)
    assert optional.decode_many(optional.encode_checked([value, None]), 2) == [value, None]


def test_records_are_objects_by_field() -> None:
    """So that another tool finds them in the raw."""
    value = Visit("a", 2, Colour.BLUE, [Point(1, 0.5)], {"x": 1.0}, {"any": [None]})
    assert json.loads(text_of(Visit, value)) == {
        "page": "a",
        "count": 2,
        "colour": "BLUE",
        "points": [{"x": 1, "y": 0.5}],
        "by_page": {"x": 1.0},
        "extra": {"any": [None]},
    }
    assert text_of(Options, {"name": "a"}) == '{"name":"a"}'


WINTER = dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
SINGLES: list[tuple[Any, Any, str]] = [
    (Decimal, Decimal("1.50"), '"1.50"'),
    (UUID, UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    (dt.date, dt.date(2024, 2, 3), '"2024-02-03"'),
    (dt.datetime, dt.datetime(2024, 2, 3, 4, 5, 6, 7), '"2024-02-03T04:05:06.000007"'),
    (dt.datetime, dt.datetime(2024, 2, 3, tzinfo=dt.UTC), '"2024-02-03T00:00:00+00:00"'),
    (dt.datetime, WINTER, '"2024-10-27T02:30:00+01:00[Europe/Berlin]"'),
    (dt.datetime, WINTER.replace(fold=0), '"2024-10-27T02:30:00+02:00[Europe/Berlin]"'),
    (dt.time, dt.time(1, 2, 3), '"01:02:03"'),
    (dt.time, dt.time(1, tzinfo=ZoneInfo("Europe/Berlin")), '"01:00:00[Europe/Berlin]"'),
    (dt.timedelta, dt.timedelta(days=1, microseconds=2), "[1,0,2]"),
    (Literal["a", 1], "a", '"a"'),
    (tuple[int, str], (1, "a"), '[1,"a"]'),
    (tuple[int, ...], (1, 2), "[1,2]"),
    (set[int], {1}, "[1]"),
    (int | str | None, None, "null"),
    (Point | Colour, Colour.RED, '[1,"RED"]'),
    (dict[Colour, int], {Colour.RED: 1}, '{"RED":1}'),
]


@pytest.mark.parametrize(("hint", "value", "text"), SINGLES, ids=repr)
def test_single_values(hint: Any, value: Any, text: str) -> None:
    """Their text, and the value with its class and zone."""
    found = round_trip(hint, value)
    assert (text_of(hint, value), found, type(found)) == (text, value, type(value))
    if isinstance(value, dt.datetime):
        assert (found.fold, str(found.tzinfo)) == (value.fold, str(value.tzinfo))


def test_the_description_is_over_the_inner_one() -> None:
    """With the inner type's properties for copies."""
    serializer = as_json(list[int])
    assert serializer.describe() == {
        "kind": "json", "version": 1, "of": serializer_for(list[int]).describe(),
    }  # fmt: skip
    assert (serializer.immutable, as_json(str).immutable) == (False, True)


# -- what would be lost


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Any, (1, 2)),
        (Any, {1: "a"}),
        (Any, b"a"),
        (Any, {"a": float("nan")}),
        (Any, dt.date(2024, 1, 1)),
        (Any, Point(1, 2.0)),
        (float, float("inf")),
        (float | None, float("nan")),
        (str, b"bytes"),
        (str, dt.date(2024, 1, 1)),
        (str, "\ud800"),
        (dict[str, int], {1: 1}),
        (dict, {(1,): 1}),
        (int, "1"),
        (dt.datetime, dt.datetime(2024, 1, 1, fold=1)),
        (dt.datetime, dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(0), "named"))),
    ],
    ids=repr,
)
def test_what_json_would_change_is_refused(hint: Any, value: Any) -> None:
    """When it is written: JSON writes dates as text, bytes as base64 and NaN as null."""
    with pytest.raises(hg.UsageError):
        as_json(hint).encode_checked([value])


@pytest.mark.parametrize("hint", [bytes, dict[int, str], np.ndarray, list[Annotated[int, hg.json]]])
def test_types_that_are_not_json_shaped_are_refused(hint: Any) -> None:
    """When the program is planned."""
    with pytest.raises(hg.UsageError, match=r"hg\.json (cannot hold|holds dicts with str keys)"):
        as_json(hint)


# -- damage


@pytest.mark.parametrize(
    "text", ["", "{", '{"x":1}', '{"x":1,"y":2,"z":3}', "[1,2]", "[" * 100_000, '{"x":"1","y":2}']
)
def test_other_text_is_a_storage_error(text: str) -> None:
    """Text that is no JSON, or not of this record."""
    with pytest.raises(hg.StorageError, match="json"):
        as_json(Point).decode_many(bytes([0]) + msgspec.msgpack.encode([text]), 1)


# -- evolution


@hg.formerly(f"{__name__}.Visit")
@dataclass
class PageView:
    url: Annotated[str, hg.alias("page")]
    count: float | None
    colour: Colour = Colour.RED
    country: str = "?"


def test_records_evolve_inside_the_text() -> None:
    """Renamed, widened, removed and added, as without hg.json; the text is the old one."""
    old, new = as_json(Visit), as_json(PageView)
    description = msgspec.msgpack.decode(msgspec.msgpack.encode(old.describe()))
    judged = judge(description, new)
    assert judged == judge(serializer_for(Visit).describe(), serializer_for(PageView))
    assert isinstance(judged, AfterMigration)
    data = old.encode_checked([Visit("a", 2, Colour.BLUE, [Point(1, 0.5)])])
    assert reader_for(description, new)(data, 1) == [PageView("a", 2.0, Colour.BLUE, "?")]


def test_what_does_not_evolve() -> None:
    """The inner type's own refusal; the format itself does not change."""
    assert judge(as_json(Visit).describe(), as_json(Visit)) == AsIs()
    judged = judge(as_json(str).describe(), as_json(int))
    assert judged == Incompatible("was str and is int")
    assert "keep hg.json" in judge(as_json(int).describe(), serializer_for(int)).why  # type: ignore[union-attr]
    assert isinstance(judge(serializer_for(int).describe(), as_json(int)), Incompatible)
    assert isinstance(judge(as_json(int).describe(), as_json(int | None)), AfterMigration)
