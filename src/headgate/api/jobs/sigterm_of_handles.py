"""Passes SIGTERM on to jobs in the background of a program that does not handle it itself.

The main thread may be anywhere then, also where it holds a lock. So the handler only puts a word into a
queue and raises; a thread of its own tells the jobs.
"""

from __future__ import annotations

import queue
import signal
import threading
import weakref
from types import FrameType
from typing import Final, Protocol

from headgate.common.process.signal_handlers import Terminated


class Endable(Protocol):
    """A job in the background, as the thread that heard of the signal ends it."""

    def terminate(self) -> None:
        """Begin to do what is configured for SIGTERM; do not wait."""

    def cancel(self, timeout_s: float | None) -> None:
        """Cancel the job, and wait so long for its end."""


class _Leaving(Terminated, SystemExit):
    """Raised in the main thread: caught as the signal that it is; uncaught it ends the process without a
    traceback, by the exit code that a shell shows for SIGTERM.
    """

    code = 128 + signal.SIGTERM


_jobs: Final[weakref.WeakSet[Endable]] = weakref.WeakSet()
_came: Final[queue.SimpleQueue[None]] = queue.SimpleQueue()  # its put may interrupt itself
_began: Final = threading.Lock()
_telling: list[threading.Thread] = []


def tell_of_sigterm(job: Endable) -> None:
    """Tell a job of each SIGTERM: the first is as configured, the second cancels it. Nothing happens off the
    main thread, or where the program handles the signal itself.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, _handle):
        return
    _jobs.add(job)
    with _began:
        if not _telling:
            _telling.append(threading.Thread(target=_tell, name="headgate-sigterm", daemon=True))
            _telling[0].start()
    signal.signal(signal.SIGTERM, _handle)


def _handle(_number: int, _frame: FrameType | None) -> None:
    _came.put(None)
    raise _Leaving


def _tell() -> None:
    _came.get()
    for job in list(_jobs):
        job.terminate()
    while True:
        _came.get()
        for job in list(_jobs):
            job.cancel(0)
