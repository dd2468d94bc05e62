"""What this process runs on and with: machine, Python, versions of packages, and where its threads are."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
import sys
import threading
import traceback
from typing import Final

from headgate.common.files.durable import clock
from headgate.common.plain_data import Json
from headgate.common.process.processes import resident_bytes
from headgate.common.refusals.texts import encodable

FRAMES_MAX: Final = 60  # of a thread's stack, from the innermost
PACKAGES: Final = (
    *("headgate", "pyspark", "pandas", "pyarrow", "numpy", "msgspec", "cloudpickle", "rich", "starlette"),
    *("uvicorn", "typer", "zstandard", "polars", "rocksdict", "fastavro", "confluent-kafka", "kazoo"),
    *("obstore", "duckdb", "opentelemetry-sdk", "openlineage-python", "protobuf"),
)
"""The packages that Headgate works with; those that are not installed are left out of what is told."""


def versions() -> dict[str, Json]:
    """Return the versions of Python and of the packages that Headgate works with, by name.

    Example:
        >>> {"python", "headgate"} <= versions().keys()
        True
    """
    found: dict[str, Json] = {"python": sys.version}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Json]:
    """Return facts about this machine and process: system, processors, memory, load, process id."""
    return {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "load": _load(),
        "pid": os.getpid(),
        "resident_bytes": resident_bytes(),
        "interpreter": sys.executable,
        "time_ms": int(clock.time() * 1000),
    }


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _load() -> list[Json] | None:
    try:
        return [round(each, 2) for each in os.getloadavg()]
    except OSError:  # as where /proc is hidden
        return None


def threads() -> list[Json]:
    """Return each thread of this process, with its `name` and its `stack`: lines of text, outermost first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        {
            "name": names.get(ident, f"thread {ident}"),
            "stack": [
                encodable(line)
                for entry in traceback.format_stack(frame, FRAMES_MAX)
                for line in entry.rstrip().splitlines()
            ],
        }
        for ident, frame in sys._current_frames().items()
    ]
