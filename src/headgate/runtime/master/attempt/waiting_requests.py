"""Requests to a running job that wait for their replies: each gets exactly one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Generic, TypeAlias, TypeVar

from headgate.common.errors import HeadgateError

A = TypeVar("A")

ReplyTo: TypeAlias = Callable[[A | None, HeadgateError | None], None]
"""Callback of a request: called once, with (answer, None) or with (None, error)."""


class Tickets(Generic[A]):
    """Pending requests by number (ticket); a reply to an unknown or already answered ticket is ignored.

    Example:
        >>> tickets, seen = Tickets(), []
        >>> number = tickets.issue(lambda answer, error: seen.append((answer, error)))
        >>> tickets.reply(number, "file:///there"); tickets.reply(number, "again"); seen
        [('file:///there', None)]
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: dict[int, ReplyTo[A]] = {}

    def issue(self, reply_to: ReplyTo[A] | None = None) -> int:
        """Return a new ticket, from 1; `reply_to` is called once, by `reply` or `refuse_all` (None: by
        nobody).
        """
        number = next(self._numbers)
        if reply_to is not None:
            self._waiting[number] = reply_to
        return number

    def reply(self, ticket: int, answer: A | None, error: HeadgateError | None = None) -> None:
        """Call the `reply_to` of pending request `ticket` with (`answer`, `error`); forget the request."""
        reply_to = self._waiting.pop(ticket, None)
        if reply_to is not None:
            reply_to(answer, error)

    def refuse_all(self, error: HeadgateError) -> None:
        for ticket in list(self._waiting):
            self.reply(ticket, None, error)
