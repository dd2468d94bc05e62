"""How long Arrow keeps memory that it has freed."""

from __future__ import annotations

import os
from typing import Final

_DELAY: Final = "MIMALLOC_PURGE_DELAY"
_KEPT_MS: Final = 10_000


def keep_freed_memory() -> None:
    """Have Arrow keep memory that it has freed for ten seconds before it gives it back, rather than for one:
    columns of the next batches take its place, and new pages cost more than to fill them. It is read when
    Arrow is loaded: call this before. A time that is set in the environment stays.

    Example:
        >>> keep_freed_memory()
        >>> int(os.environ["MIMALLOC_PURGE_DELAY"])
        10000
    """
    os.environ.setdefault(_DELAY, str(_KEPT_MS))
