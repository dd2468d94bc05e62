"""Checkpoint storage with copies of its files nearby: one view for who writes them, one for who restores."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

from headgate.checkpoint.local_copies import LocalCopies
from headgate.common.errors import StorageError
from headgate.common.ports import Disk
from headgate.state.snapshots import FileRange

_LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")


class _Delegating:
    """All of `common.ports.Disk`, as the storage itself does it."""

    def __init__(self, disk: Disk, copies: LocalCopies) -> None:
        self.disk, self.copies = disk, copies

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """See `common.ports.Disk`."""
        self.disk.create(name, parts)

    def create_if_absent(self, name: str, data: bytes) -> bool:
        """See `common.ports.Disk`."""
        return self.disk.create_if_absent(name, data)

    def read(self, name: str) -> bytes:
        """See `common.ports.Disk`."""
        return self.disk.read(name)

    def list(self, prefix: str) -> Sequence[str]:
        """See `common.ports.Disk`."""
        return self.disk.list(prefix)

    def delete(self, name: str) -> None:
        """See `common.ports.Disk`."""
        self.disk.delete(name)

    def describe(self, name: str = "") -> str:
        """See `common.ports.Disk`."""
        return self.disk.describe(name)


class BackedUpDisk(_Delegating):
    """What is written is copied on the way; the storage alone decides whether it was written.

    Args:
        source: a local file that is the next one to be written, whole.
    """

    def __init__(self, disk: Disk, copies: LocalCopies, source: Path | None = None) -> None:
        super().__init__(disk, copies)
        self._source = source

    def linking(self, source: Path) -> BackedUpDisk:
        """The same, for a file whose bytes lie in a local file that never changes."""
        return BackedUpDisk(self.disk, self.copies, source)

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """See `common.ports.Disk`."""
        with self.copies.copying(name, self._source) as copy:
            self.disk.create(name, copy.of(parts))

    def delete(self, name: str) -> None:
        """See `common.ports.Disk`."""
        self.copies.delete(name)
        self.disk.delete(name)


class NearbyDisk(_Delegating):
    """Bytes are taken from a copy where there is a sound one.

    Attributes:
        bytes_local: taken from copies so far.
        bytes_remote: taken from the storage so far.
    """

    def __init__(self, disk: Disk, copies: LocalCopies) -> None:
        super().__init__(disk, copies)
        self.bytes_local = self.bytes_remote = 0
        self._lock = Lock()

    def best(self, handle: FileRange, read: Callable[[Disk], T]) -> T:
        """What `read` makes of a disk that has a handle's bytes; it verifies them."""
        try:
            copy = self.copies.find(handle.file)
            if copy is not None:
                found = read(copy)
                self._count(local=handle.length)
                return found
        except (StorageError, OSError) as error:
            why = str(error).partition(";")[0]  # the advice is for who has no other copy
            _LOG.warning("a local copy is not used, the storage is read instead: %s", why)
        found = read(self.disk)
        self._count(remote=handle.length)
        return found

    def _count(self, local: int = 0, remote: int = 0) -> None:
        with self._lock:  # subtasks beside the loop restore on threads of their own
            self.bytes_local += local
            self.bytes_remote += remote


def best_of(disk: Disk, handle: FileRange, read: Callable[[Disk], T]) -> T:
    """What `read` makes of the best disk that has a handle's bytes."""
    return disk.best(handle, read) if isinstance(disk, NearbyDisk) else read(disk)
