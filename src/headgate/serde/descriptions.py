"""Walks over stored descriptions of serializers (kind, version, parameters), which nest as types do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headgate.common.plain_data import Description, mapping_in, mappings_in, text_in

DIRECT: Final = frozenset({"none", "bool", "int", "float", "str"})
"""Kinds of alternatives of a union that msgpack itself distinguishes."""


def parts_of(description: Description) -> list[Description]:
    """Return the descriptions right inside one: of its elements, key and value, alternatives or fields."""
    of, fields = description.get("of", ()), description.get("fields", {})
    inner = of if isinstance(of, list | tuple) else [of]
    named = [mapping_in(description, name) for name in ("key", "value") if name in description]
    fields_inside = list(fields.values()) if isinstance(fields, Mapping) else []
    return [one for one in (*inner, *named, *fields_inside) if isinstance(one, Mapping)]


def kinds_in(description: Description) -> Iterator[str]:
    """Yield the kind, such as "list", of a description and of all descriptions nested in it."""
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
    """Return the index of X in a union ``X | None`` whose X is never None itself; None for other unions.

    Unions have three layouts: of only :data:`DIRECT` kinds the value itself is stored, of ``X | None`` the
    value or None, of all others the index of the alternative and the value.
    """
    others = [place for place, member in enumerate(members) if member["kind"] != "none"]
    return others[0] if len(others) == 1 and len(members) == 2 and not nullable(members[others[0]]) else None


def optional_of(stored: Description) -> Description | None:
    """Return the description of X in a stored union ``X | None``; None for any other union."""
    members = mappings_in(stored, "of")
    place = optional_place(members)
    return None if place is None else members[place]
