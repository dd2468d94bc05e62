"""Spark's Python workers serve one job after the other: what one does to its process must not meet the next.

Limits that user code has set (`resource.setrlimit`) are put back when the worker is let go. Where the system
does not allow that, Spark is told not to use the process again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, Protocol

from headgate.common.errors import OperatingError
from headgate.common.process.children import hide_open_sockets
from headgate.common.process.limits import changes, limits_of, restore

SPARKS_OWN: Final = "PYSPARK_EXECUTOR_MEMORY_MB"
"""Where this is set, Spark itself limits the memory of each worker."""


class MessageReceiver(Protocol):
    """Spark's reader of what the JVM sends to a worker."""

    get_finish_signal_from_stream: Callable[[], None]


@contextmanager
def unspoiled() -> Iterator[None]:
    """Begin with the limits of Spark's daemon, and leave with them."""
    wanted = _of_daemon()
    told = changes(limits_of(), wanted)
    if told and (left := restore(wanted)):
        # What a task raises ends Spark's worker, so the next try is in another one.
        raise OperatingError(
            f"code of an earlier job has set limits of this Python worker ({', '.join(left)}); it ends, and "
            "Spark starts another one"
        )
    _say(told, "an earlier job's code had set limits of this Python worker", "they were put back")
    sparks = hide_open_sockets()  # else a child that lives on keeps from the JVM that its worker has died
    try:
        yield
    finally:
        sparks.clear()
        told = changes(limits_of(), wanted)
        if told and restore(wanted):
            retire()
            _say(told, "user code has set limits of this Python worker", "it is not used for another job")
        else:
            _say(told, "user code has set limits of this Python worker", "they were put back")


def _of_daemon() -> dict[str, tuple[int, int]]:
    """The parent's, which no user code has run in."""
    wanted = limits_of(os.getppid())
    if os.environ.get(SPARKS_OWN):
        wanted.pop("RLIMIT_AS", None)
    return wanted


def _say(changed: list[str], what: str, then: str) -> None:
    if changed:
        sys.stderr.write(f"headgate: {what} ({', '.join(changed)}); {then}\n")


def retire() -> bool:
    """Have Spark not use this process again when its task is done; False where Spark's worker is unknown.

    Spark's worker ends, and says so to the JVM, when the message that ends a task is not as expected.
    """
    receiver = _receiver(sys._getframe())
    if receiver is None:
        return False
    take = receiver.get_finish_signal_from_stream

    def refuse() -> None:
        take()
        raise OperatingError("this Python worker is not to be used again")

    receiver.get_finish_signal_from_stream = refuse
    return True


def _receiver(frame: FrameType | None) -> MessageReceiver | None:
    while frame is not None:
        found: MessageReceiver | None = frame.f_locals.get("message_receiver")
        if hasattr(found, "get_finish_signal_from_stream"):
            return found
        frame = frame.f_back
    return None
