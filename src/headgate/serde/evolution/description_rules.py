"""The rules for described values: the type that a description came from, and how its values are read."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any, Final, TypeVar

from headgate.common.errors import UsageError
from headgate.common.plain_data import Description, mapping_in, mappings_in, text_in
from headgate.serde.codecs.primitives import BY_KIND
from headgate.serde.codecs.type_codec import Annotation
from headgate.serde.compatibility import Compatibility
from headgate.serde.evolution.older_shapes import judge_description, reading_serializer
from headgate.serde.logical_names import class_named
from headgate.serde.serializer import TypeSerializer

T = TypeVar("T")


class DescriptionRules:
    """Implements `serde.registry.Rules`."""

    def __init__(self, serializer_for: Callable[[Annotation], TypeSerializer[Any]]) -> None:
        self._serializer_for = serializer_for

    def serializer_of(self, description: Description) -> TypeSerializer[T]:
        """See the protocol."""
        return reading_serializer(description, self._serializer_for(_hint_of(description)))

    def reading(self, description: Description, new: TypeSerializer[T]) -> TypeSerializer[T]:
        """See the protocol."""
        return reading_serializer(description, new)

    def judge(self, description: Description, new: TypeSerializer[T]) -> Compatibility:
        """See the protocol."""
        return judge_description(description, new)


def _hint_of(description: Description) -> Annotation:
    """The annotation that a description came from."""
    kind = text_in(description, "kind")
    if kind == "any":
        return Any
    if kind in BY_KIND:
        (cls,) = BY_KIND[kind].classes
        return cls
    if kind in _GENERIC:
        return _GENERIC[kind](description)
    if "name" in description:
        named: type = class_named(text_in(description, "name"))
        return named
    raise UsageError(f"a stored value of kind {kind} can only be read as the type that a program declares")


_GENERIC: Final[dict[str, Callable[[Description], Annotation]]] = {
    "list": lambda d: list[_hint_of(mapping_in(d, "of"))],  # type: ignore[misc]
    "set": lambda d: set[_hint_of(mapping_in(d, "of"))],  # type: ignore[misc]
    "frozenset": lambda d: frozenset[_hint_of(mapping_in(d, "of"))],  # type: ignore[misc]
    "tuple_of": lambda d: tuple[_hint_of(mapping_in(d, "of")), ...],  # type: ignore[misc]
    "tuple": lambda d: tuple[tuple(map(_hint_of, mappings_in(d, "of")))],  # type: ignore[misc]
    "dict": lambda d: dict[_hint_of(mapping_in(d, "key")), _hint_of(mapping_in(d, "value"))],  # type: ignore[misc]
    "union": lambda d: reduce(or_, map(_hint_of, mappings_in(d, "of"))),
    "literal": lambda d: _hint_of(mapping_in(d, "of")),
}
