"""Values of older shapes: what is judged readable, why the rest is not, and what the values become."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict

import msgspec
import pytest

import headgate as hg
from headgate.common.errors import UsageError
from headgate.serde.codecs.type_codec import Form, FormSerializer, describe
from headgate.serde.evolution.judging_types import judge, reader_for
from headgate.serde.resolve import serializer_for
from headgate.serde.verdicts import (
    AfterMigration,
    AsIs,
    Compatibility,
    Incompatible,
    Reconfigured,
    combined,
)

OLD = f"{__name__}.Visit"


def stored(hint: Any, *values: Any) -> tuple[Mapping[str, Any], bytes]:
    """What a checkpoint holds: the description after its codec, and the bytes."""
    serializer = serializer_for(hint)
    description = msgspec.msgpack.decode(msgspec.msgpack.encode(serializer.describe()))
    return description, serializer.encode_checked(list(values))


def read(old: Any, new: Any, *values: Any) -> list[Any]:
    """Values written as one type and read as another; the result is of the new type."""
    description, data = stored(old, *values)
    current = serializer_for(new)
    found = reader_for(description, current)(data, len(values))
    # What was read can be written: the next snapshot has the new shape.
    assert found == current.decode_many(current.encode_checked(found), len(found))
    return found


def verdict(old: Any, new: Any) -> Compatibility:
    """The judgement of one type on another."""
    return judge(serializer_for(old).describe(), serializer_for(new))


def refusal(old: Any, new: Any) -> str:
    """Why one type cannot be read as another; the reader says the same."""
    judged = verdict(old, new)
    assert isinstance(judged, Incompatible)
    with pytest.raises(UsageError) as caught:
        reader_for(serializer_for(old).describe(), serializer_for(new))
    assert str(caught.value) == judged.why
    return judged.why


def named(cls: Any) -> Any:
    """Give a class the name of all others here, as if they were one class at different times."""
    cls.__qualname__ = "Visit"
    return cls


# -- verdicts


AS_IS, MIGRATE, RECONFIGURE, NO = AsIs(), AfterMigration(("m",)), Reconfigured(("r",)), Incompatible("i")


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([AS_IS, MIGRATE, NO, RECONFIGURE], Incompatible),
        ([AS_IS, MIGRATE, RECONFIGURE, AS_IS], AfterMigration),
        ([AS_IS, RECONFIGURE, AS_IS], Reconfigured),
        ([AS_IS, AS_IS], AsIs),
        ([], AsIs),
        ([NO, AS_IS], Incompatible),
        ([MIGRATE, RECONFIGURE], AfterMigration),
        ([RECONFIGURE, MIGRATE], AfterMigration),
    ],
)
def test_ss1_the_gravest_part_decides(parts: list[Compatibility], kind: type) -> None:
    """sS1, sS2: incompatible, after migration, reconfigured, as is; the whole counts as a part."""
    assert type(combined(parts)) is kind


@named
class Colour(enum.Enum):
    RED = 1


@named
class MoreColours(enum.Enum):
    GREEN = 2
    RED = 1


Pair = NewType("Pair", tuple[int, str])


def test_the_gravest_element_of_a_tuple_decides() -> None:
    """sS1 on a real type: the same with elements that are judged."""
    text, number, colour = (str, str), (int, float), (Colour, MoreColours)
    for parts, kind in [
        ([text, number, (str, int), colour], Incompatible),
        ([text, number, colour, text], AfterMigration),
        ([text, colour, text], Reconfigured),
        ([text, text], AsIs),
    ]:
        old, new = (tuple[tuple(part[place] for part in parts)] for place in (0, 1))  # type: ignore[misc]
        assert type(verdict(old, new)) is kind


def test_ss2_another_arity_is_incompatible() -> None:
    """sS2: one element before, three now."""
    assert "was a tuple of 1 and is one of 3" in refusal(tuple[int], tuple[int, int, int])
    assert "was a tuple of 2 and is one of 1" in refusal(tuple[int, str], tuple[int])


# -- records


@named
@dataclass
class Visit:
    page: str
    count: int
    kind: Colour = Colour.RED


@named
@dataclass
class Fewer:
    page: str


@named
@dataclass
class More:
    page: str
    count: int
    kind: Colour = Colour.RED
    tags: list[str] = field(default_factory=list)
    since: dt.date | None = None


@named
@dataclass
class Both:
    count: int
    added: str = "new"


def test_ss6_fields_removed_and_added_are_migrations() -> None:
    """sS6: the same fields are as is; removed, added or both ask for a migration."""
    assert AsIs() == verdict(Visit, Visit)
    gone = (f"field {name!r} of {OLD} was removed" for name in ("count", "kind"))
    assert AfterMigration(tuple(gone)) == verdict(Visit, Fewer)
    assert isinstance(verdict(Visit, More), AfterMigration)
    assert isinstance(verdict(Visit, Both), AfterMigration)
    old = [Visit("a", 1), Visit("\ud800", 2**80)]  # in both modes of the bytes
    for values in ([old[0]], [old[1]], old):
        assert [Fewer(one.page) for one in values] == read(Visit, Fewer, *values)
        assert [More(one.page, one.count) for one in values] == read(Visit, More, *values)
        assert [Both(one.count) for one in values] == read(Visit, Both, *values)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [(int, str, Incompatible), (int, float, AfterMigration), (Colour, MoreColours, Reconfigured)],
)
def test_ss6_a_field_decides_for_its_record(old: Any, new: Any, kind: type) -> None:
    """sS6: a field that is incompatible, migrates or is reconfigured makes the record so."""
    before, after = (msgspec.defstruct("Visit", [("x", hint)], module=__name__) for hint in (old, new))
    judged = verdict(before, after)
    assert type(judged) is kind
    assert f"field 'x' of {OLD}: " in str(judged)


def test_defaults_are_made_per_record() -> None:
    """A factory is called for each record; a mutable default is not shared."""
    numbers = count()

    @named
    @dataclass
    class Numbered:
        page: str
        number: int = field(default_factory=numbers.__next__)

    shared = msgspec.defstruct("Visit", [("page", str), ("tags", list[str], [])], module=__name__)
    assert [one.number for one in read(Fewer, Numbered, *map(Fewer, "abc"))] == [0, 1, 2]
    first, second = read(Fewer, shared, Fewer("a"), Fewer("b"))
    first.tags.append("x")
    assert second.tags == []


@named
class Plain(NamedTuple):
    page: str
    count: int = 7


@named
class Keys(TypedDict):
    page: str
    count: NotRequired[int]


@named
class Struct(msgspec.Struct):
    page: str
    count: int = 7


@named
class Attrs:
    """Looks like a class made by attrs; is made without its initialiser."""

    class _Attribute(NamedTuple):
        name: str
        default: Any

    class _Nothing:
        pass

    __attrs_attrs__ = (_Attribute("page", _Nothing()), _Attribute("count", 7))
    page: str
    count: int

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other)


def attrs(page: str, number: int = 7) -> Attrs:
    """An instance."""
    made = Attrs.__new__(Attrs)
    made.page, made.count = page, number
    return made


@named
@dataclass(frozen=True)
class Data:
    page: str
    count: int = 7


KINDS: dict[Any, Any] = {
    Plain: Plain,
    Keys: lambda page, number: {"page": page, "count": number},
    Struct: Struct,
    Attrs: attrs,
    Data: Data,
}


@pytest.mark.parametrize("new", KINDS)
@pytest.mark.parametrize("old", [*KINDS, Fewer])
def test_the_kind_of_a_record_may_change(old: Any, new: Any) -> None:
    """Every kind of record is read as every other, and each knows its defaults."""
    if old is Fewer:
        absent = {"page": "a"} if new is Keys else KINDS[new]("a", 7)
        assert [absent] == read(old, new, Fewer("a"))
    else:
        assert [KINDS[new]("a", 2**70)] == read(old, new, KINDS[old]("a", 2**70))


def test_a_key_that_may_be_absent_needs_a_default() -> None:
    """NotRequired becomes a field with a default, and nothing else."""
    assert [Data("a"), Data("b", 1)] == read(Keys, Data, {"page": "a"}, {"page": "b", "count": 1})
    assert "was NotRequired and must be there now" in refusal(Keys, Visit)
    strict = named(TypedDict("strict", {"page": str, "count": int}))
    assert read(strict, Keys, {"page": "a", "count": 1}) == [{"page": "a", "count": 1}]
    assert "must be there now" in refusal(Keys, strict)


def test_a_field_without_a_default_is_named() -> None:
    """Nobody can know its value; the message says what to do."""
    why = refusal(Fewer, Visit)
    assert f"field 'count' was added to {OLD} without a default" in why
    assert "give it a default, or hg.alias(...)" in why


def test_a_default_of_another_type_is_refused_at_restore() -> None:
    """It would fail the next snapshot, long after the change."""
    wrong = msgspec.defstruct("Visit", [("page", str), ("count", int, None)], module=__name__)
    assert "with a default of another type: None of type NoneType is not a int" in refusal(Fewer, wrong)


# -- names


@named
@dataclass
class Renamed:
    total: Annotated[float, hg.alias("count")]
    url: Annotated[str, hg.alias("address", "page")]


def test_renamed_fields_are_found_by_their_aliases() -> None:
    """Renamed, moved and widened at once."""
    assert [Renamed(3.0, "a")] == read(Data, Renamed, Data("a", 3))
    judged = verdict(Data, Renamed)
    assert isinstance(judged, AfterMigration)
    assert f"field 'count' of {OLD} became 'total'" in judged.changes


@named
@dataclass
class Reused:
    url: Annotated[str, hg.alias("page")]
    page: int = 0


@named
class AliasedKeys(TypedDict):
    url: NotRequired[Annotated[str, hg.alias("page")]]
    total: Annotated[NotRequired[int], hg.alias("count")]


def test_an_old_name_may_be_used_again() -> None:
    """The alias takes what was stored under it; the field that has the name now is an added one."""
    assert [Reused("a")] == read(Fewer, Reused, Fewer("a"))
    assert [Reused("a", 5)] == read(Reused, Reused, Reused("a", 5))
    assert read(Keys, AliasedKeys, {"page": "a", "count": 1}, {"page": "b"}) == [
        {"url": "a", "total": 1},
        {"url": "b"},
    ]


def test_two_fields_cannot_have_been_one() -> None:
    """An alias that two fields claim is refused by name."""
    claimed = msgspec.defstruct(
        "Visit", [(name, Annotated[str, hg.alias("page")]) for name in ("a", "b")], module=__name__
    )
    assert f"fields 'a' and 'b' of {OLD} both have the alias 'page'" in refusal(Fewer, claimed)


mark = hg.formerly("old.place.Visit", OLD)


@mark
@dataclass(slots=True)
class Moved:
    page: str


@mark
class Hue(enum.Enum):
    RED = 1


@mark
@dataclass
class Base:
    page: str


class Inherits(Base):
    pass


@mark
class MovedKeys(TypedDict):
    page: str


@mark
class MovedTuple(NamedTuple):
    page: str


@mark
class MovedStruct(msgspec.Struct):
    page: str


def test_renamed_classes_say_so() -> None:
    """Records of every kind and enumerations; without the mark, or with a base's, they are other classes."""
    assert [Hue.RED] == read(Colour, Hue, Colour.RED)  # noqa: SIM300
    for moved in (Moved, Base, MovedTuple, MovedStruct):
        assert read(Fewer, moved, Fewer("a")) == [moved("a")]
    assert read(Fewer, MovedKeys, Fewer("a")) == [{"page": "a"}]
    assert f"mark it with @hg.formerly('{OLD}')" in refusal(Fewer, Inherits)
    assert f"mark it with @hg.formerly('{__name__}.Base')" in refusal(Base, Inherits)
    assert "was the enumeration" in refusal(Hue, Colour)


@pytest.mark.parametrize("names", [(), ("",), (1,)])
def test_earlier_names_are_text(names: Any) -> None:
    """Both marks refuse what is no name."""
    with pytest.raises(UsageError, match=r"alias.* got"):
        hg.alias(*names)
    with pytest.raises(UsageError, match=r"formerly.* got"):
        hg.formerly(*names)


# -- widening and narrowing


BIG = 2**53 + 1

WIDENED: list[tuple[Any, Any, list[Any], list[Any]]] = [
    (int, float, [1, True, BIG, 2**80], [1.0, 1.0, BIG, 2**80]),
    (int, int | None, [1], [1]),
    (str, int | str | dt.date, ["a"], ["a"]),
    (dt.date, dt.date | None, [dt.date(2024, 1, 1)], [dt.date(2024, 1, 1)]),
    (int | None, int | str | None, [1, None, 2**70], [1, None, 2**70]),
    (int | None, float | None, [1, None], [1.0, None]),
    (int | float, float, [1, 1.5], [1.0, 1.5]),
    (float | str, str | float, [1, 1.5, "a"], [1, 1.5, "a"]),
    (list[int] | str, list[float] | str | None, [[1], "a", [2**80]], [[1.0], "a", [2**80]]),
    (list[int] | None, list[float] | None, [[1], None], [[1.0], None]),
    (Literal["a"], Literal["b", "a"], ["a"], ["a"]),
    (Literal["a"], Literal["a", 1, None], ["a"], ["a"]),
    (Literal["a"], str, ["a"], ["a"]),
    (Literal["a", 1], str | int, ["a", 1], ["a", 1]),
    (Literal[b"a"], Literal[b"a"] | None, [b"a"], [b"a"]),
    (NewType("Id", int), Annotated[int, "x"], [1], [1]),
    (tuple[int, str], Pair, [(1, "a")], [(1, "a")]),
    (list[int], list[float], [[1], []], [[1.0], []]),
    (tuple[int, ...], tuple[float, ...], [(1,)], [(1.0,)]),
    (tuple[int, dt.date], tuple[float, dt.date | None], [(1, dt.date.max)], [(1.0, dt.date.max)]),
    (set[int], set[float], [{1, BIG}], [{1.0, BIG}]),
    (frozenset[dt.date], frozenset[dt.date | None], [frozenset({dt.date.max})], [frozenset({dt.date.max})]),
    (dict[str, int], dict[str, float], [{"a": 1}], [{"a": 1.0}]),
    (dict[int, int], dict[int | dt.date, float], [{1: 2}], [{1: 2.0}]),
    (dict[dt.date, int], dict[dt.date, int | None], [{dt.date.max: 1}], [{dt.date.max: 1}]),
    (int, Any, [1, 2**70], [1, 2**70]),
    (int, Any | None, [1], [1]),
    (Any, Any | None, [(1,), (2,)], [(1,), (2,)]),
    (list[tuple[int, ...]], Any, [[(1,)]], [[(1,)]]),
    (tuple[dt.date, bytes], Any, [(dt.date.max, b"a")], [(dt.date.max, b"a")]),
    (dict[dt.date, set[int]] | None, Any, [{dt.date.max: {1}}, None], [{dt.date.max: {1}}, None]),
    (list[int] | dt.date, Any, [[1], dt.date.max], [[1], dt.date.max]),
    (Literal["a"], Any, ["a"], ["a"]),
    (list[int], list[Any], [[1]], [[1]]),
    (Keys, Any, [{"page": "a"}], [{"page": "a"}]),
]


@pytest.mark.parametrize(("old", "new", "values", "expected"), WIDENED, ids=lambda case: str(case)[:40])
def test_types_may_widen(old: Any, new: Any, values: list[Any], expected: list[Any]) -> None:
    """Each value is found again, of the wider type."""
    found = read(old, new, *values)
    assert expected == found
    assert list(map(type, expected)) == list(map(type, found))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (float, int, "was float and is int"),
        (bool, int, "was bool and is int"),
        (int | None, int, r"was int | None and is int, but None may be stored"),
        (int | str, int | None, "but str may be stored"),
        (Literal["a", "b"], Literal["a"], "which allows 'b' no longer"),
        (str, Literal["a"], "was str and is Literal['a']"),
        (list[int], tuple[int, ...], "was list and is tuple[int, ...]"),
        (list[int], list[str], "elements: was int and is str"),
        (dict[str, int], dict[str, str], "values: was int and is str"),
        (Any, int, "was Any and is int"),
        (Visit, Any, "takes plain values only"),
        (Colour, Any, "takes plain values only"),
        (list[Visit], list[Any], "takes plain values only"),
        (Plain, tuple[str, int], "was the record"),
        (tuple[str, int], Plain, "was tuple and is Visit"),
        (int, dt.date | str, "int fits no alternative of date | str"),
        (dt.date, dt.datetime, "was date and is datetime"),
    ],
    ids=str,
)
def test_narrowing_is_refused(old: Any, new: Any, why: str) -> None:
    """What may be stored must still be allowed."""
    assert why in refusal(old, new)


def test_unknown_kinds_and_versions_are_refused() -> None:
    """A description of a later Headgate is not guessed at."""
    for strange, why in [
        ({"kind": "int", "version": 2}, "version 2"),
        ({"kind": "x", "version": 1}, "was x"),
    ]:
        judged = judge(strange, serializer_for(float))
        assert isinstance(judged, Incompatible)
        assert why in judged.why


def test_kinds_that_do_not_evolve_say_what_differs() -> None:
    """A kind that evolution knows nothing of is read as it was written, or refused with the difference."""
    small, large = (Form("array", describe("array", dtype=dtype), Any) for dtype in ("f4", "f8"))
    assert judge(small.description, FormSerializer(small)) == AsIs()
    assert judge(small.description, FormSerializer(large)) == Incompatible("dtype was f4 and is f8")


@named
@dataclass(frozen=True)
class Point:
    x: int
    y: int


@named
@dataclass(frozen=True)
class Flat:
    x: int


def test_elements_must_not_become_equal() -> None:
    """A set of records that lose the field which told them apart would shrink without a word."""
    assert [{Flat(1), Flat(2)}] == read(set[Point], set[Flat], {Point(1, 1), Point(2, 1)})
    for old, new, value in [
        (set[Point], set[Flat], {Point(1, 1), Point(1, 2)}),
        (dict[Point, int], dict[Flat, int], {Point(1, 1): 1, Point(1, 2): 2}),
    ]:
        with pytest.raises(UsageError, match="2 stored elements of a set or keys of a dict became 1"):
            read(old, new, value)


# -- enumerations


@named
class Crimson(enum.Enum):
    CRIMSON = 1
    RED = CRIMSON


@named
class Perm(enum.Flag):
    R = 1
    W = 2


@named
class MorePerm(enum.Flag):
    W = 2
    R = 1
    X = 4


@named
class OtherPerm(enum.Flag):
    R = 2
    W = 1


def test_members_may_be_added_moved_and_renamed() -> None:
    """Members are stored by name, flags by value: what still resolves is only reconfigured."""
    for old, new in [(Colour, MoreColours), (Colour, Crimson), (Perm, MorePerm)]:
        assert isinstance(verdict(old, new), Reconfigured)
    assert read(Colour, Crimson, Colour.RED) == [Crimson.CRIMSON]
    assert read(Perm, MorePerm, Perm.R | Perm.W) == [MorePerm.R | MorePerm.W]
    assert "has no member GREEN any more" in refusal(MoreColours, Colour)
    assert "flag R of Visit was 1 and is 2" in refusal(Perm, OtherPerm)
    assert "flag X of Visit was 4 and was removed" in refusal(MorePerm, Perm)
    assert refusal(Colour, Perm) == f"was enum {OLD} and is flag {OLD}"


def test_what_did_not_change_is_read_by_the_serializer_itself() -> None:
    """No reader stands between when the bytes are as they would be written."""
    current = serializer_for(Visit)
    assert reader_for(serializer_for(Visit).describe(), current) == current.decode_many
