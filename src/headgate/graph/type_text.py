"""Texts of the types of streams and states, for plans and the table of types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headgate.common.hints import Hint

if TYPE_CHECKING:
    from headgate.serde.serializer import TypeSerializer

COLUMNS, ROWS, MIXED = "columns", "rows", "rows or columns"


@dataclass(frozen=True, slots=True)
class StateFact:
    """A declared state with its types as text, for plans and ``headgate types``. `kind` is "value", "list",
    "map", "reducing" or "aggregating"; of operator state "split list", "union list" or "broadcast".
    `serializers` are declared ones, one or None for each of `types`; empty: none at all.
    """

    name: str  # of the state
    kind: str
    types: tuple[str, ...]  # of what is stored
    serializers: tuple[TypeSerializer[Any] | None, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.kind}[{', '.join(self.types)}]"


States = Mapping[int, Sequence[StateFact]]  # node id -> the states its function declares


class TypeText(str):
    """Text of a type that also carries the type itself, for the table of types."""

    __slots__ = ("hint",)
    hint: Hint | None  # what the text shows


def type_text(hint: Hint | None) -> TypeText:
    """Return a type as a program would write it.

    Example:
        >>> type_text(int), type_text(dict[str, int]), type_text(None), type_text(int | None)
        ('int', 'dict[str, int]', 'unknown', 'int | None')
    """
    text = TypeText(_type_name(hint))
    text.hint = hint
    return text


def _type_name(hint: Hint | None) -> str:
    if hint is None:
        return "unknown"
    if isinstance(hint, type) and not hasattr(hint, "__args__"):
        return hint.__name__
    return str(hint).replace("typing.", "")
