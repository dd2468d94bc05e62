"""Who asked a running job for something and waits for the answer: numbers out, answers back, each once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Generic, TypeAlias, TypeVar

from headgate.common.errors import HeadgateError

A = TypeVar("A")

Then: TypeAlias = Callable[[A | None, HeadgateError | None], None]
"""Takes the answer and None, or None and why there is none."""


class Tickets(Generic[A]):
    """The questions under way; used by the job master's loop only.

    Example:
        >>> tickets, seen = Tickets(), []
        >>> number = tickets.issue(lambda answer, error: seen.append((answer, error)))
        >>> tickets.answer(number, "file:///there"); tickets.answer(number, "again"); seen
        [('file:///there', None)]
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: dict[int, Then[A]] = {}

    def issue(self, then: Then[A]) -> int:
        """A number for somebody who waits."""
        number = next(self._numbers)
        self._waiting[number] = then
        return number

    def answer(self, ticket: int, answer: A) -> None:
        """It was done; a ticket that was answered before is ignored."""
        then = self._waiting.pop(ticket, None)
        if then is not None:
            then(answer, None)

    def refuse(self, ticket: int, error: HeadgateError) -> None:
        """It will not be done; a ticket that was answered before is ignored."""
        then = self._waiting.pop(ticket, None)
        if then is not None:
            then(None, error)

    def refuse_all(self, error: HeadgateError) -> None:
        """The job is over: nobody waits in vain."""
        for ticket in list(self._waiting):
            self.refuse(ticket, error)
