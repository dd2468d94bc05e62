"""Codecs of Optional, Union and Literal: closed sets of alternatives, distinguished by exact class."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, Optional, TypeVar, Union

import msgspec

from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.common.plain_data import Description, text_in
from headgate.serde.codecs.primitives import BY_KIND
from headgate.serde.codecs.type_codec import Convert, Form, copier, describe
from headgate.serde.descriptions import DIRECT, optional_place
from headgate.serde.evolution.readings import Reading

T = TypeVar("T")


def union_form(members: Sequence[Form]) -> Form:
    """Return the codec of a union of the types of `members`; the bytes may depend on their order.
    UsageError if two alternatives have a class in common, so that values cannot be told apart.
    """
    name = " | ".join(member.name for member in members)
    immutable = all(member.immutable for member in members)
    wire, to_plain, from_plain = _layout(members, name)
    return Form(
        name=name,
        description=describe("union", of=[member.description for member in members]),
        wire=wire,
        to_plain=to_plain,
        from_plain=from_plain,
        classes=frozenset().union(*(member.classes for member in members)),
        guests=frozenset().union(*(member.guests for member in members)),
        immutable=immutable,
        copy=copier(immutable, False),
        inner=tuple(members),
    )


def _layout(members: Sequence[Form], name: str) -> tuple[Hint, Convert | None, Convert | None]:
    descriptions = [member.description for member in members]
    if {text_in(description, "kind") for description in descriptions} <= DIRECT:
        return reduce(or_, (member.wire for member in members)), None, None
    optional = optional_place(descriptions)
    if optional is not None:
        one = members[optional]
        to_plain = one.to_plain and skip_none(one.to_plain)
        return _optional_wire(one.wire), to_plain, one.from_plain and skip_none(one.from_plain)
    places = _places(members, name)

    def to_place(value: T) -> tuple[int, T]:
        place = places.get(value.__class__)
        if place is None:
            raise TypeError(f"got {type(value).__qualname__}, expected {name}")
        convert = members[place].to_plain
        return place, value if convert is None else convert(value)

    wires, converts = [member.wire for member in members], [member.from_plain for member in members]
    wire, from_place = _tagged_reading(wires, converts)
    return wire, to_place, from_place


def union_reading(members: Sequence[Description], readings: Sequence[Reading]) -> tuple[Hint, Convert | None]:
    """Return the type that msgspec decodes for a stored union, and its converter, by members' `readings`."""
    kinds = [text_in(member, "kind") for member in members]
    if set(kinds) <= DIRECT:
        wires = tuple(reading.wire for reading in readings)
        wire: Hint = Union[wires]  # type: ignore[assignment]  # noqa: UP007 - of a tuple
        return wire, _by_class(kinds, readings)
    optional = optional_place(members)
    if optional is not None:
        wire, convert = _optional_wire(readings[optional].wire), readings[optional].convert
        return wire, convert and skip_none(convert)
    return _tagged_reading([reading.wire for reading in readings], [reading.convert for reading in readings])


def _by_class(kinds: Sequence[str], readings: Sequence[Reading]) -> Convert | None:
    converts: dict[type, Convert | None] = {}
    for kind, reading in zip(kinds, readings, strict=True):
        converts.update(dict.fromkeys(BY_KIND[kind].classes, reading.convert))
    for kind, reading in zip(kinds, readings, strict=True):
        for guest in BY_KIND[kind].guests:
            converts.setdefault(guest, reading.convert)
    if not any(converts.values()):
        return None

    def convert(value: T) -> T:
        chosen = converts[value.__class__]
        return value if chosen is None else chosen(value)

    return convert


def _optional_wire(wire: Hint) -> Hint:
    optional: Hint = Optional[wire]  # type: ignore[assignment]  # noqa: UP045 - of a variable
    return wire if wire is Any else optional


def skip_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _tagged_reading(wires: Sequence[Hint], converts: Sequence[Convert | None]) -> tuple[Hint, Convert]:
    tagged = [
        msgspec.defstruct(f"Alternative{place}", [("value", wire)], tag=place, array_like=True)
        for place, wire in enumerate(wires)
    ]
    place_of_wire = {wire: place for place, wire in enumerate(tagged)}

    def from_plain(plain: Any) -> Any:
        # A pair in the tagged mode of the dynamic codec, a struct otherwise.
        place, value = plain if plain.__class__ is tuple else (place_of_wire[plain.__class__], plain.value)
        convert = converts[place]
        return value if convert is None else convert(value)

    return reduce(or_, tagged), from_plain


def _places(members: Sequence[Form], name: str) -> dict[type, int]:
    places: dict[type, int] = {}
    for place, member in enumerate(members):
        if not member.classes or not member.classes.isdisjoint(places):
            raise UsageError(
                f"the alternatives of {name} cannot be told apart by their class; "
                "use one class per alternative, or Any"
            )
        places.update(dict.fromkeys(member.classes, place))
    for place, member in enumerate(members):
        for guest in member.guests:
            places.setdefault(guest, place)
    return places


def literal_form(values: Sequence[T], scalars: Sequence[Form]) -> Form:
    """Return the codec of ``Literal[*values]``, which refuses other values; `scalars`: types' codecs."""
    base = scalars[0] if len(scalars) == 1 else union_form(scalars)
    allowed = {(type(value), value) for value in values}
    convert = base.to_plain

    def to_plain(value: T) -> T:
        if (type(value), value) not in allowed:
            raise ValueError(f"got {value!r}, expected one of {', '.join(map(repr, values))}")
        return value if convert is None else convert(value)

    return Form(
        name=f"Literal[{', '.join(map(repr, values))}]",
        description=describe("literal", of=base.description, values=list(map(repr, values))),
        wire=base.wire,
        to_plain=to_plain,
        from_plain=base.from_plain,
        classes=base.classes,
        inner=(base,),
    )
