"""Reading the stored alternatives of a union: each with a conversion of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, Union

from headgate.common.plain_data import Description, text_in
from headgate.serde.codecs.primitives import BY_KIND
from headgate.serde.codecs.type_codec import Annotation, Convert
from headgate.serde.codecs.unions import DIRECT, optional_wire, skip_none, tagged_reading
from headgate.serde.descriptions import nullable
from headgate.serde.evolution.readings import Reading

V = TypeVar("V")


def union_reading(
    members: Sequence[Description], readings: Sequence[Reading]
) -> tuple[Annotation, Convert | None]:
    """What msgspec decodes for a stored union, and what is made of it.

    Mirrors how :func:`headgate.serde.codecs.unions.union_form` chooses among its three layouts.
    """
    kinds = [text_in(member, "kind") for member in members]
    if set(kinds) <= DIRECT:
        wires = tuple(reading.wire for reading in readings)
        return Union[wires], _by_class(kinds, readings)  # noqa: UP007 - of a tuple
    others = [place for place, kind in enumerate(kinds) if kind != "none"]
    if len(others) == 1 and len(kinds) == 2 and not nullable(members[others[0]]):
        reading = readings[others[0]]
        return optional_wire(reading.wire), skip_none(reading.convert)
    return tagged_reading([reading.wire for reading in readings], [reading.convert for reading in readings])


def _by_class(kinds: Sequence[str], readings: Sequence[Reading]) -> Convert | None:
    converts: dict[type, Convert | None] = {}
    for kind, reading in zip(kinds, readings, strict=True):
        converts.update(dict.fromkeys(BY_KIND[kind].classes, reading.convert))
    for kind, reading in zip(kinds, readings, strict=True):
        for guest in BY_KIND[kind].guests:
            converts.setdefault(guest, reading.convert)
    if not any(converts.values()):
        return None

    def convert(value: V) -> V:
        chosen = converts[value.__class__]
        return value if chosen is None else chosen(value)

    return convert
