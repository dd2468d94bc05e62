"""Stored keyed state on a disk, for the engine that reads it (`state/stored`) and for live backends."""

from __future__ import annotations

from pathlib import Path

from headgate.checkpoint.data_files import StoredBytes, copy_handle, read_handle, verify_handle
from headgate.checkpoint.storage.storage_contract import RandomAccess
from headgate.common.ports import Disk
from headgate.state.snapshots import FileRange, Inline, KeyedStateHandle, NativeFiles, StateHandle


class RangeReader:
    """The bytes of a handle, read where they are asked for and not verified.

    Attributes:
        begins: where in it the first of them is.
    """

    def __init__(self, disk: Disk, handle: StateHandle) -> None:
        self._data: bytes | None = None
        self.where, self.begins = _place(disk, handle)
        if isinstance(handle, FileRange) and isinstance(disk, RandomAccess):
            self._disk, self._range, self.size = disk, handle, handle.length
        else:
            self._data = read_handle(disk, handle)
            self.size = len(self._data)

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; fewer where they end."""
        if self._data is not None:
            return self._data[offset : offset + length]
        rest = max(0, min(length, self.size - offset))
        return self._disk.read_range(self._range.file, self._range.offset + offset, rest)


class StoredNativeState(StoredBytes):
    """Implements `state.backend.NativeState`: what is read is verified first."""

    def __init__(self, disk: Disk, keyed: KeyedStateHandle, native: NativeFiles) -> None:
        super().__init__(disk, keyed.handle)
        self._storage = disk
        self.native, self.root = native, disk.describe()

    def fetch(self, name: str, target: Path) -> None:
        """Copy a native file to the local disk, where it appears once its checksum was compared."""
        copy_handle(self._storage, self.native.files[name], target)


class DiskFiles:
    """The files of one storage; see the port for what each method promises."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def read(self, handle: StateHandle) -> bytes:
        """All bytes, verified."""
        return read_handle(self._disk, handle)

    def verify(self, handle: StateHandle) -> None:
        """Compare the bytes with their checksum."""
        verify_handle(self._disk, handle)

    def verified(self, handle: StateHandle) -> StoredBytes:
        """The bytes, verified as a whole, then read in parts."""
        return StoredBytes(self._disk, handle)

    def ranges(self, handle: StateHandle) -> RangeReader:
        """The bytes, read where they are asked for."""
        return RangeReader(self._disk, handle)

    def native(self, keyed: KeyedStateHandle) -> StoredNativeState:
        """Native files, and the blob beside them."""
        assert keyed.native is not None
        return StoredNativeState(self._disk, keyed, keyed.native)

    def where(self, handle: StateHandle) -> str:
        """What errors call the file."""
        return _place(self._disk, handle)[0]


def _place(disk: Disk, handle: StateHandle) -> tuple[str, int]:
    if isinstance(handle, Inline):
        return "state in the metadata", 0
    return disk.describe(handle.file), handle.offset
