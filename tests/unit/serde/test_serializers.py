# ruff: noqa: UP007, UP045 - both spellings of unions are under test
"""Serializers from type hints: lossless round trips, checks, immutability, descriptions."""

from __future__ import annotations

import datetime as dt
import enum
import re
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, Union

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import StorageError, UsageError
from headgate.serde.compatibility import AsIs, Incompatible, compare
from headgate.serde.resolve import serializer_for

small = settings(max_examples=40, derandomize=True, deadline=None, database=None)


class Colour(enum.Enum):
    RED = "r"
    BLUE = ("b", 1)


class Rank(enum.IntEnum):
    LOW = 1


class Perm(enum.Flag):
    R = 1
    W = 2


@dataclass
class Address:
    street: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    age: int
    address: Address | None = None
    extra: Any = None


@dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: Literal["EUR", "PLN"] = "EUR"


@dataclass
class Counted:
    """Its initialiser has an effect and takes less than there are fields."""

    start: int
    calls: int = field(init=False)

    def __post_init__(self) -> None:
        self.calls = self.start + 1


@dataclass
class Nothing:
    pass


class Pair(NamedTuple):
    left: int
    right: list[int]


class Options(TypedDict):
    name: str
    since: NotRequired[dt.date]


Odd = TypedDict("Odd", {"a-b": int, "class": tuple[int, int]})


class Event(msgspec.Struct, frozen=True):
    kind: str
    size: int = 0


class Keyword(msgspec.Struct, kw_only=True, rename="camel", tag="k"):
    first_name: str


class Marked:
    """Looks like a class made by attrs."""

    class _Attribute(NamedTuple):
        name: str

    __attrs_attrs__ = (_Attribute("x"), _Attribute("y"))
    x: int
    y: set[str]

    def __init__(self, x: int, y: set[str]) -> None:
        raise AssertionError("must not run at restore")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other)


def marked() -> Marked:
    """An instance that no initialiser made."""
    made = Marked.__new__(Marked)
    made.x, made.y = 2**80, {"a"}
    return made


UserId = NewType("UserId", int)
NOW = dt.datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=dt.UTC)

CASES: list[tuple[Any, list[Any]]] = [
    (None, [None, None]),
    (bool, [True, False]),
    (int, [0, -1, 2**63, 2**64, -(10**50)]),
    (float, [0.5, -0.0, float("inf"), 3, 2**70]),
    (str, ["", "żółw", "\ud800"]),
    (bytes, [b"", b"\xff"]),
    (UserId, [1]),
    (Annotated[int, "note"], [1]),
    (dt.datetime, [NOW, NOW.replace(tzinfo=None), dt.datetime.min]),
    (dt.date, [dt.date.max]),
    (dt.time, [dt.time(1, 2, 3, 4), dt.time(5, tzinfo=dt.UTC)]),
    (dt.timedelta, [dt.timedelta.max, dt.timedelta(microseconds=-1)]),
    (Decimal, [Decimal("1.10")]),
    (uuid.UUID, [uuid.UUID(int=1)]),
    (Colour, [Colour.RED, Colour.BLUE]),
    (Rank, [Rank.LOW]),
    (Perm, [Perm.R | Perm.W, Perm(0)]),
    (list[int], [[1, 2**70], []]),
    (list, [[1, (2,)], []]),
    (dict, [{(1,): {2}}]),
    (tuple, [(1, [2])]),
    (tuple[int, str], [(1, "a"), (2**70, "\ud800")]),
    (tuple[int, ...], [(), (1, 2)]),
    (tuple[()], [()]),
    (set[tuple[int, str]], [{(1, "a")}, set()]),
    (frozenset[dt.date], [frozenset({dt.date(2024, 1, 1)})]),
    (dict[str, int], [{"a": 1, "\ud800": 2**64}]),
    (dict[int, list[Decimal]], [{1: [Decimal(1)]}]),
    (dict[bytes, str], [{b"\x00": "a"}]),
    (dict[tuple[int, str], set[int]], [{(1, "a"): {2}, (2**70, "b"): set()}]),
    (dict[dt.date, Any], [{dt.date(2024, 1, 1): ("x", {1: 2})}]),
    (dict[float, bool], [{0.5: True}]),
    (Optional[int], [None, 2**70, 5]),
    (Optional[dt.datetime], [None, NOW]),
    (Optional[Any], [None, (1,)]),
    (list[Person] | None, [None, [Person("a", 2**64)]]),
    (Union[int, str, None], [1, "a", None, "\ud800", 2**90]),
    (int | float, [1, 1.0]),
    (bool | int | float | str | bytes | None, [True, 1, 1.0, "a", b"a", None, 2**64]),
    (list[int] | dict[str, int] | Colour, [[1], {"a": 1}, Colour.RED, [2**80]]),
    (Money | Person | tuple[int, int], [Money(Decimal(1)), Person("a", 1), (1, 2)]),
    (float | bytes, [1, 1.5, b"x", True]),
    (Literal["a", 1, True, None], ["a", 1, True, None]),
    (Address, [Address("s", ("a",)), Address("\ud800")]),
    (Person, [Person("a", 1), Person("b", 2**100, Address("s"), {"x": (1,)})]),
    (Money, [Money(Decimal("2.50"), "PLN")]),
    (Counted, [Counted(1)]),
    (Nothing, [Nothing()]),
    (Pair, [Pair(1, [2]), Pair(2**70, [])]),
    (Options, [{"name": "a"}, {"name": "b", "since": dt.date(2024, 1, 1)}, {"name": "\ud800"}]),
    (Odd, [{"a-b": 1, "class": (1, 2)}]),
    (Event, [Event("k", 2), Event("k", 2**70)]),
    (Keyword, [Keyword(first_name="a")]),
    (Marked, [marked()]),
    (Any, [1, (2,), {3}]),
]


def shape(value: Any) -> Any:
    """The type of every part of a value."""
    if isinstance(value, (list, tuple)):
        return type(value), [shape(part) for part in value]
    if isinstance(value, dict):
        return dict, [(shape(k), shape(v)) for k, v in value.items()]
    return type(value)


@pytest.mark.parametrize(("hint", "values"), CASES, ids=lambda case: str(case)[:50])
def test_values_round_trip(hint: Any, values: list[Any]) -> None:
    """A batch and each single value come back equal, part by part of the same type."""
    serializer = serializer_for(hint)
    back = serializer.decode_many(serializer.encode_checked(values), len(values))
    assert values == back
    assert shape(values) == shape(back)
    assert values == [serializer.decode(serializer.encode(value)) for value in values]
    assert isinstance(compare(serializer.describe(), serializer_for(hint).describe()), AsIs)


@pytest.mark.parametrize(("hint", "values"), CASES, ids=lambda case: str(case)[:50])
def test_descriptions_are_plain_data(hint: Any, values: list[Any]) -> None:
    """A description survives the metadata's codec and still equals itself."""
    description = serializer_for(hint).describe()
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(description))
    assert AsIs() == compare(stored, description)
    assert {"kind", "version"} <= stored.keys()


@small
@given(
    st.lists(
        st.tuples(st.text(alphabet=st.characters()), st.integers(), st.none() | st.floats(allow_nan=False)),
        max_size=5,
    )
)
def test_rows_of_any_content_round_trip(rows: list[tuple[str, int, float | None]]) -> None:
    """Typed rows hold any text, any integer and any float."""
    serializer = serializer_for(tuple[str, int, float | None])
    assert rows == serializer.decode_many(serializer.encode_checked(rows), len(rows))


@pytest.mark.parametrize(
    ("hint", "wrong"),
    [
        (int, "a"), (int, 1.0), (int, None), (bool, 1), (float, "1"), (str, b"a"), (bytes, "a"), (None, 0),
        (dt.date, NOW), (dt.datetime, "2024-01-01"), (Decimal, 1), (Colour, "RED"), (uuid.UUID, "x"),
        (list[int], (1,)), (list[int], ["a"]), (tuple[int, str], [1, "a"]), (tuple[int, str], (1,)),
        (tuple[int, ...], ("a",)), (set[int], frozenset({1})), (dict[str, int], {1: 1}),
        (dict[str, int], {"a": "b"}),
        (dict[dt.date, int], {1: 1}), (int | str, b""), (Optional[list[int]], 3), (Literal["a"], "b"),
        (Literal[1], True), (Money | Person, Address("s")), (Address, Person("a", 1)),
        (Person, Person("a", "b")),  # type: ignore[arg-type]
        (Pair, (1, [2])), (Options, {"nome": "a"}), (Options, {"name": "a", "x": 1}),
        (Event, Keyword(first_name="")),
        (list[Any], [object()]), (Address, object()),
    ],
    ids=lambda case: str(case)[:40],
)  # fmt: skip
def test_wrong_values_are_refused_when_written(hint: Any, wrong: Any) -> None:
    """A value that the annotation does not allow fails the checked encoding, not a later restore."""
    with pytest.raises(UsageError):
        serializer_for(hint).encode_checked([wrong])


def test_the_first_wrong_value_is_shown() -> None:
    """The message shows the value, its type and the declared one."""
    with pytest.raises(UsageError, match=r"'two' of type str is not a int"):
        serializer_for(int).encode_checked([1, "two", 3])
    with pytest.raises(UsageError, match=r"\['two'\] of type list is not a list\[int\]"):
        serializer_for(list[int]).encode_checked([[1], ["two"], ["three"]])


@pytest.mark.parametrize(
    ("hint", "immutable"),
    [
        (int, True), (str, True), (dt.datetime, True), (Colour, True), (tuple[int, str], True),
        (tuple[int, ...], True), (frozenset[int], True), (Optional[int], True), (Money, True), (Event, True),
        (Literal["a"], True), (list[int], False), (dict[str, int], False), (set[int], False), (Any, False),
        (tuple[list[int], int], False), (Address, False), (Person, False), (Pair, False), (Options, False),
        (Keyword, False), (Marked, False), (Optional[list[int]], False), (tuple, False),
    ],
    ids=str,
)  # fmt: skip
def test_immutability_is_known(hint: Any, immutable: bool) -> None:
    """Only types none of whose parts can be changed in place are immutable."""
    assert immutable is serializer_for(hint).immutable


@pytest.mark.parametrize(("hint", "values"), CASES, ids=lambda case: str(case)[:50])
def test_copies_are_equal(hint: Any, values: list[Any]) -> None:
    """A copy equals its original, and is the original where that cannot be changed."""
    serializer = serializer_for(hint)
    for value in values:
        copied = serializer.copy(value)
        assert value == copied
        assert copied is value or not serializer.immutable


def test_copies_of_mutable_values_are_apart() -> None:
    """Changing a value, or a value inside it, does not reach its copy."""
    nested: dict[str, list[int]] = {"a": [1]}
    copied = serializer_for(dict[str, list[int]]).copy(nested)
    nested["a"].append(2)
    nested["b"] = []
    assert copied == {"a": [1]}


@dataclass
class Node:
    children: list[Node]


@pytest.mark.parametrize(
    ("hint", "why"),
    [
        (object, "no serializer is known for object"),
        (complex, "no serializer is known for complex"),
        (list[complex], "no serializer is known for complex"),
        (Node, "contains itself"),
        (list[int] | list[str], "cannot be told apart"),
        (Literal[Colour.RED], "enumeration"),
        ("int", "no serializer"),
        (type[int], "no serializer"),
    ],
    ids=str,
)
def test_types_without_serializer_are_refused(hint: Any, why: str) -> None:
    """The refusal names where the type was declared and what is wrong with it."""
    with pytest.raises(UsageError, match=why) as caught:
        serializer_for(hint, "state 'x'")
    assert str(caught.value).startswith("state 'x' is declared as ")


@pytest.mark.parametrize(
    ("stored", "current", "why"),
    [
        (int, str, "kind was int and is str"),
        (list[int], list[str], "of.kind was int and is str"),
        (tuple[int, int], tuple[int], "of had 2 parts and has 1"),
        (Address, Money, "kind|name"),
        (Money, Event, "kind was dataclass and is struct"),
        (int | str, str | int, r"of\[0\].kind was int and is str"),
    ],
)
def test_changed_types_are_incompatible(stored: Any, current: Any, why: str) -> None:
    """The verdict names the first difference by its path."""
    verdict = compare(serializer_for(stored).describe(), serializer_for(current).describe())
    assert isinstance(verdict, Incompatible)
    assert re.search(why, verdict.why)


def test_changed_fields_are_incompatible() -> None:
    """A field added, removed or moved is told by name."""
    base = {"kind": "dataclass", "version": 1, "fields": {"a": {"kind": "int"}, "b": {"kind": "str"}}}
    added = {**base, "fields": {**base["fields"], "c": {"kind": "int"}}}  # type: ignore[dict-item]
    moved = {**base, "fields": {"b": {"kind": "str"}, "a": {"kind": "int"}}}
    assert Incompatible("fields.c is int and was not there") == compare(base, added)
    assert Incompatible("fields.c was int and is gone") == compare(added, base)
    assert Incompatible("fields changed their order") == compare(base, moved)


@pytest.mark.parametrize(
    ("data", "count"),
    [(b"", 1), (b"\x00\x91\xa1a", 1), (b"\x00\x91\x01", 2), (b"\x00\xc1", 1), (b"\x01\xc1", 1)],
)
def test_wrong_bytes_are_refused_by_typed_serializers(data: bytes, count: int) -> None:
    """Bytes of another type, of another count or of nothing at all are refused."""
    with pytest.raises(StorageError):
        serializer_for(int).decode_many(data, count)
