"""What the sections of a segment are called, and which of them hold what is gone."""

from __future__ import annotations

from typing import Final

from headgate.serde.resolve import serializer_for
from headgate.state.targets import Target

_REMOVED: Final = "-"
"""Begins the name of a section of removed entries. No attribute of a class can be named so."""

_FLAGS: Final = serializer_for(bool)
REMOVED_STATE: Final = Target({"kind": "removed", "of": [_FLAGS.describe()]}, _FLAGS)
"""Of removed entries of a state: only keys count."""


def removed(name: str) -> str:
    """The section of a state's removed entries.

    Example:
        >>> removed("count"), changed_name(removed("count")), changed_name("count")
        ('-count', 'count', None)
    """
    return _REMOVED + name


def changed_name(section: str) -> str | None:
    """The state whose removed entries a section holds; None: it holds those that are there."""
    return section.removeprefix(_REMOVED) if section.startswith(_REMOVED) else None
