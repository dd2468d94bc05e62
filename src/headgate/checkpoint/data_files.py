"""State in checkpoint files: written with checksums, which are verified when it is read.

Large files are written and read in pieces; they are never completely in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from headgate.checkpoint.local_copies import CopyFolder, best_of
from headgate.checkpoint.storage.storage_contract import RandomAccess
from headgate.common.errors import DamagedFileError, StorageError
from headgate.common.files.durable import crc32 as crc32_of
from headgate.common.files.durable import link
from headgate.common.files.durable_file import writing
from headgate.common.files.permissions import Permissions
from headgate.common.ports import Disk
from headgate.state.snapshots import FileRange, Inline, StateHandle

PIECE_BYTES: Final = 4 << 20  # read of a large file at a time

Part = bytes | memoryview


class DataFileWriter:
    """Writes a worker's data files with checksums, for its main loop and the thread that writes snapshots."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def write(self, name: str, parts: Iterable[Part]) -> FileRange:
        return self.write_sections(name, [parts])[0]

    def write_sections(self, name: str, sections: Iterable[Iterable[Part]]) -> list[FileRange]:
        """Write `sections` one after another into the durable file `name`; return place and checksum of each.
        The parts are consumed as they are written, and need not be in memory together. Errors: `Disk.create`.
        """
        ranges: list[FileRange] = []
        self._disk.create(name, _measured(name, sections, ranges))
        return ranges


def _measured(name: str, sections: Iterable[Iterable[Part]], ranges: list[FileRange]) -> Iterator[Part]:
    offset = 0
    for parts in sections:
        crc32 = length = 0
        for part in parts:
            crc32 = crc32_of(part, crc32)
            length += memoryview(part).nbytes
            yield part
        ranges.append(FileRange(name, offset, length, crc32))
        offset += length


def little_of(
    limit: int | None, sections: Sequence[Iterable[Part]]
) -> tuple[list[Iterable[Part]] | None, list[list[Part]]]:
    """Return (sections, []) if they have more than `limit` bytes, else (None, the parts of each section).

    A caller gives large state a file of its own, and puts little state into the metadata. It consumes the
    iterators in `sections`: use the returned ones. `limit` None: all is little; below 0: nothing is.

    Example:
        >>> little_of(3, [[b"ab"], [b"c"]])
        (None, [[b'ab'], [b'c']])
    """
    if limit is not None and limit < 0:
        return list(sections), []
    small: list[list[Part]] = []
    size = 0
    for place, parts in enumerate(sections):
        rest, mine = iter(parts), list[Part]()
        for part in rest:
            mine.append(part)
            size += memoryview(part).nbytes
            if limit is not None and size > limit:
                return [*small, chain(mine, rest), *sections[place + 1 :]], []
        small.append(mine)
    return None, small


def read_handle(disk: Disk | None, handle: StateHandle) -> bytes:
    """Return all bytes of a handle: of a range of a data file, verified, or (Inline) of the metadata itself.
    An intact local copy is read if `disk` is a NearbyDisk. DamagedFileError: bytes are missing or changed.
    """
    if isinstance(handle, Inline):
        return handle.data
    assert disk is not None  # it is where there are files
    return best_of(disk, handle, lambda source: _read(source, handle))


def _read(disk: Disk, handle: FileRange) -> bytes:
    where = disk.describe(handle.file)
    _check_bounds(handle, where)
    try:
        if isinstance(disk, RandomAccess):
            data = disk.read_range(handle.file, handle.offset, handle.length)
        else:
            data = disk.read(handle.file)[handle.offset : handle.offset + handle.length]
    except FileNotFoundError:
        raise _missing(where, handle) from None
    if len(data) != handle.length:
        raise _truncated(where, handle.offset + len(data), handle)
    if crc32_of(data) != handle.crc32:
        raise _damaged(where, handle)
    return data


def verified_pieces(disk: Disk, handle: StateHandle) -> Iterator[bytes]:
    """Yield a handle's bytes in pieces; trust none before the end, which may raise DamagedFileError."""
    if isinstance(handle, Inline) or not isinstance(disk, RandomAccess):
        yield read_handle(disk, handle)
        return
    where = disk.describe(handle.file)
    _check_bounds(handle, where)
    crc32 = done = 0
    while done < handle.length:
        try:
            piece = disk.read_range(handle.file, handle.offset + done, min(PIECE_BYTES, handle.length - done))
        except FileNotFoundError:
            raise _missing(where, handle) from None
        if not piece:
            raise _truncated(where, handle.offset + done, handle)
        crc32 = crc32_of(piece, crc32)
        done += len(piece)
        yield piece
    if crc32 != handle.crc32:
        raise _damaged(where, handle)


def verify_handle(disk: Disk, handle: StateHandle) -> None:
    """Read the bytes of a handle; raise DamagedFileError if some are missing or their checksum is wrong."""
    for _ in verified_pieces(disk, handle):
        pass


def copy_handle(disk: Disk, handle: StateHandle, target: Path) -> None:
    """Write a handle's bytes to local file `target`, where they appear complete and verified, or not at all.
    `target` may be a hard link to a local copy: never change it. StorageError if damaged or not writable.
    """
    if isinstance(handle, Inline):
        _copy(disk, handle, target)
    else:
        best_of(disk, handle, lambda source: _copy(source, handle, target))


def _copy(disk: Disk, handle: StateHandle, target: Path) -> None:
    if isinstance(disk, CopyFolder) and isinstance(handle, FileRange) and _linked(disk, handle, target):
        return
    try:
        with writing(target, Permissions.OWNER, durable=False) as file:
            for piece in verified_pieces(disk, handle):
                file.write(piece)
    except OSError as error:
        raise StorageError(
            f"cannot copy a checkpoint's file to {target}: {error.strerror or error}; check the local disk "
            "(space, rights, health)"
        ) from error


def _linked(copies: CopyFolder, handle: FileRange, target: Path) -> bool:
    try:
        path = copies.whole_file(handle)
        if path is None:
            return False
        verify_handle(copies, handle)
        link(path, target)
    except OSError:  # another device, or a file system without links
        return False
    return True


class StoredBytes:
    """Access to parts of a handle's stored bytes; if `verified`, the constructor verifies all.
    `where`: name of their file for messages; `begins`: first byte's offset in it. DamagedFileError: damaged.
    """

    def __init__(self, disk: Disk, handle: StateHandle, *, verified: bool = True) -> None:
        self.where, self.begins = where_of(disk, handle), 0
        self._disk: RandomAccess | None = None
        if isinstance(handle, Inline):
            self._data, self.size = handle.data, len(handle.data)
            return
        self._handle, self.size, self.begins = handle, handle.length, handle.offset
        if isinstance(disk, RandomAccess) and not verified:
            self._disk = disk
        else:
            self._disk, self._data = best_of(disk, handle, lambda source: _opened(source, handle))

    def read(self, offset: int, length: int) -> bytes:
        if self._disk is None:
            return self._data[offset : offset + length]
        rest = max(0, min(length, self.size - offset))
        return self._disk.read_range(self._handle.file, self._handle.offset + offset, rest)


def where_of(disk: Disk, handle: StateHandle) -> str:
    return "state in the metadata" if isinstance(handle, Inline) else disk.describe(handle.file)


def _opened(disk: Disk, handle: FileRange) -> tuple[RandomAccess | None, bytes]:
    if not isinstance(disk, RandomAccess) or handle.length <= PIECE_BYTES:
        return None, _read(disk, handle)
    verify_handle(disk, handle)
    return disk, b""


def check_present(disk: Disk, ranges: Sequence[FileRange], names: frozenset[str] | None = None) -> None:
    """Raise DamagedFileError unless all files of `ranges` exist and are long enough; reads no content.

    `names` are all existing files, for disks that do not know sizes: there lengths are not checked, and
    without `names` nothing is.
    """
    sizes: dict[str, int] = {}
    for item in ranges:
        where = disk.describe(item.file)
        _check_bounds(item, where)
        if not isinstance(disk, RandomAccess):
            if names is not None and item.file not in names:
                raise _missing(where, item)
            continue
        if item.file not in sizes:
            try:
                sizes[item.file] = disk.size(item.file)
            except FileNotFoundError:
                raise _missing(where, item) from None
        if sizes[item.file] < item.offset + item.length:
            raise _truncated(where, sizes[item.file], item)


def _check_bounds(item: FileRange, where: str) -> None:
    if item.offset < 0 or item.length < 0:
        raise DamagedFileError(
            f"a checkpoint refers to {item.length} bytes at byte {item.offset} of {where}; neither may be "
            "negative; use an older checkpoint"
        )


def _damaged(where: str, item: FileRange) -> DamagedFileError:
    return DamagedFileError(
        f"{where} is damaged: bytes {item.offset} to {item.offset + item.length} do not match their "
        "checksum; restore the file from a copy or use an older checkpoint"
    )


def _missing(where: str, item: FileRange) -> DamagedFileError:
    return DamagedFileError(
        f"{where} is missing but a checkpoint refers to it, bytes {item.offset} to "
        f"{item.offset + item.length}; likely causes: it was deleted by hand, or the checkpoint was moved "
        "without its files; use an older checkpoint"
    )


def _truncated(where: str, size: int, item: FileRange) -> DamagedFileError:
    return DamagedFileError(
        f"{where} is truncated: it ends at byte {size}, a checkpoint needs it up to "
        f"{item.offset + item.length}; use an older checkpoint"
    )
