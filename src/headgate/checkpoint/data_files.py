"""State bytes in checkpoint files: written with a checksum, read only when it holds."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from headgate.checkpoint.storage.base import RandomAccess
from headgate.common.errors import StorageError
from headgate.common.ports import Disk
from headgate.state.snapshots import FileRange, Inline, StateHandle

INLINE_MAX: Final = 20_480
"""Bytes up to which state goes into the metadata rather than into a file of its own."""


class DataFileWriter:
    """Writes the data files of one worker; safe to use from the thread that works beside the loop.

    Args:
        disk: the checkpoint storage.
        inline_max: bytes up to which :meth:`write_or_inline` writes no file.
    """

    def __init__(self, disk: Disk, inline_max: int = INLINE_MAX) -> None:
        self._disk = disk
        self._inline_max = inline_max

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> FileRange:
        """Write one durable file that is one section.

        Args:
            name: relative to the storage root; see `layout.data_file_name`.
            parts: its bytes in order.

        Raises:
            StorageError: it could not be written; nothing of it counts.
        """
        return self.write_sections(name, [parts])[0]

    def write_sections(self, name: str, sections: Sequence[Sequence[bytes | memoryview]]) -> list[FileRange]:
        """Write one durable file of several sections, each with a checksum of its own.

        Raises:
            StorageError: it could not be written; nothing of it counts.
        """
        ranges: list[FileRange] = []
        offset = 0
        for parts in sections:
            crc32 = length = 0
            for part in parts:
                crc32 = zlib.crc32(part, crc32)
                length += memoryview(part).nbytes
            ranges.append(FileRange(name, offset, length, crc32))
            offset += length
        self._disk.create(name, [part for parts in sections for part in parts])
        return ranges

    def write_or_inline(self, name: str, parts: Sequence[bytes | memoryview]) -> StateHandle:
        """A handle to bytes: in the metadata when they are few, else in a durable file.

        Raises:
            StorageError: the file could not be written.
        """
        if sum(memoryview(part).nbytes for part in parts) <= self._inline_max:
            return Inline(b"".join(parts))
        return self.write(name, parts)


def read_handle(disk: Disk, handle: StateHandle) -> bytes:
    """The bytes of a handle, verified.

    Raises:
        StorageError: the file is missing, too short, or its bytes changed; the message names it.
    """
    if isinstance(handle, Inline):
        return handle.data
    where = disk.describe(handle.file)
    _check_bounds(handle, where)
    try:
        if isinstance(disk, RandomAccess):
            data = disk.read_range(handle.file, handle.offset, handle.length)
        else:
            data = disk.read(handle.file)[handle.offset : handle.offset + handle.length]
    except FileNotFoundError:
        raise _missing(where) from None
    if len(data) != handle.length:
        raise _truncated(where, handle.offset + len(data), handle)
    if zlib.crc32(data) != handle.crc32:
        raise StorageError(
            f"{where} is damaged: bytes {handle.offset} to {handle.offset + handle.length} do not match "
            "their checksum; restore the file from a copy or use an older checkpoint"
        )
    return data


def check_present(disk: Disk, ranges: Sequence[FileRange], names: frozenset[str] | None = None) -> None:
    """Check that files exist and are long enough, without reading them.

    Args:
        disk: the storage.
        ranges: what must be there.
        names: files known to exist, for disks that cannot tell sizes; lengths are not checked then.

    Raises:
        StorageError: a file is missing or too short; the message names it.
    """
    sizes: dict[str, int] = {}
    for item in ranges:
        where = disk.describe(item.file)
        _check_bounds(item, where)
        if not isinstance(disk, RandomAccess):
            if names is not None and item.file not in names:
                raise _missing(where)
            continue
        if item.file not in sizes:
            try:
                sizes[item.file] = disk.size(item.file)
            except FileNotFoundError:
                raise _missing(where) from None
        if sizes[item.file] < item.offset + item.length:
            raise _truncated(where, sizes[item.file], item)


def _check_bounds(item: FileRange, where: str) -> None:
    if item.offset < 0 or item.length < 0:
        raise StorageError(
            f"a checkpoint refers to {item.length} bytes at {item.offset} of {where}; neither may be negative"
        )


def _missing(where: str) -> StorageError:
    return StorageError(
        f"{where} is missing but a checkpoint refers to it; likely causes: it was deleted by hand, or the "
        "checkpoint was moved without its files; use an older checkpoint"
    )


def _truncated(where: str, size: int, item: FileRange) -> StorageError:
    return StorageError(
        f"{where} is truncated: it ends at byte {size}, a checkpoint needs it up to "
        f"{item.offset + item.length}; use an older checkpoint"
    )
