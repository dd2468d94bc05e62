"""Resource limits of a process, which user code may have changed: read, compare, restore, explain errors."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

try:
    import resource
except ImportError:  # no such limits on this system
    resource = None  # type: ignore[assignment]
Limits = Mapping[str, tuple[int, int]]  # name -> soft and hard limit

NAMES: Final = tuple(f"RLIMIT_{name}" for name in ("FSIZE", "NOFILE", "AS", "DATA", "STACK", "CPU", "NPROC"))
_MEANT: Final = {errno.EFBIG: "RLIMIT_FSIZE", errno.EMFILE: "RLIMIT_NOFILE", errno.ENOMEM: "RLIMIT_AS"}


def limits_of(pid: int = 0) -> dict[str, tuple[int, int]]:
    """Return name -> (soft, hard) of a process's resource limits (0: this one) that the system reports."""
    found: dict[str, tuple[int, int]] = {}
    for name in NAMES:
        number = getattr(resource, name, None)
        if number is None:
            continue
        with suppress(OSError, ValueError, AttributeError):
            found[name] = resource.prlimit(pid, number) if pid else resource.getrlimit(number)
    return found


def changes(now: Limits, before: Limits) -> list[str]:
    """Return a sentence for each limit that is in both `now` and `before` and differs.

    Example:
        >>> changes({"RLIMIT_FSIZE": (1000, 1000)}, {"RLIMIT_FSIZE": (-1, -1)})
        ['RLIMIT_FSIZE is 1000 and was unlimited']
    """
    return [
        f"{name} is {_text(now[name], before[name])} and was {_text(before[name], now[name])}"
        for name in before
        if name in now and now[name] != before[name]
    ]


def restore(before: Limits) -> list[str]:
    """Set this process's limits to `before`, as far as allowed; return a sentence for each that differs."""
    for name, wanted in before.items():
        number = getattr(resource, name, None)
        if number is None or resource.getrlimit(number) == wanted:
            continue
        with suppress(OSError, ValueError):
            resource.setrlimit(number, wanted)
            continue
        with suppress(OSError, ValueError):  # what the hard limit allows is better than nothing
            hard = resource.getrlimit(number)[1]
            soft = hard if wanted[0] == resource.RLIM_INFINITY else min(wanted[0], hard)
            resource.setrlimit(number, (soft, hard))
    return changes(limits_of(), before)


def advice(problem: OSError) -> str | None:
    """Return advice on an OSError that a resource limit, or closing by other code, may explain; else None.

    Example:
        >>> advice(OSError(errno.ENOSPC, "No space left on device")) is None
        True
        >>> (advice(OSError(errno.EBADF, "Bad file descriptor")) or "")[:40]
        'code in this process has closed the file'
    """
    if problem.errno == errno.EBADF:
        return (
            "code in this process has closed the file (os.close, os.closerange); "
            "close only what it has opened itself"
        )
    name = _MEANT.get(problem.errno or 0)
    number = None if name is None else getattr(resource, name, None)
    if name is None or number is None:
        return None
    soft, hard = resource.getrlimit(number)
    if name == "RLIMIT_FSIZE" and soft == resource.RLIM_INFINITY:
        return None
    return (
        f"{name} of this process is {_text((soft, hard), (soft, hard))}; raise it (ulimit), or find the code "
        "that has lowered it (resource.setrlimit)"
    )


def _text(limit: tuple[int, int], other: tuple[int, int]) -> str:
    soft, hard = ("unlimited" if value < 0 or value >= 1 << 62 else str(value) for value in limit)
    return soft if limit[0] != other[0] or limit == other else f"{soft} (hard: {hard})"
