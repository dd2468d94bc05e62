"""The rules for described values, for files that the rules themselves build on.

A built-in serializer gives a snapshot, and this one is judged by rules that know every built-in serializer.
So that imports point one way, the snapshot asks here: :mod:`headgate.serde.resolve`, without which there is
no built-in serializer of a declared type, registers the rules when it is loaded.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from headgate.common.errors import InternalError
from headgate.common.plain_data import Description
from headgate.serde.compatibility import Compatibility
from headgate.serde.serializer import TypeSerializer

T = TypeVar("T")


class Rules(Protocol):
    """What is known of values by their stored description: kind, version and parameters."""

    def serializer_of(self, description: Description) -> TypeSerializer[T]:
        """A serializer of the described type, whose classes are looked up by their names."""

    def reading(self, description: Description, new: TypeSerializer[T]) -> TypeSerializer[T]:
        """What reads described values as those of another built-in serializer."""

    def judge(self, description: Description, new: TypeSerializer[T]) -> Compatibility:
        """Whether described values can become those of another built-in serializer."""


_registered: list[Rules] = []


def register(rules: Rules) -> None:
    """Take the rules in; the last ones count."""
    _registered[:] = [rules]


def rules() -> Rules:
    """The rules."""
    if not _registered:
        raise InternalError("the rules for described values are not loaded; import headgate.serde.resolve")
    return _registered[0]
