"""Forms of Optional, Union and Literal: closed sets of alternatives, told apart by exact class."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, Final, Optional, TypeVar

import msgspec

from headgate.common.errors import UsageError
from headgate.common.plain_data import text_in
from headgate.serde.codecs.type_codec import Annotation, Convert, Form, copier, describe

T = TypeVar("T")

DIRECT: Final = frozenset({"none", "bool", "int", "float", "str"})
"""Kinds that msgpack itself tells apart."""


def union_form(members: Sequence[Form]) -> Form:
    """``X | Y | None``; the alternatives' order does not matter to a program but is part of the bytes."""
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
        nullable=any(member.nullable for member in members),
        inner=tuple(members),
    )


def _layout(members: Sequence[Form], name: str) -> tuple[Annotation, Convert | None, Convert | None]:
    """What msgspec decodes, and the ways to that and from it."""
    if {text_in(member.description, "kind") for member in members} <= DIRECT:
        return reduce(or_, (member.wire for member in members)), None, None
    optional = _optional(members)
    if optional is not None:
        to_plain, from_plain = skip_none(optional.to_plain), skip_none(optional.from_plain)
        return optional_wire(optional.wire), to_plain, from_plain
    places = _places(members, name)

    def to_place(value: T) -> tuple[int, T]:
        place = places.get(value.__class__)
        if place is None:
            raise TypeError(f"got {type(value).__qualname__}, expected {name}")
        convert = members[place].to_plain
        return place, value if convert is None else convert(value)

    wires, converts = [member.wire for member in members], [member.from_plain for member in members]
    wire, from_place = tagged_reading(wires, converts)
    return wire, to_place, from_place


def _optional(members: Sequence[Form]) -> Form | None:
    """X, when the union is X or None and X is never None itself."""
    others = [member for member in members if member.description["kind"] != "none"]
    if len(others) == 1 and len(members) == 2 and not others[0].nullable:
        return others[0]
    return None


def optional_wire(wire: Annotation) -> Annotation:
    """What msgspec decodes for X or None."""
    return wire if wire is Any else Optional[wire]  # noqa: UP045 - of a variable


def skip_none(convert: Convert | None) -> Convert | None:
    """A conversion that leaves None alone."""
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


def tagged_reading(
    wires: Sequence[Annotation], converts: Sequence[Convert | None]
) -> tuple[Annotation, Convert]:
    """What msgspec decodes for alternatives that are tagged with their place, and what is made of it."""
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
    """``Literal[...]``: stored as its values' own types."""
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
        nullable=base.nullable,
        inner=(base,),
    )
