"""Local files on their way to the checkpoint storage, read piece by piece, and nameless scratch files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headgate.common.errors import StorageError
from headgate.common.files.durable import open_nameless, open_read, system
from headgate.common.process.children import hide, when_forgotten
from headgate.common.process.limits import advice

_PIECE_BYTES: Final = 1 << 20


class FileParts:
    """The bytes of a finished local file as an iterable of pieces of 1 MiB, read when asked for, as an upload
    needs. Each iteration opens the file anew. StorageError, while iterating: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[bytes]:
        try:
            with open_read(self.path) as file:
                while piece := file.read(_PIECE_BYTES):
                    yield piece
        except OSError as error:
            raise local_error("read", self.path, error) from error


class Spool:
    """A nameless scratch file in a local folder, its head in memory; gone once closed or garbage-collected.

    `size` counts the bytes of head and body, which iterating yields. Errors of the disk are StorageErrors.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._head = folder, b""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Unbuffered, as what is still buffered is written when it is closed, and may not fit then.
            self._file = open_nameless(folder)
        except OSError as error:
            raise local_error("write", folder, error) from error
        self.size = 0
        self._closed = when_forgotten(self, hide(self._file).close)

    def write(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        try:
            while rest:
                written = self._file.write(rest)
                self.size += written
                rest = rest[written:]
        except OSError as error:
            raise local_error("write", self._folder, error) from error

    def finish(self, head: bytes) -> None:
        # the body has to be complete
        self._head = head
        self.size += len(head)

    def read(self, offset: int, length: int) -> bytes:
        head = self._head[offset : offset + length]
        start = max(0, offset - len(self._head))
        try:
            return head + system.pread(self._file.fileno(), length - len(head), start)
        except OSError as error:
            raise local_error("read", self._folder, error) from error

    def __iter__(self) -> Iterator[bytes]:
        for offset in range(0, self.size, _PIECE_BYTES):
            yield self.read(offset, _PIECE_BYTES)

    def close(self) -> None:
        self._closed()


def local_error(doing: str, path: Path, error: OSError) -> StorageError:
    """Return a StorageError, with advice, for `error` met when trying to `doing` (a verb, "read") `path`."""
    todo = advice(error) or (
        "check the local disk (space, rights, health), or choose another one with "
        "state.backend.rocksdb.localdir"
    )
    return StorageError(f"cannot {doing} {path}: {error.strerror or error}; {todo}")
