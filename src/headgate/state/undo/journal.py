"""The journal of the record at work: how each thing that it has done is undone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

Undo: TypeAlias = Callable[[], object]


class Journal:
    """Notes how to undo what a call does. `notes` is empty at the begin of each call.

    Example:
        >>> journal, done = Journal(), [1]
        >>> done.append(2)
        >>> journal.notes.append(done.pop)
        >>> journal.undo()
        >>> done, journal.notes
        ([1], [])
    """

    __slots__ = ("_seen", "notes")

    def __init__(self) -> None:
        self.notes: list[Undo] = []
        self._seen: set[Hashable] = set()

    def begin(self) -> None:
        """Keep what the last call has done, and begin anew."""
        self.notes.clear()
        self._seen.clear()

    def first(self, place: Hashable) -> bool:
        """Return whether `place` is met for the first time in this call, so that its value is as it was."""
        if place in self._seen:
            return False
        self._seen.add(place)
        return True

    def undo(self) -> None:
        """Undo all that is noted, the last thing first."""
        for note in reversed(self.notes):
            note()
        self.begin()
