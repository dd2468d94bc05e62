"""Stored descriptions of types as a person would write the type."""

from __future__ import annotations

from headgate.serde.arrow.stored_values import Description

OPERATOR_STATE = {"split": "split list", "union": "union list", "broadcast": "broadcast"}


def type_words(stored: Description) -> str:
    """A described type.

    Example:
        >>> from headgate.serde.resolve import serializer_for
        >>> type_words(serializer_for(dict[str, list[int | None]]).describe())
        'dict[str, list[int | None]]'
    """
    kind = str(stored["kind"])
    match kind:
        case "union":
            return " | ".join(map(type_words, stored["of"]))
        case "literal":
            return f"Literal[{', '.join(map(str, stored['values']))}]"
        case "tuple":
            return f"tuple[{', '.join(map(type_words, stored['of']))}]"
        case "tuple_of":
            return f"tuple[{type_words(stored['of'])}, ...]"
        case "list" | "set" | "frozenset":
            return f"{kind}[{type_words(stored['of'])}]"
        case "dict":
            return f"dict[{type_words(stored['key'])}, {type_words(stored['value'])}]"
        case "any":
            return "Any"
        case "none":
            return "None"
    name = stored.get("name")
    return str(name).rpartition(".")[2] if isinstance(name, str) else kind


def state_words(schema: Description) -> str:
    """A described state: its kind, and the types in it.

    Example:
        >>> from headgate.serde.resolve import serializer_for
        >>> of = [serializer_for(str).describe(), serializer_for(int).describe()]
        >>> state_words({"kind": "map", "of": of})
        'map[str, int]'
    """
    kind = OPERATOR_STATE.get(schema["kind"], schema["kind"])
    return f"{kind}[{', '.join(map(type_words, schema['of']))}]"
