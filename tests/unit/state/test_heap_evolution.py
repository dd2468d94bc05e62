"""Types of state that changed, on the heap: what is restored, and the next snapshot, are of the new ones."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

import headgate as hg
from headgate.api.declared.keyed_states import (
    ListState,
    MapState,
    ValueState,
    declared_state,
    list_state,
    map_state,
    value_state,
)
from headgate.common.errors import UsageError
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.stored.blob_format import BytesBlob, read_header
from headgate.testing.suites.value_checks import snapshot_blob

GROUPS = 8
VALUES = {1: ("foo", 1456), 2: ("bar", 478), 3: ("hello", 189)}
OLD = f"{__name__}.First"


@dataclass
class First:
    text: str
    number: int


@hg.formerly(OLD)
@dataclass
class Second:
    words: Annotated[str, hg.alias("text")]
    number: float
    added: str = "new"


@hg.formerly(OLD)
@dataclass
class Wrong:
    text: int
    number: int


class Colour(enum.Enum):
    RED = 1


@hg.formerly(f"{__name__}.Colour")
class Colours(enum.Enum):
    BLUE = 2
    RED = 1


class FirstStates:
    one: ValueState[First | None] = value_state()
    many: ListState[First] = list_state()
    named: MapState[str, First] = map_state()
    colour: ValueState[Colour | None] = value_state()


class SecondStates:
    one: ValueState[Second | None] = value_state()
    many: ListState[Second] = list_state()
    named: MapState[str, Second] = map_state()
    colour: ValueState[Colours | None] = value_state()


class WrongValue:
    one: ValueState[Wrong | None] = value_state()


class WrongList:
    many: ListState[Wrong] = list_state()


class WrongMap:
    named: MapState[str, Wrong] = map_state()


class OtherKeys:
    named: MapState[str | None, First] = map_state()


class OtherKind:
    many: ValueState[Any] = value_state()


class Unmarked:
    colour: ValueState[Wrong | None] = value_state()


def backend(program: object) -> HeapKeyedBackend:
    """An empty backend of a program's states."""
    return HeapKeyedBackend(declared_state(program), 0, GROUPS - 1, GROUPS)


def written(only: str = "") -> bytes:
    """The snapshot of a program with the first types; of one of its states only, if it is given."""
    made = backend(FirstStates())
    for key, (text, number) in VALUES.items():
        made.bind(key)
        if only in ("", "one"):
            made.handles["one"].value = First(text, number)
        if only in ("", "many"):
            made.handles["many"].extend([First(text, number), First(text, 2**70)])
        if only in ("", "named"):
            made.handles["named"].put(text, First(text, number))
        if only in ("", "colour"):
            made.handles["colour"].value = Colour.RED
        made.store()
        made.event_timers.register(number, key)
    return snapshot_blob(made.snapshot_sync())


def test_ss7_changed_types_are_migrated() -> None:
    """sS7: value, list and map state; updates and a second snapshot work, and that one is of the new type."""
    blob = written()
    for _ in range(2):
        made = backend(SecondStates())
        made.restore([blob])
        for key, (text, number) in VALUES.items():
            made.bind(key)
            assert made.handles["one"].value == Second(text, number)
            assert type(made.handles["one"].value.number) is float
            assert made.handles["many"].get() == [Second(text, number), Second(text, 2**70)]
            assert made.handles["named"].items() == [(text, Second(text, number))]
            assert made.handles["colour"].value is Colours.RED
            made.handles["one"].value = Second(text, float(number), "new")
            made.store()
        assert made.event_timers.snapshot()
        blob = snapshot_blob(made.snapshot_sync())
        (header, _) = read_header(BytesBlob(blob))
        schemas = {section.name: section.schema for section in header.sections}
        assert {name: schemas[name] for name in made.state_types()} == made.state_types()


def test_ss7_reconfigured_types_go_on() -> None:
    """sS7: an enumeration with more members, in another order."""
    made = backend(
        type(
            "Program",
            (),
            {"__annotations__": {"colour": ValueState[Colours | None]}, "colour": value_state()},
        )()
    )
    made.restore([written("colour")])
    made.bind(1)
    assert made.handles["colour"].value is Colours.RED
    made.handles["colour"].value = Colours.BLUE
    made.store()
    snapshot_blob(made.snapshot_sync())


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (WrongValue(), rf"state 'one' .*field 'text' of {__name__}.Wrong: was str and is int; declare"),
        (
            WrongList(),
            rf"state 'many' .*elements: field 'text' of {__name__}.Wrong: was str and is int; declare",
        ),
        (
            WrongMap(),
            rf"state 'named' .*values: field 'text' of {__name__}.Wrong: was str and is int; declare",
        ),
        (OtherKeys(), r"state 'named' .*the type of its keys changed .* keys may not change"),
        (OtherKind(), r"state 'many' .*kind was list and is value"),
        (Unmarked(), r"state 'colour' .*Colour may be stored"),
    ],
    ids=["value", "list", "map", "keys", "kind", "unmarked"],
)
def test_ss7_incompatible_types_are_refused(program: object, why: str) -> None:
    """sS7, G25: the error names the state and the field; nothing was restored."""
    (name,) = declared_state(program)
    made = backend(program)
    with pytest.raises(UsageError, match=why):
        made.restore([written(name)])
    assert made._tables[name].entries == {}


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@hg.formerly(f"{__name__}.Point")
@dataclass(frozen=True)
class Flat:
    x: int


class Points:
    seen: ValueState[set[Point] | None] = value_state()


class Flats:
    seen: ValueState[set[Flat] | None] = value_state()


def test_elements_that_become_equal_end_the_restore() -> None:
    """The set would shrink; the state is named."""
    old = backend(Points())
    old.bind(1)
    old.handles["seen"].value = {Point(1, 1), Point(1, 2)}
    old.store()
    with pytest.raises(UsageError, match=r"state 'seen' .*2 stored elements .* became 1"):
        backend(Flats()).restore([snapshot_blob(old.snapshot_sync())])


def test_state_that_never_held_anything_may_change_at_will() -> None:
    """Only what is stored is judged."""
    empty = snapshot_blob(backend(FirstStates()).snapshot_sync())
    backend(WrongValue()).restore([empty])
