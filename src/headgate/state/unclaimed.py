"""Stored state that the program declares no more, left out of what is restored.

Stored state is read as if the unclaimed sections had never been in it. Where this is not asked for, a restore
refuses such state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from headgate.state.changelog.sections import changed_name
from headgate.state.state_names import is_stamps

TIMERS = frozenset({"timers:event", "timers:processing", "timers:all"})


class Claims:
    """The states that a program declares.

    Attributes:
        skipped: names of stored states that were left out so far, without what belongs to others of them.
    """

    def __init__(self, declared: Collection[str]) -> None:
        self._declared = {*declared, *TIMERS}
        self.skipped: set[str] = set()

    def claims(self, name: str) -> bool:
        """Whether a stored state is to be restored; notes it where it is not."""
        state = changed_name(name) or name
        if state in self._declared:
            return True
        if not is_stamps(state):
            self.skipped.add(state)
        return False


def unclaimed(stored: Iterable[str], declared: Collection[str]) -> list[str]:
    """Names of stored states that nobody declares, sorted; stamps of others are not told.

    Example:
        >>> unclaimed({"count": {}, "last": {}, "last#ttl": {}}, ["count"])
        ['last']
    """
    known = {*declared, *TIMERS}
    return sorted(name for name in stored if name not in known and not is_stamps(name))
