"""The queue of requested checkpoints, and the tickets by which requesters are answered."""

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
    """A request for a checkpoint, not started yet; `ticket`: the requester's number (None: nobody waits)."""

    kind: RequestKind
    ticket: int | None = None  # the requester's number, by which it is answered; None: none waits
    timeout_ms: int | None = None  # from its beginning to the last acknowledgement; None: as configured


class RequestQueue:
    """Waiting requests for checkpoints: savepoints, then manual ones, each oldest first, with one bound.

    FINAL and PERIODIC requests are not queued here: there is at most one of each.

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
        return len(self._savepoints)

    @property
    def manual(self) -> int:
        return len(self._manual)

    def add(self, request: Request) -> Request | None:
        """Queue a request for a savepoint, a stop or a manual checkpoint; return the request that is dropped
        for it. None: none is. If more than `capacity` wait it is the newest manual, else the newest
        savepoint, perhaps `request` itself; the caller refuses it.
        """
        (self._savepoints if request.kind.is_savepoint else self._manual).append(request)
        return None if len(self) <= self.capacity else (self._manual or self._savepoints).pop()

    def take_savepoint(self) -> Request:
        return self._savepoints.popleft()

    def take_manual(self) -> Request:
        """Remove and return the oldest request for a manual checkpoint; IndexError if none waits."""
        return self._manual.popleft()

    def drop_manual(self) -> list[Request]:
        """Remove and return all requests for manual checkpoints, oldest first."""
        dropped, self._manual = self._manual, deque()
        return [*dropped]

    def drop_all(self) -> list[Request]:
        """Remove and return all requests, in the order in which they would have been taken."""
        dropped, self._savepoints = self._savepoints, deque()
        return [*dropped, *self.drop_manual()]

    def tickets(self) -> set[int | None]:
        """Return the tickets of all requests that wait; None stands for requests without one."""
        return {each.ticket for each in (*self._savepoints, *self._manual)}

    def describe(self) -> tuple[Hashable, ...]:
        return tuple((each.kind.value, each.ticket) for each in (*self._savepoints, *self._manual))


class Tickets:
    """The open tickets: numbers of requests that were not answered yet; each gets exactly one answer.

    A request without a ticket is answered only when it is refused before a checkpoint was begun.

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
        return frozenset(self._open)

    def open(self, request: Request) -> None:
        """Register a request's ticket, if it has one; InternalError if it is in use or its kind has none."""
        if request.ticket is None:
            return
        if request.ticket in self._open:
            raise InternalError(f"ticket {request.ticket} was handed in twice; each request needs its own")
        if not (request.kind.is_savepoint or request.kind is RequestKind.MANUAL):
            raise InternalError(f"a {request.kind.value} checkpoint takes no ticket, got {request.ticket}")
        self._open.add(request.ticket)

    def fulfil(self, request: Request, checkpoint: CheckpointId) -> list[RequestFulfilled]:
        """Close the ticket (InternalError: not open); return that `checkpoint` completed ([]: no ticket)."""
        if request.ticket is None:
            return []
        self._close(request.ticket)
        return [RequestFulfilled(request.ticket, checkpoint)]

    def refuse(self, request: Request, reason: CheckpointFailureReason, detail: str = "") -> list[Answer]:
        """Close the ticket of a request that is refused before a checkpoint was begun; return its answer.
        Without a ticket that is RequestDeclined, which only reports. InternalError: the ticket is not open.
        """
        if request.ticket is None:
            return [RequestDeclined(request.kind, reason)]
        return list(self.fail(request, reason, detail, None))

    def fail(
        self, request: Request, reason: CheckpointFailureReason, detail: str, checkpoint: CheckpointId | None
    ) -> list[RequestFailed]:
        """Close the ticket of a request whose checkpoint failed; return its answer, with `checkpoint`, if
        begun. [] if it has no ticket. InternalError: the ticket is not open.
        """
        if request.ticket is None:
            return []
        self._close(request.ticket)
        return [RequestFailed(request.ticket, request.kind, reason, detail, checkpoint)]

    def _close(self, ticket: int) -> None:
        if ticket not in self._open:
            raise InternalError(f"ticket {ticket} is answered twice, or was never handed in")
        self._open.remove(ticket)
