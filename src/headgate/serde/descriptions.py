"""Walks over the descriptions of serializers, which nest as their types do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def parts_of(description: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The descriptions directly inside one: elements, key and value, alternatives, fields.

    Example:
        >>> from headgate.serde.resolve import serializer_for
        >>> [part["kind"] for part in parts_of(serializer_for(dict[str, int]).describe())]
        ['str', 'int']
    """
    of = description.get("of", ())
    parts = [of] if isinstance(of, Mapping) else [part for part in of if isinstance(part, Mapping)]
    parts += [description[name] for name in ("key", "value") if name in description]
    fields = description.get("fields", {})
    return parts + (list(fields.values()) if isinstance(fields, Mapping) else [])


def kinds_in(description: Mapping[str, Any]) -> Iterator[str]:
    """The kind of a description and of everything in it.

    Example:
        >>> from headgate.serde.resolve import serializer_for
        >>> list(kinds_in(serializer_for(list[int | None]).describe()))
        ['list', 'union', 'int', 'none']
    """
    yield description["kind"]
    for part in parts_of(description):
        yield from kinds_in(part)
