"""Writes stored descriptions of types as a programmer writes the types."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.common.plain_data import Description, mapping_in, mappings_in, text_in

OPERATOR_STATE = {"split": "split list", "union": "union list", "broadcast": "broadcast"}


def type_words(stored: Description) -> str:
    """Return a described type as Python annotates it.

    Example:
        >>> from headgate.serde.resolve import serializer_for
        >>> type_words(serializer_for(dict[str, list[int | None]]).describe())
        'dict[str, list[int | None]]'
    """
    kind = text_in(stored, "kind")
    match kind:
        case "union":
            return " | ".join(map(type_words, mappings_in(stored, "of")))
        case "literal":
            values = stored["values"]
            assert isinstance(values, Sequence), "a list, as it was written"
            return f"Literal[{', '.join(map(str, values))}]"
        case "tuple":
            return f"tuple[{', '.join(map(type_words, mappings_in(stored, 'of')))}]"
        case "tuple_of":
            return f"tuple[{type_words(mapping_in(stored, 'of'))}, ...]"
        case "list" | "set" | "frozenset":
            return f"{kind}[{type_words(mapping_in(stored, 'of'))}]"
        case "dict":
            key, value = mapping_in(stored, "key"), mapping_in(stored, "value")
            return f"dict[{type_words(key)}, {type_words(value)}]"
        case "any":
            return "Any"
        case "none":
            return "None"
    name = stored.get("name")
    return str(name).rpartition(".")[2] if isinstance(name, str) else kind


def state_words(schema: Description) -> str:
    """Return a described state: its kind, and the types in it.

    Example:
        >>> from headgate.serde.resolve import serializer_for
        >>> of = [serializer_for(str).describe(), serializer_for(int).describe()]
        >>> state_words({"kind": "map", "of": of})
        'map[str, int]'
    """
    kind = text_in(schema, "kind")
    return f"{OPERATOR_STATE.get(kind, kind)}[{', '.join(map(type_words, mappings_in(schema, 'of')))}]"
