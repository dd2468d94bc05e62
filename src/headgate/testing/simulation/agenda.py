"""What can happen in a simulation at one moment, and the next moment at which more can."""

from __future__ import annotations

from collections.abc import Callable

Action = Callable[[], str | None]
"""Something that a process or a message does; gives a word for the story."""


class Agenda:
    """Actions of all processes and messages at one time.

    Args:
        now: the time.

    Attributes:
        now: the time.
        ready: what can be done, in the order of entry; None is for time to pass.
        names: a name for each.
        oldest: since when the one that has waited longest could be done; `now` when there is none.
        following: the next moment at which something becomes possible that is not now.

    Example:
        >>> agenda = Agenda(10)
        >>> agenda.add("worker 0", 8, lambda: "worked"); agenda.add("wire", 12, lambda: "delivered")
        >>> agenda.names, agenda.oldest, agenda.following
        (['worker 0'], 8, 12)
    """

    __slots__ = ("following", "names", "now", "oldest", "ready")

    def __init__(self, now: int) -> None:
        self.now = self.oldest = now
        self.ready: list[Action | None] = []
        self.names: list[str] = []
        self.following: int | None = None

    def add(self, name: str, since: int | None, action: Action) -> None:
        """Something that can be done since a moment, or from one on; None is never."""
        if since is None:
            return
        if since > self.now:
            if self.following is None or since < self.following:
                self.following = since
            return
        self.ready.append(action)
        self.names.append(name)
        if since < self.oldest:
            self.oldest = since

    def not_before(self, time: int | None) -> None:
        """Something becomes possible at a time; one that has passed says nothing."""
        if time is not None and time > self.now and (self.following is None or time < self.following):
            self.following = time
