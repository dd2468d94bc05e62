"""Snapshots of serializers: verdicts and their precedence, nested ones, the two directions of judging."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

import headgate as hg
from headgate.common.errors import StorageError, UsageError
from headgate.serde.composites import ListSerializer, MapSerializer
from headgate.serde.evolution.custom_serializers import (
    judge_snapshot,
    judge_stored,
    stored_snapshot,
)
from headgate.serde.evolution.judging_types import judge, reader_for
from headgate.serde.resolve import serializer_for
from headgate.serde.snapshots.snapshot_wire import snapshot_from_bytes, snapshot_to_bytes
from headgate.serde.verdicts import AfterMigration, AsIs, Incompatible, Reconfigured

Compatibility = hg.TypeSerializerSchemaCompatibility
AS_IS, MIGRATE, RECONFIGURE, NO = "as is", "migrate", "reconfigure", "incompatible"


class Answering(hg.TypeSerializer[str]):
    """Text; its snapshot judges as it is told."""

    def __init__(self, answer: str = AS_IS) -> None:
        self.answer = answer

    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()

    def snapshot(self) -> AnsweringSnapshot:
        return AnsweringSnapshot(self.answer)


class AnsweringSnapshot(hg.TypeSerializerSnapshot[str]):
    def __init__(self, answer: str = "") -> None:
        self.answer = answer

    def current_version(self) -> int:
        return 1

    def write_snapshot(self, out: hg.DataOutputView) -> None:
        out.write_utf(self.answer)

    def read_snapshot(self, read_version: int, in_: hg.DataInputView) -> None:
        self.answer = in_.read_utf()

    def restore_serializer(self) -> Answering:
        return Answering(f"restored {self.answer}")

    def resolve_schema_compatibility(self, old_snapshot: Any) -> Compatibility[str]:
        match self.answer:
            case "as is":
                return Compatibility.compatible_as_is()
            case "migrate":
                return Compatibility.compatible_after_migration()
            case "reconfigure":
                return Compatibility.compatible_with_reconfigured_serializer(Answering("reconfigured"))
        return Compatibility.incompatible("it says so")


class Outer(hg.TypeSerializer[Any]):
    """Of any number of nested serializers; the outer configuration judges as it is told, too."""

    def __init__(self, nested: Sequence[hg.TypeSerializer[Any]], answer: str = AS_IS) -> None:
        self.nested, self.answer = list(nested), answer

    def encode(self, value: Any) -> bytes:
        raise NotImplementedError

    def decode(self, data: bytes) -> Any:
        raise NotImplementedError

    def snapshot(self) -> OuterSnapshot:
        return OuterSnapshot(self)


class OuterSnapshot(hg.CompositeTypeSerializerSnapshot[Any, Outer]):
    def __init__(self, outer_serializer: Outer | None = None) -> None:
        super().__init__(outer_serializer)
        self.answer = "" if outer_serializer is None else outer_serializer.answer
        self.read_version = 0

    def current_outer_snapshot_version(self) -> int:
        return 7

    def nested_serializers(self, outer_serializer: Outer) -> Sequence[hg.TypeSerializer[Any]]:
        return outer_serializer.nested

    def create_outer_serializer(self, nested: Sequence[hg.TypeSerializer[Any]]) -> Outer:
        return Outer(nested, self.answer)

    def write_outer_snapshot(self, out: hg.DataOutputView) -> None:
        out.write_utf(self.answer)

    def read_outer_snapshot(self, read_version: int, in_: hg.DataInputView) -> None:
        self.answer, self.read_version = in_.read_utf(), read_version

    def resolve_outer_schema_compatibility(self, old_snapshot: Any) -> hg.OuterSchemaCompatibility:
        return {
            AS_IS: hg.OuterSchemaCompatibility.COMPATIBLE_AS_IS,
            MIGRATE: hg.OuterSchemaCompatibility.COMPATIBLE_AFTER_MIGRATION,
            NO: hg.OuterSchemaCompatibility.INCOMPATIBLE,
        }[self.answer]


KINDS = {AS_IS: AsIs, MIGRATE: AfterMigration, RECONFIGURE: Reconfigured, NO: Incompatible}


def composite_verdict(outer: str, nested: Sequence[str], before: int | None = None) -> type:
    """The verdict of an outer serializer whose nested ones answer so, on one with `before` nested ones."""
    old = Outer([Answering()] * (len(nested) if before is None else before)).snapshot()
    new = Outer([Answering(answer) for answer in nested], outer)
    return type(new.snapshot().resolve_schema_compatibility(old).verdict)


# -- G9


def test_g9_each_verdict_is_one_of_four() -> None:
    """Exactly one question is answered with yes, and the verdict is the one of messages."""
    made = {
        AS_IS: Compatibility.compatible_as_is(),
        MIGRATE: Compatibility.compatible_after_migration("wider"),
        RECONFIGURE: Compatibility.compatible_with_reconfigured_serializer(Answering(), "config"),
        NO: Compatibility.incompatible("gone"),
    }
    for kind, one in made.items():
        answers = [
            one.is_compatible_as_is,
            one.is_compatible_after_migration,
            one.is_compatible_with_reconfigured_serializer,
            one.is_incompatible,
        ]
        assert answers == [kind == other for other in (AS_IS, MIGRATE, RECONFIGURE, NO)]
        assert type(one.verdict) is KINDS[kind]


def test_g9_a_reconfigured_serializer_is_there_only_with_that_verdict() -> None:
    """Asking for it otherwise is an error."""
    serializer = Answering()
    found = Compatibility.compatible_with_reconfigured_serializer(serializer)
    assert found.reconfigured_serializer is serializer
    others: list[Compatibility[str]] = [
        Compatibility.compatible_as_is(),
        Compatibility.compatible_after_migration(),
        Compatibility.incompatible("gone"),
    ]
    for other in others:
        with pytest.raises(UsageError, match="a reconfigured serializer was asked for"):
            _ = other.reconfigured_serializer


# -- G12


class One(Answering):
    def snapshot(self) -> Any:
        return OneSnapshot()


class Other(Answering):
    def snapshot(self) -> Any:
        return OtherSnapshot()


class OneSnapshot(hg.SimpleTypeSerializerSnapshot[str]):
    def __init__(self) -> None:
        super().__init__(One)


class OtherSnapshot(hg.SimpleTypeSerializerSnapshot[str]):
    def __init__(self) -> None:
        super().__init__(lambda: Other())


@hg.formerly(f"{__name__}.OneSnapshot")
class RenamedSnapshot(hg.SimpleTypeSerializerSnapshot[str]):
    def __init__(self) -> None:
        super().__init__(One)


def test_g12_a_simple_snapshot_fits_the_same_class_only() -> None:
    """As is if and only if both serializers are of one class."""
    judged = OneSnapshot().resolve_schema_compatibility(OneSnapshot())
    assert judged.is_compatible_as_is
    judged = OneSnapshot().resolve_schema_compatibility(OtherSnapshot())
    assert judged.verdict == Incompatible(f"the serializer was {__name__}.Other and is {__name__}.One")
    judged = OneSnapshot().resolve_schema_compatibility(Answering().snapshot())
    assert judged.is_incompatible
    assert type(OtherSnapshot().restore_serializer()) is Other


def test_a_renamed_snapshot_class_is_found_under_its_old_name() -> None:
    """The mark of the new class is enough; the old class need not exist."""
    data = snapshot_to_bytes(OneSnapshot())
    assert type(snapshot_from_bytes(data, [RenamedSnapshot])) is RenamedSnapshot
    assert type(snapshot_from_bytes(data)) is OneSnapshot


# -- G15, G18, sS1, sS2


@pytest.mark.parametrize(
    ("nested", "verdict"),
    [
        ([AS_IS, MIGRATE, NO, RECONFIGURE], Incompatible),
        ([AS_IS, MIGRATE, RECONFIGURE, AS_IS], AfterMigration),
        ([AS_IS, RECONFIGURE, AS_IS], Reconfigured),
        ([AS_IS, AS_IS], AsIs),
    ],
)
def test_ss1_the_gravest_nested_verdict_decides(nested: list[str], verdict: type) -> None:
    """sS1: incompatible, after migration, reconfigured, as is."""
    assert composite_verdict(AS_IS, nested) is verdict


def test_ss2_the_outer_configuration_counts_and_the_number_must_be_the_same() -> None:
    """sS2: outer incompatible; outer migration before a nested reconfiguration; one before and three now."""
    assert composite_verdict(NO, [AS_IS]) is Incompatible
    assert composite_verdict(MIGRATE, [RECONFIGURE]) is AfterMigration
    assert composite_verdict(AS_IS, [AS_IS] * 3, before=1) is Incompatible


def test_g18_every_combination_has_the_verdict_of_its_gravest_part() -> None:
    """All outer answers, up to two nested ones, and another number of nested ones before."""
    gravity = [AS_IS, RECONFIGURE, MIGRATE, NO]
    for outer, count, differs in product((AS_IS, MIGRATE, NO), range(3), (False, True)):
        for nested in product(gravity, repeat=count):
            worst = NO if differs else max([outer, *nested], key=gravity.index)
            before = count + 1 if differs else count
            assert composite_verdict(outer, nested, before) is KINDS[worst], (outer, nested, differs)


def test_g18_reconfigured_nested_ones_get_into_a_new_outer_one() -> None:
    """Reconfigured serializers where it is asked for, restored ones elsewhere, the outer part kept."""
    new = Outer([Answering(AS_IS), Answering(RECONFIGURE)])
    judged = new.snapshot().resolve_schema_compatibility(Outer([Answering()] * 2).snapshot())
    made: Any = judged.reconfigured_serializer
    assert isinstance(made, Outer)
    assert [one.answer for one in made.nested] == ["restored as is", "reconfigured"]
    assert made.answer == AS_IS


def test_a_composite_of_another_class_is_incompatible() -> None:
    """Whatever its nested serializers are."""
    judged = (
        Outer([Answering()]).snapshot().resolve_schema_compatibility(ListSerializer(Answering()).snapshot())
    )
    assert judged.is_incompatible


@pytest.mark.parametrize("left_out", range(3))
def test_g15_the_outer_snapshot_has_all_three_methods_or_none(left_out: int) -> None:
    """A class with some of them is refused when it is made."""
    hooks = ["write_outer_snapshot", "read_outer_snapshot", "resolve_outer_schema_compatibility"]
    missing = hooks.pop(left_out)
    methods = {hook: vars(OuterSnapshot)[hook] for hook in hooks}
    with pytest.raises(UsageError, match=f"has {hooks[0]}, {hooks[1]} but not {missing}"):
        type("Half", (hg.CompositeTypeSerializerSnapshot,), methods)


def test_g14_a_composite_comes_back_whole() -> None:
    """Outer version, outer configuration and nested snapshots, and the serializer of all of them."""
    stored = Outer([Answering("x"), serializer_for(int), ListSerializer(One())], MIGRATE).snapshot()
    found: Any = snapshot_from_bytes(snapshot_to_bytes(stored))
    assert (found.read_version, found.answer) == (7, MIGRATE)
    assert [type(one).__name__ for one in found.nested_snapshots] == [
        "AnsweringSnapshot",
        "DescribedSnapshot",
        "ListSerializerSnapshot",
    ]
    made = found.restore_serializer()
    assert (made.answer, made.nested[0].answer, made.nested[1].name) == (MIGRATE, "restored x", "int")
    assert type(made.nested[2].element) is One


# -- the deprecated direction


class OldWay(Answering):
    def snapshot(self) -> Any:
        return OldWaySnapshot(self.answer)


class OldWaySnapshot(AnsweringSnapshot):
    """Judges only as the old one."""

    resolve_schema_compatibility = hg.TypeSerializerSnapshot.resolve_schema_compatibility

    def restore_serializer(self) -> OldWay:
        return OldWay(self.answer)

    def resolve_schema_compatibility_of(self, new_serializer: Any) -> Compatibility[Any]:
        if new_serializer.answer == self.answer:
            return Compatibility.compatible_as_is()
        return Compatibility.compatible_after_migration()


class Silent(Answering):
    def snapshot(self) -> Any:
        return SilentSnapshot(self.answer)


class SilentSnapshot(OldWaySnapshot):
    """Judges in neither direction."""

    resolve_schema_compatibility_of = hg.TypeSerializerSnapshot.resolve_schema_compatibility_of


class Raising(Answering):
    def snapshot(self) -> Any:
        return RaisingSnapshot(self.answer)


class RaisingSnapshot(AnsweringSnapshot):
    def resolve_schema_compatibility(self, old_snapshot: Any) -> Any:
        return {"error": lambda: 1 // 0, "text": lambda: "as is"}[self.answer]()


def test_the_old_direction_is_understood() -> None:
    """A class that judges new serializers as the old one is asked where the new one does not judge."""
    assert judge_snapshot(OldWaySnapshot("a"), OldWay("a")).is_compatible_as_is
    assert judge_snapshot(OldWaySnapshot("a"), OldWay("b")).is_compatible_after_migration
    # The new way goes first.
    assert judge_snapshot(OldWaySnapshot("a"), Answering(NO)).is_incompatible


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (Silent("a"), "neither the snapshot class of OldWay nor SilentSnapshot says"),
        (Raising("error"), "RaisingSnapshot cannot judge .*ZeroDivisionError"),
        (Raising("text"), "gave 'as is'; expected a TypeSerializerSchemaCompatibility"),
    ],
)
def test_a_class_that_does_not_judge_is_the_users_error(new: Any, why: str) -> None:
    """Neither direction, an exception, and something that is no verdict."""
    with pytest.raises(UsageError, match=why):
        judge_snapshot(SilentSnapshot("a"), new)


# -- built-in serializers


class Colour(enum.Enum):
    RED = 1


@hg.formerly(f"{__name__}.Colour")
class MoreColours(enum.Enum):
    GREEN = 2
    RED = 1


@dataclass
class Visit:
    page: str


@hg.formerly(f"{__name__}.Visit")
@dataclass
class LongVisit:
    page: str
    seconds: float = 0.0


def test_nested_built_in_serializers_follow_their_own_rules() -> None:
    """A record in a list and an enumeration as key are read as the new classes."""
    visits, colours = [Visit("a"), Visit("b")], Colour
    old = MapSerializer(serializer_for(colours), ListSerializer(serializer_for(Visit)))
    new = MapSerializer(serializer_for(MoreColours), ListSerializer(serializer_for(LongVisit)))
    data = old.encode_many([{Colour.RED: visits}])
    judged = judge_stored(old.describe(), new)
    assert isinstance(judged.verdict, AfterMigration)
    assert len(judged.verdict.changes) == 3
    assert reader_for(old.describe(), new)(data, 1) == [{MoreColours.RED: [LongVisit("a"), LongVisit("b")]}]


def test_nested_reconfigured_built_in_ones_are_reconfigured() -> None:
    """What changes no byte needs no migration."""
    old, new = ListSerializer(serializer_for(Colour)), ListSerializer(serializer_for(MoreColours))
    assert isinstance(judge(old.describe(), new), Reconfigured)
    assert reader_for(old.describe(), new)(old.encode_many([[Colour.RED]]), 1) == [[MoreColours.RED]]


HINTS: list[Any] = [
    None,
    Any,
    int,
    list[int | None],
    dict[str, set[bytes]],
    tuple[int, ...],
    tuple[int, Visit],
    frozenset[float],
    Colour,
    Visit | None,
]


@pytest.mark.parametrize("hint", HINTS, ids=str)
def test_a_built_in_serializer_is_restored_from_its_description(hint: Any) -> None:
    """The type is found again by what is stored, classes by their names."""
    snapshot = serializer_for(hint).snapshot()
    restored = snapshot_from_bytes(snapshot_to_bytes(snapshot)).restore_serializer()
    assert restored.describe() == serializer_for(hint).describe()


class TakesText(Answering):
    """Takes the place of a built-in serializer of text."""

    def snapshot(self) -> Any:
        return TakesTextSnapshot()


class TakesTextSnapshot(hg.SimpleTypeSerializerSnapshot[str]):
    def __init__(self) -> None:
        super().__init__(TakesText)

    def resolve_schema_compatibility(self, old_snapshot: Any) -> Compatibility[str]:
        if isinstance(old_snapshot, hg.DescribedSnapshot) and old_snapshot.description["kind"] == "str":
            return Compatibility.compatible_after_migration("text is stored without its length")
        return super().resolve_schema_compatibility(old_snapshot)


def test_a_serializer_may_take_the_place_of_a_built_in_one() -> None:
    """Alone, and for the parts of lists and maps; the built-in one reads, the new one writes."""
    text = serializer_for(str)
    assert reader_for(text.describe(), TakesText())(text.encode_many(["a"]), 1) == ["a"]
    lists = serializer_for(list[str])
    assert isinstance(judge(lists.describe(), ListSerializer(TakesText())), AfterMigration)
    assert reader_for(lists.describe(), ListSerializer(TakesText()))(lists.encode_many([["a"]]), 1) == [["a"]]
    maps, new = serializer_for(dict[int, str]), MapSerializer(serializer_for(int), TakesText())
    assert reader_for(maps.describe(), new)(maps.encode_many([{1: "a"}]), 1) == [{1: "a"}]
    with pytest.raises(UsageError, match="cannot take the place of the built-in one of int"):
        reader_for(serializer_for(int).describe(), TakesText())
    with pytest.raises(UsageError, match=r"cannot take the place of the built-in one of list\[int\]"):
        reader_for(serializer_for(list[int]).describe(), ListSerializer(TakesText()))


def test_a_built_in_serializer_does_not_take_the_place_of_the_users() -> None:
    """The error says which was which."""
    why = "serializer str cannot take the place of TakesText, which wrote the values"
    with pytest.raises(UsageError, match=why):
        reader_for(TakesText().describe(), serializer_for(str))
    assert isinstance(judge(TakesText().describe(), serializer_for(Any)), Incompatible)


# -- stored descriptions


def test_a_description_holds_name_and_snapshot() -> None:
    """What a checkpoint has of a serializer of the user's."""
    assert Answering("x").describe() == {
        "kind": "custom",
        "version": 1,
        "name": "Answering",
        "snapshot": snapshot_to_bytes(AnsweringSnapshot("x")),
    }


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        ({"version": 2}, UsageError, "version 2 of its format"),
        ({"snapshot": "text"}, StorageError, "holds no snapshot"),
        ({"snapshot": b"\0\0"}, StorageError, "4 bytes are asked for, 2 are left"),
    ],
)
def test_a_damaged_description_is_refused(change: dict[str, Any], error: type[Exception], why: str) -> None:
    """Of another version, without a snapshot, or with one that is cut short."""
    with pytest.raises(error, match=why):
        stored_snapshot(Answering().describe() | change, Answering())
