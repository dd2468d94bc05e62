"""Names of stored sections of keyed state, and the choice of those that a program declares and restores."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

STAMPS: Final = "#ttl"
"""Begins the suffix of the hidden state that holds another one's last-access times; no attribute has it."""

_REMOVED: Final = "-"
"""Begins the name of a changelog's section of removed entries; no attribute can be named so."""


def is_stamps(name: str) -> bool:
    return STAMPS in name


def removed(name: str) -> str:
    """Return the name of the section in a changelog's segment that lists the removed entries of a state."""
    return _REMOVED + name


def changed_name(section: str) -> str | None:
    """Return the state whose removed entries a section lists; None: it is no section of removed entries."""
    return section.removeprefix(_REMOVED) if section.startswith(_REMOVED) else None


TIMERS = frozenset({"timers:event", "timers:processing", "timers:all"})


class Claims:
    """The states that a program declares and so a restore reads; `skipped`: stored ones that are not."""

    def __init__(self, declared: Collection[str]) -> None:
        self._declared = {*declared, *TIMERS}
        self.skipped: set[str] = set()  # without last-access times

    def claims(self, name: str) -> bool:
        """Return whether a stored section is to be restored, by its state's name, which may have the mark of
        removed entries; timers always are. If not, its state is noted in `skipped`.
        """
        state = changed_name(name) or name
        if state in self._declared:
            return True
        if not is_stamps(state):
            self.skipped.add(state)
        return False


def unclaimed(stored: Iterable[str], declared: Collection[str]) -> list[str]:
    """Return names of stored states that are not declared, sorted, without timers and last-access times.

    Example:
        >>> unclaimed({"count": {}, "last": {}, "last#ttl": {}}, ["count"])
        ['last']
    """
    known = {*declared, *TIMERS}
    return sorted(name for name in stored if name not in known and not is_stamps(name))
