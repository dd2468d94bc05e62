"""How much memory this process uses, and whether the kernel has killed for want of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from headgate.common.files.durable import read_bytes

_PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_CGROUPS: Final = Path("/sys/fs/cgroup")


def resident_bytes() -> int:
    """Memory of this process that is in RAM; 0 where the system does not tell."""
    try:
        return int(read_bytes("/proc/self/statm").split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def oom_kills(own: Path = Path("/proc/self/cgroup"), root: Path = _CGROUPS) -> int | None:
    """Processes of this container that the kernel has killed for want of memory; None: it does not tell."""
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
