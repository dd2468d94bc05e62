"""The port to the event loop in which a subtask's asynchronous function runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Made: TypeAlias = Callable[[], Awaitable[Any]]
"""Makes the awaitable of one call of user code; called in the event loop."""


class Ended(NamedTuple):
    """A call that has ended, by a result or an error."""

    call: tuple[int, int]  # as it was started: the request, the attempt
    result: Any  # None after an error
    error: BaseException | None


class EventLoop(Protocol):
    """An event loop of one subtask. The worker's loop calls it, never the loop itself."""

    def run(self, make: Made) -> None:
        """Await what `make` makes, and wait for the end; raise its error."""

    def start(self, calls: Sequence[tuple[tuple[int, int], Made]]) -> None:
        """Begin calls, each with its identity, in order, without a wait for them."""

    def cancel(self, calls: Sequence[tuple[int, int]]) -> None:
        """Cancel calls that may have ended meanwhile; their ends may still be reported."""

    def close(self, last: Made) -> None:
        """Cancel all calls, await what `last` makes, and end the loop; raise an error of `last`. Where a call
        does not let go of the thread, it is left behind, and `last` is not called.
        """


OpenLoop: TypeAlias = Callable[[str, Callable[[list[Ended]], None]], EventLoop]
"""Opens the event loop of one subtask, by the name of its thread. The function gets the calls that have
ended, in the worker's loop.
"""
