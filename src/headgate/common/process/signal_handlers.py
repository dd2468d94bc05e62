"""Turns Ctrl-C and SIGTERM to the driver's process into exceptions.

The job ends where they arrive: in the driver's loop (`runtime/driver/driver.py`), or in
`api/jobs/job_handle.py` for a job in the background.

Only the main thread can be interrupted; in any other these do nothing. Handlers that the program
itself has installed are left alone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from headgate.common.errors import TerminatedError

Handler = Callable[[int, FrameType | None], Any] | int | None
"""What `signal.signal` gives and takes; None where C code has set a handler."""


class Terminated(TerminatedError):
    """Raised by SIGTERM in the main thread: its job is cancelled, stopped or handed over, and it ends."""

    by_sigterm = True


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM in the block into exceptions, so that it can end what it started.

    After SIGTERM it raises SystemExit with the exit code that a shell shows for it: what the program has to
    clean up at its exit is done, which the signal by itself would skip.
    """
    # PySpark's own handler would first cancel every Spark job, the gang among them.
    with _handling(signal.default_int_handler, _terminate):
        try:
            yield
        except Terminated as error:
            raise SystemExit(128 + signal.SIGTERM) from error


def signal_behind(error: BaseException) -> TerminatedError | None:
    """Return the exception of a signal that ends this process, where `error` is one, or the SystemExit that
    :func:`ending_cleanly` makes of it; None where it is anything else.
    """
    found = error.__cause__ if isinstance(error, SystemExit) and error.__cause__ is not None else error
    return found if isinstance(found, TerminatedError) else None


@contextmanager
def deferring_interrupts() -> Iterator[None]:
    """Delay Ctrl-C (KeyboardInterrupt) and SIGTERM (SystemExit) to the block's end; a second raises at once.

    For the seconds in which Spark's JVM starts: interrupted half-way, it would have no owner.
    """
    came: list[int] = []

    def remember(number: int, _: FrameType | None) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    try:
        with _handling(remember, remember):
            yield
    finally:  # whoever asked for the end gets it, also where the block has failed by itself
        if signal.SIGTERM in came:
            raise SystemExit(128 + signal.SIGTERM)
        if came:
            raise KeyboardInterrupt


@contextmanager
def _handling(interrupt: Handler, terminate: Handler) -> Iterator[None]:
    before: dict[signal.Signals, Handler] = {}
    if threading.current_thread() is threading.main_thread():
        if _is_default(signal.getsignal(signal.SIGINT)):
            before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            before[signal.SIGTERM] = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def _is_default(handler: Handler) -> bool:
    pyspark = str(getattr(handler, "__module__", "")).startswith("pyspark.")
    return handler is signal.default_int_handler or pyspark
