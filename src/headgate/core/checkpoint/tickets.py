"""The askers who still wait for an answer; each gets exactly one."""

from __future__ import annotations

from headgate.common.errors import InternalError
from headgate.common.ids import CheckpointId
from headgate.core.checkpoint.effects import RequestDeclined, RequestFailed, RequestFulfilled
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.queue import Request

Answer = RequestDeclined | RequestFulfilled | RequestFailed


class Tickets:
    """Numbers that were handed in and not answered yet.

    A request without a number is answered only when it is turned down before a checkpoint was begun.

    Example:
        >>> from headgate.core.checkpoint.effects import RequestKind
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
        if not (request.kind.is_savepoint or request.kind.value == "manual"):
            raise InternalError(f"a {request.kind.value} checkpoint takes no ticket, got {request.ticket}")
        self._open.add(request.ticket)

    def fulfil(self, request: Request, checkpoint: CheckpointId) -> list[RequestFulfilled]:
        """The asker has what it asked for."""
        if request.ticket is None:
            return []
        self._close(request.ticket)
        return [RequestFulfilled(request.ticket, checkpoint)]

    def refuse(self, request: Request, reason: CheckpointFailureReason, detail: str = "") -> list[Answer]:
        """No checkpoint will be begun for it."""
        if request.ticket is None:
            return [RequestDeclined(request.kind, reason)]
        return list(self.fail(request, reason, detail, None))

    def fail(
        self,
        request: Request,
        reason: CheckpointFailureReason,
        detail: str,
        checkpoint: CheckpointId | None,
    ) -> list[RequestFailed]:
        """The checkpoint that was begun for it came to nothing."""
        if request.ticket is None:
            return []
        self._close(request.ticket)
        return [RequestFailed(request.ticket, request.kind, reason, detail, checkpoint)]

    def _close(self, ticket: int) -> None:
        if ticket not in self._open:
            raise InternalError(f"ticket {ticket} is answered twice, or was never handed in")
        self._open.remove(ticket)
