"""Requested checkpoints that wait for their turn: savepoints first, each lane oldest first, bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from headgate.core.checkpoint.effects import RequestKind

QUEUED_MAX: Final = 1000
"""Requests that may wait."""


@dataclass(frozen=True, slots=True)
class Request:
    """Somebody wants a checkpoint.

    Attributes:
        ticket: the asker's number, by which it is answered; None: nobody waits for an answer.
        timeout_ms: from trigger to the last acknowledgement; None: as configured.
    """

    kind: RequestKind
    ticket: int | None = None
    timeout_ms: int | None = None


class RequestQueue:
    """Two lanes: savepoints, then manual ones.

    The final checkpoint and the periodic one are single by nature and wait elsewhere.

    Example:
        >>> queue = RequestQueue()
        >>> queue.add(Request(RequestKind.MANUAL, 1)), queue.add(Request(RequestKind.SAVEPOINT, 2))
        (None, None)
        >>> queue.take_savepoint().ticket, queue.take_manual().ticket, len(queue)
        (2, 1, 0)
    """

    __slots__ = ("_manual", "_savepoints", "capacity")

    def __init__(self, capacity: int = QUEUED_MAX) -> None:
        self.capacity = capacity
        self._savepoints: deque[Request] = deque()
        self._manual: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._savepoints) + len(self._manual)

    @property
    def savepoints(self) -> int:
        """How many savepoints wait."""
        return len(self._savepoints)

    @property
    def manual(self) -> int:
        """How many manual requests wait."""
        return len(self._manual)

    def add(self, request: Request) -> Request | None:
        """Queue it; returns the one that must go for it when the queue is full, which may be itself.

        It is the youngest of the lower lane.
        """
        (self._savepoints if request.kind.is_savepoint else self._manual).append(request)
        if len(self) <= self.capacity:
            return None
        return (self._manual or self._savepoints).pop()

    def take_savepoint(self) -> Request:
        """Take the oldest savepoint."""
        return self._savepoints.popleft()

    def take_manual(self) -> Request:
        """Take the oldest manual request."""
        return self._manual.popleft()

    def drop_manual(self) -> list[Request]:
        """Forget and return all manual requests, oldest first."""
        dropped = list(self._manual)
        self._manual.clear()
        return dropped

    def drop_all(self) -> list[Request]:
        """Forget and return all, in the order in which they would have been taken."""
        dropped = [*self._savepoints, *self._manual]
        self._savepoints.clear()
        self._manual.clear()
        return dropped

    def tickets(self) -> set[int | None]:
        """Tickets of all that wait."""
        return {each.ticket for each in (*self._savepoints, *self._manual)}

    def describe(self) -> tuple[Hashable, ...]:
        """The whole state as plain values, for stories and searches."""
        return tuple((each.kind.value, each.ticket) for each in (*self._savepoints, *self._manual))
