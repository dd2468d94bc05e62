"""Stored keyed state on a disk, for the engine that reads it (`state/stored`) and for live backends."""

from __future__ import annotations

from pathlib import Path

from headgate.checkpoint.data_files import StoredBytes, copy_handle, read_handle, verify_handle, where_of
from headgate.common.ports import Disk
from headgate.state.snapshots import KeyedStateHandle, NativeFiles, StateHandle


class StoredNativeState(StoredBytes):
    """Implements `state.backend.NativeState`; verifies what it reads."""

    def __init__(self, disk: Disk, keyed: KeyedStateHandle, native: NativeFiles) -> None:
        super().__init__(disk, keyed.handle)
        self._storage = disk
        self.native, self.root = native, disk.describe()

    def fetch(self, name: str, target: Path) -> None:
        """Copy a native file to the local disk, where it appears once it is verified."""
        copy_handle(self._storage, self.native.files[name], target)


class DiskFiles:
    """Implements `state.backend.StoredFiles` on one storage."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def read(self, handle: StateHandle) -> bytes:
        """Return all bytes of a handle, verified."""
        return read_handle(self._disk, handle)

    def verify(self, handle: StateHandle) -> None:
        """Compare the bytes with their checksum."""
        verify_handle(self._disk, handle)

    def verified(self, handle: StateHandle) -> StoredBytes:
        """Verify all bytes, to read parts of them."""
        return StoredBytes(self._disk, handle)

    def ranges(self, handle: StateHandle) -> StoredBytes:
        """Read parts of the bytes without verifying them."""
        return StoredBytes(self._disk, handle, verified=False)

    def native(self, keyed: KeyedStateHandle) -> StoredNativeState:
        """Return the native files, and the blob stored with them."""
        assert keyed.native is not None
        return StoredNativeState(self._disk, keyed, keyed.native)

    def where(self, handle: StateHandle) -> str:
        """Return the file's name for errors."""
        return where_of(self._disk, handle)
