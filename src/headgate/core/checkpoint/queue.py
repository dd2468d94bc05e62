"""Requested checkpoints that wait for their turn, and the tickets of those who wait for an answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from headgate.common.errors import InternalError
from headgate.common.ids import CheckpointId
from headgate.core.checkpoint.effects import RequestDeclined, RequestFailed, RequestFulfilled, RequestKind
from headgate.core.checkpoint.failures import CheckpointFailureReason

QUEUED_MAX: Final = 1000  # requests that may wait

Answer = RequestDeclined | RequestFulfilled | RequestFailed


@dataclass(frozen=True, slots=True)
class Request:
    """A checkpoint that is wanted."""

    kind: RequestKind
    ticket: int | None = None  # the requester's number, by which it is answered; None: none waits
    timeout_ms: int | None = None  # from trigger to the last acknowledgement; None: as configured


class RequestQueue:
    """Two queues, bounded together: savepoints, then manual ones, each oldest first.

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
        """Queue it; gives the request that must leave for it when the queue is full, which may be itself."""
        (self._savepoints if request.kind.is_savepoint else self._manual).append(request)
        return None if len(self) <= self.capacity else (self._manual or self._savepoints).pop()

    def take_savepoint(self) -> Request:
        """Take the oldest savepoint."""
        return self._savepoints.popleft()

    def take_manual(self) -> Request:
        """Take the oldest manual request."""
        return self._manual.popleft()

    def drop_manual(self) -> list[Request]:
        """Forget and return all manual requests, oldest first."""
        dropped, self._manual = self._manual, deque()
        return [*dropped]

    def drop_all(self) -> list[Request]:
        """Forget and return all, in the order in which they would have been taken."""
        dropped, self._savepoints = self._savepoints, deque()
        return [*dropped, *self.drop_manual()]

    def tickets(self) -> set[int | None]:
        """Return the tickets of all requests that wait."""
        return {each.ticket for each in (*self._savepoints, *self._manual)}

    def describe(self) -> tuple[Hashable, ...]:
        """Return the complete state as plain values, for traces and searches."""
        return tuple((each.kind.value, each.ticket) for each in (*self._savepoints, *self._manual))


class Tickets:
    """Numbers that were handed in and not answered yet; each gets exactly one answer.

    A request without a number is answered only when it is turned down before a checkpoint was begun.

    Example:
        >>> tickets = Tickets()
        >>> asked = Request(RequestKind.MANUAL, ticket=7)
        >>> tickets.open(asked); tickets.fulfil(asked, CheckpointId(1))
        [RequestFulfilled(ticket=7, checkpoint=1)]
        >>> tickets.fulfil(asked, CheckpointId(2))
        Traceback (most recent call last):
            ...
        headgate.common.errors.InternalError: ticket 7 is answered twice, or was never handed in
    """

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: set[int] = set()

    @property
    def waiting(self) -> frozenset[int]:
        """Tickets without an answer."""
        return frozenset(self._open)

    def open(self, request: Request) -> None:
        """A request came."""
        if request.ticket is None:
            return
        if request.ticket in self._open:
            raise InternalError(f"ticket {request.ticket} was handed in twice; each request needs its own")
        if not (request.kind.is_savepoint or request.kind is RequestKind.MANUAL):
            raise InternalError(f"a {request.kind.value} checkpoint takes no ticket, got {request.ticket}")
        self._open.add(request.ticket)

    def fulfil(self, request: Request, checkpoint: CheckpointId) -> list[RequestFulfilled]:
        """Answer a requester that its checkpoint is complete."""
        if request.ticket is None:
            return []
        self._close(request.ticket)
        return [RequestFulfilled(request.ticket, checkpoint)]

    def refuse(self, request: Request, reason: CheckpointFailureReason, detail: str = "") -> list[Answer]:
        """Answer that no checkpoint will be begun for a request."""
        if request.ticket is None:
            return [RequestDeclined(request.kind, reason)]
        return list(self.fail(request, reason, detail, None))

    def fail(
        self, request: Request, reason: CheckpointFailureReason, detail: str, checkpoint: CheckpointId | None
    ) -> list[RequestFailed]:
        """Answer that the checkpoint begun for a request came to nothing."""
        if request.ticket is None:
            return []
        self._close(request.ticket)
        return [RequestFailed(request.ticket, request.kind, reason, detail, checkpoint)]

    def _close(self, ticket: int) -> None:
        if ticket not in self._open:
            raise InternalError(f"ticket {ticket} is answered twice, or was never handed in")
        self._open.remove(ticket)
