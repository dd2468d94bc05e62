"""Protection from processes that user code forks: they end with that code, and reach no file of Headgate's.

A forked child has a copy of everything: open files, connections, exit functions. Only the process that made
a file or connection may clean it up, commit it or answer on it. So each place that calls user code ends a
child that returns or raises out of it, and Headgate's descriptors point to /dev/null in a child. Programs
that are started anew (`subprocess`, `multiprocessing` by "spawn") inherit no descriptor of Headgate's.
"""

from __future__ import annotations

import atexit
import os
import socket
import stat
import sys
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn, ParamSpec, Protocol, TypeVar

T = TypeVar("T")

EXIT_CAME_BACK: Final = 1  # exit code of a child that returned from the function that made it


class HasDescriptor(Protocol):
    """An object with a file descriptor, such as a file or a socket."""

    def fileno(self) -> int:
        """Return the descriptor; below 0 or a ValueError once it is closed."""


_hidden: Final[set[weakref.ref[HasDescriptor]]] = set()

P = ParamSpec("P")
T_owner = TypeVar("T_owner")
R = TypeVar("R", bound=HasDescriptor)


def hide(resource: R) -> R:
    """Register a file or socket, by weak reference, to lead to /dev/null in forked children; return it.

    What a child does to its copy then reaches neither the disk nor the peer: bytes that both processes have
    buffered are not written twice, and a connection ends with this process even if a child lives on.
    """
    _hidden.add(weakref.ref(resource, _hidden.discard))
    return resource


class _OpenSocket:
    """A socket that other code opened: its descriptor and inode, so that :func:`hide` can be applied."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._inode = descriptor, os.fstat(descriptor).st_ino

    def fileno(self) -> int:
        try:
            return self._descriptor if os.fstat(self._descriptor).st_ino == self._inode else -1
        except OSError:
            return -1


def hide_open_sockets() -> list[HasDescriptor]:
    """Apply :func:`hide` to all sockets open now, such as Spark's, while the caller keeps the result.
    The result is empty where there is no /proc.
    """
    found: list[HasDescriptor] = []
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers, no paths
            with suppress(OSError):
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    found.append(hide(_OpenSocket(int(name))))
    return found


def _resources() -> list[HasDescriptor]:
    # A copy of the set, as other threads may hide more meanwhile.
    return [resource for each in list(_hidden) if (resource := each()) is not None]


def descriptors_closed() -> int:
    """Return how many descriptors given to :func:`hide` other code has closed, or (of sockets) reused."""
    closed = 0
    for resource in _resources():
        descriptor = _descriptor(resource)
        if descriptor < 0:
            continue
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError:
            mode = 0
        other = isinstance(resource, socket.socket) and not stat.S_ISSOCK(mode)
        if (mode == 0 or other) and _descriptor(resource) == descriptor:  # else it was just closed in order
            closed += 1
    return closed


def _lead_nowhere() -> None:
    resources = [resource for resource in _resources() if _descriptor(resource) >= 0]
    if not resources:
        return
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_RDWR)
        for resource in resources:
            with suppress(OSError):
                os.dup2(nowhere, _descriptor(resource), inheritable=False)
        os.close(nowhere)


def _descriptor(resource: HasDescriptor) -> int:
    try:
        return resource.fileno()
    except (OSError, ValueError):
        return -1


os.register_at_fork(after_in_child=_lead_nowhere)


_owners: Final[set[int]] = set()


def is_child() -> bool:
    """Return whether this process made no :class:`OwnProcess` itself, but was forked from one that did."""
    return bool(_owners) and os.getpid() not in _owners


class OwnProcess:
    """Remembers the process that made it, so that a forked child which leaves user code is ended.

    Example:
        >>> own = OwnProcess()
        >>> own.call(divmod, 7, 2), own.is_here
        ((3, 1), True)
    """

    __slots__ = ("pid",)

    def __init__(self) -> None:
        self.pid = os.getpid()
        _owners.add(self.pid)

    @property
    def is_here(self) -> bool:
        """Whether the caller runs in the process that made this object, and in no forked child of it."""
        return os.getpid() == self.pid

    def call(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call a function that may run user code and return its result; end a forked child that leaves it."""
        try:
            result = function(*arguments, **named)
        except BaseException as error:
            if os.getpid() != self.pid:
                end_child(error)
            raise
        self.end_if_child()
        return result

    def end_if_child(self) -> None:
        """End this process if it is a forked child of the one that made this object."""
        if os.getpid() != self.pid:
            end_child(None)


def end_child(error: BaseException | None) -> NoReturn:
    """End this forked child by `os._exit`, without exit functions and other cleanup, which are its parent's.

    `error` is what user code raised: the exit code is what Python would give. None: it returned; code 1.
    """
    code = EXIT_CAME_BACK
    with suppress(Exception):
        if isinstance(error, SystemExit):
            given = 0 if error.code is None else error.code
            if isinstance(given, int):
                code = given & 0xFF
            else:
                sys.stderr.write(f"{given}\n")
        elif error is not None:
            traceback.print_exception(error)
        else:
            sys.stderr.write(
                f"headgate: process {os.getpid()}, which user code has forked, came back out of the user's "
                "function and ends here: the job goes on in its parent alone; end such a process by "
                "os._exit() or sys.exit() in the function\n"
            )
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def _unless_child(action: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Callable[[], None]:
    own = OwnProcess()

    def end() -> None:
        if own.is_here:
            action(*arguments, **named)

    return end


def at_exit(action: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Callable[[], None]:
    """Call `action` when this process ends, not when forked children do; return a function to revoke it."""
    end = _unless_child(action, *arguments, **named)
    atexit.register(end)
    return lambda: atexit.unregister(end)


def when_forgotten(
    owner: T_owner, action: Callable[P, T], *arguments: P.args, **named: P.kwargs
) -> weakref.finalize[[], T_owner]:
    """Call `action` once `owner` is garbage, or at exit, but in no forked child; return the finalizer."""
    return weakref.finalize(owner, _unless_child(action, *arguments, **named))
