"""Walks over the descriptions of serializers, which nest as their types do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headgate.common.plain_data import Description, mapping_in, mappings_in, text_in


def parts_of(description: Description) -> list[Description]:
    """Return the descriptions directly inside one: elements, key and value, alternatives, fields.

    Example:
        >>> from headgate.serde.resolve import serializer_for
        >>> [part["kind"] for part in parts_of(serializer_for(dict[str, int]).describe())]
        ['str', 'int']
    """
    of, fields = description.get("of", ()), description.get("fields", {})
    inner = of if isinstance(of, list | tuple) else [of]
    named = [mapping_in(description, name) for name in ("key", "value") if name in description]
    fields_inside = list(fields.values()) if isinstance(fields, Mapping) else []
    return [one for one in (*inner, *named, *fields_inside) if isinstance(one, Mapping)]


def kinds_in(description: Description) -> Iterator[str]:
    """Yield the kind of a description and of everything in it.

    Example:
        >>> from headgate.serde.resolve import serializer_for
        >>> list(kinds_in(serializer_for(list[int | None]).describe()))
        ['list', 'union', 'int', 'none']
    """
    yield text_in(description, "kind")
    for part in parts_of(description):
        yield from kinds_in(part)


def nullable(stored: Description) -> bool:
    """Whether a stored value of a description can be nil."""
    kind = stored["kind"]
    if kind == "literal":
        return nullable(mapping_in(stored, "of"))
    return kind in ("none", "any") or (kind == "union" and any(map(nullable, mappings_in(stored, "of"))))
