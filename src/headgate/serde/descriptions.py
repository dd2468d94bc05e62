"""Walks over the descriptions of serializers, which nest as their types do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headgate.common.plain_data import Description, mapping_in, mappings_in, text_in

DIRECT: Final = frozenset({"none", "bool", "int", "float", "str"})
"""Kinds of alternatives of a union that msgpack itself distinguishes."""


def parts_of(description: Description) -> list[Description]:
    """Return the descriptions directly inside one: elements, key and value, alternatives, fields."""
    of, fields = description.get("of", ()), description.get("fields", {})
    inner = of if isinstance(of, list | tuple) else [of]
    named = [mapping_in(description, name) for name in ("key", "value") if name in description]
    fields_inside = list(fields.values()) if isinstance(fields, Mapping) else []
    return [one for one in (*inner, *named, *fields_inside) if isinstance(one, Mapping)]


def kinds_in(description: Description) -> Iterator[str]:
    """Yield the kind of a description and of everything in it."""
    yield text_in(description, "kind")
    for part in parts_of(description):
        yield from kinds_in(part)


def nullable(stored: Description) -> bool:
    """Return whether a value of a stored description can be None, which msgpack stores as nil."""
    kind = stored["kind"]
    if kind == "literal":
        return nullable(mapping_in(stored, "of"))
    return kind in ("none", "any") or (kind == "union" and any(map(nullable, mappings_in(stored, "of"))))


def optional_place(members: Sequence[Description]) -> int | None:
    """Return the place of X in a union that is X or None where X is never None itself; else None.

    A union of only :data:`DIRECT` kinds is stored as its values, one of X or None as None or the value, and
    every other one as the place of the alternative and the value.
    """
    others = [place for place, member in enumerate(members) if member["kind"] != "none"]
    return others[0] if len(others) == 1 and len(members) == 2 and not nullable(members[others[0]]) else None


def optional_of(stored: Description) -> Description | None:
    """Return X of a stored union of X or None; see :func:`optional_place`."""
    members = mappings_in(stored, "of")
    place = optional_place(members)
    return None if place is None else members[place]
