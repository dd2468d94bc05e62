"""Runs a command for at most so many seconds, and ends all that it has started.

    scripts/run_within.py SECONDS COMMAND...

With 0 seconds there is no limit. At the limit, and at SIGTERM or SIGHUP, the command gets a SIGINT as from
Ctrl-C, so that it can say what it was at; Ctrl-C itself reaches it from the terminal. Ten seconds later it is
killed. However it ends, what is left of its processes is killed, also those that have a session of their own
or have lost their parents: a limit that ends a process group knows nothing of these. The exit code is the
command's; at the limit it is 124, as with `timeout`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Final

import psutil

GRACE_S: Final = 10.0
AT_LIMIT: Final = 124
_ROUNDS: Final = 100
_PR_SET_CHILD_SUBREAPER: Final = 36
_ENDING: Final = (signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Signalled(BaseException):
    """A signal came.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_within(limit_s: float, command: Sequence[str]) -> int:
    """Run a command; call it in a process of its own, whose signals and children it takes over.

    Args:
        limit_s: for the command itself; 0 for none.
        command: the program, looked for as the shell does, and its arguments.

    Returns:
        The exit code; 128 and the signal's number for a command that a signal ended.
    """
    _adopt_orphans()
    for number in _ENDING:
        signal.signal(number, _raise)
    pid = os.posix_spawnp(command[0], list(command), os.environ)
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        try:
            return _exit_code(pid)
        except _Signalled as came:
            return _ended(pid, came.number)
    finally:
        _settle(signal.SIG_IGN)
        _kill_all()


def _ended(pid: int, number: int) -> int:
    """Let the command end; its exit code, or why it has none."""
    _settle(signal.SIG_IGN)
    if number != signal.SIGINT:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, GRACE_S)
    code = 128 + number
    with suppress(_Signalled, ChildProcessError):
        code = _exit_code(pid)
    return AT_LIMIT if number == signal.SIGALRM else code


def _exit_code(pid: int) -> int:
    """Wait for the command; orphans that end meanwhile must not stay as zombies, which look alive."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _kill_all() -> None:
    own = psutil.Process()
    for _ in range(_ROUNDS):  # a process may start another one before it is killed
        left = own.children(recursive=True)
        if not left:
            return
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=0.1)
    names = ", ".join(f"{process.pid} ({process.name()})" for process in left)
    print(f"these processes cannot be killed: {names}", file=sys.stderr)


def _adopt_orphans() -> None:
    # Elsewhere than on Linux, processes that lose their parents get away.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _settle(how: signal.Handlers) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in _ENDING:
        signal.signal(number, how)


def _raise(number: int, _frame: FrameType | None) -> None:
    raise _Signalled(number)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    raise SystemExit(run_within(float(sys.argv[1]), sys.argv[2:]))
