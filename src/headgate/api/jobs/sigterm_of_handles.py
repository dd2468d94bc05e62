"""Passes SIGTERM on to jobs in the background of a program that does not handle it itself.

The main thread may be anywhere then, also where it holds a lock. So the handler only puts a word into a
queue and raises; a thread of its own tells the jobs. Once the main thread is over there is nobody left to
catch anything, and what is raised while Python waits for the job's thread would end that waiting.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
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


class _ExitCode:
    """Ends the process by the exit code of SIGTERM when Python lets go of it. That code is settled once the
    main thread is over: with 0 a job that was stopped would look finished.
    """

    def __init__(self) -> None:
        self._leave = os._exit  # the module's names are gone then

    def __del__(self) -> None:
        self._leave(_Leaving.code)


class _Teller(threading.Thread):
    """Tells the jobs of each signal that came, until it is over."""

    def __init__(self) -> None:
        super().__init__(name="headgate-sigterm", daemon=True)
        self._words: queue.SimpleQueue[bool] = queue.SimpleQueue()  # its put may interrupt itself

    def tell(self) -> None:
        """Tell the jobs once more; a signal's handler may call this."""
        self._words.put(True)

    def end(self) -> None:
        """End once everything is told that came before."""
        self._words.put(False)

    def run(self) -> None:
        while self._words.get():
            with _lock:
                again = [job for job in _jobs if job in _told]
                first = [job for job in _jobs if job not in _told]
                _told.update(first)
            for job in first:
                job.terminate()
            for job in again:
                job.cancel(0)


_jobs: Final[weakref.WeakSet[Endable]] = weakref.WeakSet()  # that have not ended
_told: Final[weakref.WeakSet[Endable]] = weakref.WeakSet()
_lock: Final = threading.Lock()  # of all of these
_tellers: Final[list[_Teller]] = []  # one as long as there are jobs


def tell_of_sigterm(job: Endable) -> None:
    """Tell a job of each SIGTERM: its first is as configured, its second cancels it. Nothing happens off the
    main thread, or where the program handles the signal itself.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, _handle):
        return
    with _lock:
        _jobs.add(job)
        if not _tellers:
            _tellers.append(_Teller())
            _tellers[0].start()
    signal.signal(signal.SIGTERM, _handle)


def forget(job: Endable) -> None:
    """Tell a job that has ended of no more. Where none is left SIGTERM does again what it did before, as soon
    as the main thread calls this.
    """
    with _lock:
        _jobs.discard(job)
        if not _jobs and _tellers:
            _tellers.pop().end()
    main = threading.current_thread() is threading.main_thread()
    if main and not _jobs and signal.getsignal(signal.SIGTERM) is _handle:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _handle(_number: int, _frame: FrameType | None) -> None:
    tellers = [*_tellers]  # its thread may be ending, and then there is no job left to tell
    for teller in tellers:
        teller.tell()
    if threading.main_thread().is_alive():
        raise _Leaving
    if tellers and _jobs:
        vars(sys)["_headgate_exit_code"] = _ExitCode()  # of all modules Python lets go of `sys` last
    else:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
