"""How long Python's garbage collector has held up this process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any


class CollectionsTime:
    """Adds up the times of all collections while it is :meth:`watching`; any thread may read `us`."""

    def __init__(self) -> None:
        self.us = 0
        self._began = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch all collections of this process until the block ends."""
        gc.callbacks.append(self._note)
        try:
            yield
        finally:
            gc.callbacks.remove(self._note)

    def _note(self, phase: str, _: dict[str, Any]) -> None:
        # Collections never overlap: one holds the interpreter's lock from its begin to its end.
        if phase == "start":
            self._began = perf_counter_ns()
        else:
            self.us += (perf_counter_ns() - self._began) // 1000
