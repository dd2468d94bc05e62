"""The type `Hint`: a type annotation as a value, as `typing.get_type_hints` returns it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from types import GenericAlias

    from typing_extensions import TypeForm

Hint: TypeAlias = "TypeForm[Any] | GenericAlias | TypeVar"
"""A type as a program writes it: a class, `list[int]`, `int | None`, `Any`; never a value of that type."""
