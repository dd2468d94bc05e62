"""One unfinished output file of a sink: its bytes are counted, checksummed and made durable."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.common.errors import StorageError
from headgate.common.files.durable import unlink
from headgate.common.files.durable_file import Measured, NewFile, sync_names
from headgate.common.files.permissions import Permissions
from headgate.common.process.children import OwnProcess, hide
from headgate.common.process.limits import advice

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class PartFile(io.RawIOBase):
    """A pending file that a sink's writer makes, front to end; size and CRC-32 are of all bytes so far.
    It ends by `make_durable` or `discard`. StorageError if it cannot be created, or exists already.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._discarded, self._process = False, OwnProcess()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Exclusive: two writers of one name are a bug, which must not go unnoticed.
            self._file = hide(NewFile(path, Permissions.UMASK))
            self._measured = Measured(self._file)
        except OSError as problem:
            raise storage_error(path, problem) from problem

    @property
    def size(self) -> int:
        return self._measured.size

    @property
    def crc32(self) -> int:
        return self._measured.crc32

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: ReadableBuffer) -> int:
        """Write all of `data` and return its length; StorageError if that fails, for example on a full disk.
        After :meth:`discard` nothing is written, and the length is returned all the same.
        """
        if self._discarded:
            # A format's writer may want to end its file when it is collected as garbage.
            return memoryview(data).nbytes
        try:
            return self._measured.write(data)
        except OSError as problem:
            raise storage_error(self.path, problem) from problem

    def make_durable(self) -> None:
        """Close the file, make bytes and name survive a power failure; StorageError if that fails."""
        try:
            self._file.finish(durable=True)
            sync_names(self.path, 4)  # the folder, the pending folder and the output directory may all be new
        except OSError as problem:
            raise storage_error(self.path, problem) from problem

    def discard(self) -> None:
        """Close and remove the file; if that fails, the committer removes it later.
        A child process, forked from the one that made the file, does not remove it.
        """
        self._discarded = True
        with suppress(OSError):
            self._file.end()
        if self._process.is_here:
            remove(self.path)


def storage_error(path: Path, problem: OSError) -> StorageError:
    """Return the error for a failed write, with the path, the system's reason and what to do."""
    todo = advice(problem) or "make room or allow writing there"
    return StorageError(
        f"cannot write {str(path)!r}: {problem.strerror or problem}; nothing of it is published; {todo}"
    )


def remove(path: Path) -> None:
    """Remove a file if it exists; ignore a failure to do so."""
    with suppress(OSError):
        unlink(path)
