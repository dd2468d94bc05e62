"""Reading records in flight at the start of an attempt, like all other restored state, up to a bound.

Records in flight are decoded when their turn comes, perhaps much later. Were they also read then, a
storage that fails for a moment would stop a job that runs already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from headgate.state.snapshots import FileRange, InFlightShare, StateHandle

AHEAD_BYTES: Final = 64 * 1024 * 1024
"""What one subtask reads at the start; what is beyond is read when its turn comes."""


class PrefetchedParts:
    """The bytes behind the handles of some shares; call it with a handle.

    Raises StorageError: a part cannot be read.
    """

    def __init__(
        self,
        read: Callable[[StateHandle], bytes],  # reads and verifies the bytes of a handle
        shares: Iterable[InFlightShare],  # what will be read, in this order
        ahead_bytes: int = AHEAD_BYTES,  # how much of it is read now, and kept
    ) -> None:
        self._read = read
        self._kept: dict[FileRange, bytes] = {}
        for share in shares:
            for part in share.stream.parts:
                handle = part.handle
                if isinstance(handle, FileRange) and handle not in self._kept and part.size <= ahead_bytes:
                    self._kept[handle] = read(handle)
                    ahead_bytes -= part.size

    def __call__(self, handle: StateHandle) -> bytes:
        """The bytes of one part. Raises StorageError: it was not read ahead and cannot be read now."""
        kept = self._kept.get(handle) if isinstance(handle, FileRange) else None
        return self._read(handle) if kept is None else kept
