"""Stored keyed state on a disk, for the engine that reads it (`state/stored`) and for live backends."""

from __future__ import annotations

from pathlib import Path

from headgate.checkpoint.data_files import StoredBytes, copy_handle, read_handle, verify_handle, where_of
from headgate.common.ports import Disk
from headgate.state.snapshots import KeyedStateHandle, NativeFiles, StateHandle


class StoredNativeState(StoredBytes):
    """Access to the keyed state `keyed` of one subtask that is stored as RocksDB files and a blob.

    The constructor verifies the blob, else DamagedFileError; `fetch` verifies each file that it copies.
    Implements `state.backend.NativeState`.
    """

    def __init__(self, disk: Disk, keyed: KeyedStateHandle, native: NativeFiles) -> None:
        super().__init__(disk, keyed.handle)
        self._storage = disk
        self.native, self.root = native, disk.describe()

    def fetch(self, name: str, target: Path) -> None:
        copy_handle(self._storage, self.native.files[name], target)


class DiskFiles:
    """Reads stored keyed state from one storage; implements `state.backend.StoredFiles`.

    Of a NearbyDisk it reads local copies where they are intact. Damage is a DamagedFileError.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def read(self, handle: StateHandle) -> bytes:
        return read_handle(self._disk, handle)

    def verify(self, handle: StateHandle) -> None:
        verify_handle(self._disk, handle)

    def verified(self, handle: StateHandle) -> StoredBytes:
        return StoredBytes(self._disk, handle)

    def ranges(self, handle: StateHandle) -> StoredBytes:
        return StoredBytes(self._disk, handle, verified=False)

    def native(self, keyed: KeyedStateHandle) -> StoredNativeState:
        assert keyed.native is not None
        return StoredNativeState(self._disk, keyed, keyed.native)

    def where(self, handle: StateHandle) -> str:
        return where_of(self._disk, handle)
