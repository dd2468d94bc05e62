"""Names of stored sections, and which of them a program claims."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

STAMPS: Final = "#ttl"
"""Begins the suffix of a state with the last-access times of another; no attribute can be named so."""

_REMOVED: Final = "-"
"""Begins the name of a section of removed entries; no attribute can be named so."""


def is_stamps(name: str) -> bool:
    """Return whether a stored state holds stamps. Without a declaration they are skipped: nothing is lost."""
    return STAMPS in name


def removed(name: str) -> str:
    """Return the section of a state's removed entries."""
    return _REMOVED + name


def changed_name(section: str) -> str | None:
    """Return the state whose removed entries a section holds; None: it holds those that are there."""
    return section.removeprefix(_REMOVED) if section.startswith(_REMOVED) else None


TIMERS = frozenset({"timers:event", "timers:processing", "timers:all"})


class Claims:
    """The states that a program declares; `skipped`: names of the stored states that were left out so far."""

    def __init__(self, declared: Collection[str]) -> None:
        self._declared = {*declared, *TIMERS}
        self.skipped: set[str] = set()

    def claims(self, name: str) -> bool:
        """Return whether a stored state is to be restored; notes it where it is not."""
        state = changed_name(name) or name
        if state in self._declared:
            return True
        if not is_stamps(state):
            self.skipped.add(state)
        return False


def unclaimed(stored: Iterable[str], declared: Collection[str]) -> list[str]:
    """Return names of stored states that the program does not declare, sorted; without last-access times.

    Example:
        >>> unclaimed({"count": {}, "last": {}, "last#ttl": {}}, ["count"])
        ['last']
    """
    known = {*declared, *TIMERS}
    return sorted(name for name in stored if name not in known and not is_stamps(name))
