"""Facts about processes here: whether one lives, this one's memory, how many were killed for memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from headgate.common.files.durable import read_bytes

_PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_CGROUPS: Final = Path("/sys/fs/cgroup")
_ENDED: Final = (b"Z", b"X")  # states of a process that has ended and that its parent has not waited for


def process_lives(pid: int) -> bool:
    """Return whether a process of this number can still act, whichever user owns it.

    A process that has ended but that its parent has not waited for (a zombie) does not live. In a container
    whose first process waits for no orphans, the workers of a killed driver stay zombies for ever.

    Example:
        >>> process_lives(os.getpid()), process_lives(2**22 + 1)
        (True, False)
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # another user's, so not ours to judge
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        facts = read_bytes(f"/proc/{pid}/stat")
    except OSError:
        return False
    _, _, after_name = facts.rpartition(b")")  # the name may hold anything, a parenthesis included
    return after_name.strip()[:1] in _ENDED


def resident_bytes() -> int:
    """Return this process's memory in RAM (resident set), in bytes; 0 where the system does not report it."""
    try:
        return int(read_bytes("/proc/self/statm").split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def oom_kills(own: Path = Path("/proc/self/cgroup"), root: Path = _CGROUPS) -> int | None:
    """Return how many processes of this container (cgroup) the kernel ever killed for memory; None: unknown.

    `own` is the file that names this process's cgroup, `root` the folder of all cgroups.
    """
    places = [root]
    with suppress(OSError):
        for line in read_bytes(own).decode().splitlines():
            _, controllers, path = line.split(":", 2)
            base = root if not controllers else root / "memory"
            if controllers in ("", "memory"):
                places.insert(0, base / path.lstrip("/"))
    for place in places:
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError, ValueError):
                counts = dict(line.split() for line in read_bytes(place / name).decode().splitlines())
                if "oom_kill" in counts:
                    return int(counts["oom_kill"])
    return None
