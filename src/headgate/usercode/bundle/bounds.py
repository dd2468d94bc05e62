"""Limits on what an archive may hold, and readers that stop there, before memory or disk is full.

What an archive says of itself takes memory too, and is packed as well as the rest: a few kilobytes can be a
gigabyte of names, of links or of headers. So these have bounds of their own.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headgate.usercode.loading_errors import UserCodeLoadError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PATH_BYTES_MAX: Final = 4096
"""Of a name, and of what a link leads to: systems take no more."""

FOLDERS_DEEP_MAX: Final = 100

_HEADER_BYTES_MAX: Final = 256 << 10
"""Of all that stands before one entry of a tar: its name, attributes, the map of a file with holes."""

_NAMES_BYTES_MAX: Final = 64 << 20
"""Of the names of all entries, and what zips keep beside them."""

XZ_MEMORY_MAX: Final = 128 << 20
"""What unpacking an xz may take, twice what `xz -9` needs; the archive itself says how much it wants."""

_PIECE: Final = 1 << 16
"""Packed bytes that are read at a time."""

_END: Final = struct.Struct("<4s4H2LH")
_END_64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_BYTES: Final = 20
_COMMENT_BYTES_MAX: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on the number of entries and on the unpacked bytes of an archive."""

    files: int = 200_000  # entries, and folders that they lie in
    bytes: int = 8 << 30  # unpacked, in total


STANDARD: Final = Bounds()


def too_many_bytes(bounds: Bounds) -> str:
    return f"all together unpacks to more than {bounds.bytes} bytes"


def refused(archive: Path, name: str, why: str) -> UserCodeLoadError:
    return UserCodeLoadError(f"archive {str(archive)!r} is refused at entry {name!r:.500}: {why}")


@contextmanager
def open_zip(archive: Path, bounds: Bounds) -> Iterator[zipfile.ZipFile]:
    """Yield an archive, opened as a zip, whose list of entries keeps within `bounds`.

    UserCodeLoadError if it does not, or an entry is not packed as in wheels; BadZipFile: it is no zip.
    """
    with archive.open("rb") as file:
        listed = _bytes_of_list(file)
    if listed > _NAMES_BYTES_MAX:
        raise _too_much(archive, f"its list of entries has {listed} bytes, more than {_NAMES_BYTES_MAX}")
    with zipfile.ZipFile(archive) as opened:
        entries, size = opened.infolist(), 0
        if len(entries) > bounds.files:
            raise _too_much(archive, f"there are more than {bounds.files} entries")
        for entry in entries:
            size += entry.file_size
            if size > bounds.bytes:
                raise refused(archive, entry.filename, too_many_bytes(bounds))
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # Python unpacks others without a bound on what comes out of one piece.
                raise refused(archive, entry.filename, "it is neither stored nor deflated, as wheels are")
        yield opened


def zipped_link(opened: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes | None:
    """Return the target of a symbolic link, an entry of a zip; None if it is longer than 4096 bytes."""
    with opened.open(entry) as source:
        found = source.read(PATH_BYTES_MAX + 1)
    return found if len(found) <= PATH_BYTES_MAX else None


def _bytes_of_list(file: io.BufferedReader) -> int:
    size = file.seek(0, 2)
    file.seek(max(0, size - _COMMENT_BYTES_MAX - _END.size))
    tail = file.read()
    place = len(tail) - _END.size
    if place < 0 or not tail.startswith(b"PK\x05\x06", place) or tail[-2:] != b"\0\0":
        place = tail.rfind(b"PK\x05\x06")
    if place < 0 or len(tail) - place < _END.size:
        return 0
    listed = int(_END.unpack_from(tail, place)[5])
    whole = size - len(tail) + place - _LOCATOR_BYTES - _END_64.size
    if whole >= 0:
        file.seek(whole)
        fields = _END_64.unpack(file.read(_END_64.size))
        if fields[0] == b"PK\x06\x06":
            listed = max(listed if listed != 0xFFFFFFFF else 0, int(fields[8]))
    return listed


@contextmanager
def open_tar(archive: Path) -> Iterator[Tar]:
    """Yield an open tar, plain, gz, bz2 or xz; UserCodeLoadError: a header too large; TarError: no tar."""
    with archive.open("rb") as file:
        head = file.read(6)
        file.seek(0)
        with _unpacking(file, head) as plain:
            stream = _Stream(plain, archive)
            with tarfile.open(fileobj=stream, mode="r:") as opened:  # type: ignore[call-overload]
                yield Tar(opened, stream, archive)


class Tar:
    """A tar that is read within bounds; files are read from `opened` once all entries are known."""

    def __init__(self, opened: tarfile.TarFile, stream: _Stream, archive: Path) -> None:
        self.opened, self._stream, self._archive = opened, stream, archive

    def entries(self, bounds: Bounds) -> list[tarfile.TarInfo]:
        """Decompress the archive to return all its entries; UserCodeLoadError if they exceed the bounds."""
        found: list[tarfile.TarInfo] = []
        size = names = 0
        while (entry := self._next()) is not None:
            entry.pax_headers = {}  # kept for every entry otherwise
            found.append(entry)
            size += entry.size
            names += len(entry.name) + len(entry.linkname)
            why = None
            if entry.size < 0:
                why = f"its size is {entry.size}"
            elif len(found) > bounds.files:
                why = f"there are more than {bounds.files} entries"
            elif size > bounds.bytes:
                why = too_many_bytes(bounds)
            elif max(len(entry.name), len(entry.linkname)) > PATH_BYTES_MAX or names > _NAMES_BYTES_MAX:
                why = "names are longer than any system takes"
            if why is not None:
                raise refused(self._archive, entry.name, why)
        self._stream.left = None
        return found

    def _next(self) -> tarfile.TarInfo | None:
        self._stream.left = _HEADER_BYTES_MAX
        return self.opened.next()


class _Stream:
    """Decompressed bytes of a tar file, with a limit on the bytes read for the header of one entry."""

    def __init__(self, plain: io.BufferedIOBase, archive: Path) -> None:
        self._archive, self._plain = archive, plain
        self.seek, self.tell = plain.seek, plain.tell
        self.left: int | None = _HEADER_BYTES_MAX  # bytes that may be read before the next entry; None: any

    def read(self, size: int = -1) -> bytes:
        if self.left is not None:
            if size < 0 or size > self.left:
                raise _too_much(
                    self._archive, f"the description of one entry has more than {_HEADER_BYTES_MAX} bytes"
                )
            self.left -= size
        return self._plain.read(size)


def _unpacking(file: io.BufferedReader, head: bytes) -> io.BufferedIOBase:
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file, mode="rb")
    if head.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if head.startswith((b"\xfd7zXZ", b"]\0\0\x80")):
        return io.BufferedReader(_Xz(file), 1 << 18)
    return file


class _Xz(io.RawIOBase):
    """Decompressed bytes of an xz file, read within `XZ_MEMORY_MAX`, which `lzma.open` cannot limit."""

    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__()
        self._file = file
        self._begin()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def readinto(self, into: WriteableBuffer) -> int:
        room = memoryview(into).cast("B")
        data = b""
        while room and not data and not self._ended:
            data = self._next(len(room))
        room[: len(data)] = data
        self._place += len(data)
        return len(data)

    def seek(self, place: int, whence: int = 0) -> int:
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the end of an xz is known when it was read")
        target = place + (self._place if whence == io.SEEK_CUR else 0)
        if target < self._place:
            self._begin()
        while self._place < target and (data := self.read(min(target - self._place, 1 << 18))):
            del data
        return self._place

    def _begin(self) -> None:
        self._file.seek(0)
        self._place, self._ended, self._packed = 0, False, b""
        self._unpacker = _xz_unpacker()

    def _next(self, most: int) -> bytes:
        unpacker = self._unpacker
        if unpacker.eof:
            rest = unpacker.unused_data.lstrip(b"\0") or self._file.read(_PIECE).lstrip(b"\0")
            self._ended = not rest
            if rest:  # several streams, one after the other
                self._unpacker, self._packed = _xz_unpacker(), rest
            return b""
        packed, self._packed = self._packed, b""
        if unpacker.needs_input and not packed:
            packed = self._file.read(_PIECE)
            if not packed:
                raise EOFError("it ends before its end was marked")
        try:
            return unpacker.decompress(packed, most)
        except lzma.LZMAError as error:
            if "Memory usage limit" not in str(error):
                raise
            raise lzma.LZMAError(
                f"it takes more than {XZ_MEMORY_MAX >> 20} MiB of memory; pack it with xz -9 or less"
            ) from error


def _xz_unpacker() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=XZ_MEMORY_MAX)


def _too_much(archive: Path, why: str) -> UserCodeLoadError:
    return UserCodeLoadError(f"archive {str(archive)!r} is refused: {why}")
