"""What Spark's JVM and the Python workers print, line by line to this process's standard error.

It goes through `sys.stderr`, so that a progress display can keep its line below it, and without the
one line that the JVM prints at every start.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

NOISE: Final = ("WARNING: Using incubator modules: jdk.incubator.vector",)


@contextmanager
def forwarded_output() -> Iterator[int]:
    """A file descriptor for a child's output; open for this process until the body ends."""
    reading, writing = os.pipe()
    thread = threading.Thread(target=_forward, args=(reading,), name="headgate-jvm-output", daemon=True)
    thread.start()
    try:
        yield writing
    finally:
        os.close(writing)


def _forward(reading: int) -> None:
    """Until nobody has the other end any more."""
    with open(reading, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.rstrip("\n") in NOISE:
                continue
            # The terminal, or the interpreter itself, may be on its way out.
            with contextlib.suppress(Exception):
                sys.stderr.write(line)
                sys.stderr.flush()
