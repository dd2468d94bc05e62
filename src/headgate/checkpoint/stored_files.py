"""Stored keyed state on a disk, for the engine that reads it (`state/stored`) and for live backends."""

from __future__ import annotations

from pathlib import Path

from headgate.checkpoint.data_files import StoredBytes, copy_handle, read_handle, verify_handle, where_of
from headgate.common.ports import Disk
from headgate.state.snapshots import KeyedStateHandle, NativeFiles, StateHandle


class StoredNativeState(StoredBytes):
    """Access to keyed state that is stored as RocksDB files and a blob; the constructor verifies the blob."""

    def __init__(self, disk: Disk, keyed: KeyedStateHandle, native: NativeFiles) -> None:
        super().__init__(disk, keyed.handle)
        self._storage = disk
        self.native, self.root = native, disk.describe()

    def fetch(self, name: str, target: Path) -> None:
        """Copy RocksDB's file `name` to local `target`, where it appears once verified; or StorageError."""
        copy_handle(self._storage, self.native.files[name], target)


class DiskFiles:
    """Reads stored keyed state from one storage; implements `state.backend.StoredFiles`."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def read(self, handle: StateHandle) -> bytes:
        """Return all bytes of a handle; DamagedFileError if the checksum of a file's is wrong."""
        return read_handle(self._disk, handle)

    def verify(self, handle: StateHandle) -> None:
        """Read the bytes of a handle; raise DamagedFileError if some are missing or the checksum is wrong."""
        verify_handle(self._disk, handle)

    def verified(self, handle: StateHandle) -> StoredBytes:
        """Verify all bytes of a handle, return access to parts of them; DamagedFileError if damaged."""
        return StoredBytes(self._disk, handle)

    def ranges(self, handle: StateHandle) -> StoredBytes:
        """Return access to parts of a handle's bytes, unverified where the disk can read a part of a file."""
        return StoredBytes(self._disk, handle, verified=False)

    def native(self, keyed: KeyedStateHandle) -> StoredNativeState:
        """Verify the blob of native state `keyed`, else DamagedFileError; return access to blob and files."""
        assert keyed.native is not None
        return StoredNativeState(self._disk, keyed, keyed.native)

    def where(self, handle: StateHandle) -> str:
        """Return the name of a handle's file for messages."""
        return where_of(self._disk, handle)
