"""Durable files in a folder of this machine, or of a file system mounted on every machine."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from headgate.checkpoint.storage.base import TEMPORARY_PREFIX, UnsureWriteError, check_name
from headgate.common.durable import open_read, read_bytes, replace, sync, system, unlink
from headgate.common.errors import StorageError
from headgate.common.limits import advice
from headgate.common.permissions import Permissions, make_folder
from headgate.common.stored_paths import inside

_RIGHTS: Final = (
    "grant the user that runs the job write access, or choose another folder; where several users run "
    "driver, workers or jobs, let them share a group and set headgate.storage.permissions to group"
)
_ADVICE: Final = {
    errno.ENOSPC: "free space there or choose another storage folder",
    errno.EDQUOT: "raise the quota or choose another storage folder",
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.ENOTDIR: "a file stands where a folder is needed; choose another folder",
    errno.EISDIR: "a folder stands where a file is needed; choose another folder",
    errno.EIO: "check the disk; the file is not used",
    errno.EFBIG: "raise the limit on the size of files or choose another storage folder",
    errno.ENAMETOOLONG: "shorten the job's name or the path of the storage folder",
}


class LocalDisk:
    """Implements the `Disk` port on a folder.

    A file is written under a temporary name beside its target, flushed to the device, and then gets
    its name in one step (`rename`, or `link` where the name must be new); last the folder is flushed.

    Args:
        root: the folder; it is created by the first write.
        permissions: of new folders and files.
    """

    def __init__(self, root: str | os.PathLike[str], permissions: Permissions = Permissions.OWNER) -> None:
        self.root, self.permissions = Path(root).resolve(), permissions

    def __repr__(self) -> str:
        return f"LocalDisk({str(self.root)!r})"

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write a whole file durably, replacing an older one only when the new one is complete.

        Raises:
            StorageError: it could not be written and nothing changed.
            UnsureWriteError: it has its name, but the folder could not be flushed.
        """
        path = self._path(name)
        with self._temporary(path, parts) as temporary:
            with self._refusing("write", path):
                replace(temporary, path)
            self._flush_after(path)

    def create_if_absent(self, name: str, data: bytes) -> bool:
        """Write a whole small file durably unless the name exists; False when it does.

        Raises:
            StorageError: it could not be written and nothing changed.
            UnsureWriteError: it has its name, but the folder could not be flushed.
        """
        path = self._path(name)
        if path.exists():
            return False
        with self._temporary(path, [data]) as temporary:
            with self._refusing("write", path):
                if not _link(temporary, path):
                    return False
            self._flush_after(path)
        return True

    def read(self, name: str) -> bytes:
        """All bytes of a file.

        Raises:
            FileNotFoundError: there is none.
            StorageError: it cannot be read.
        """
        path = self._path(name)
        with self._refusing("read", path):
            return read_bytes(path)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer only at the end of the file.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: it cannot be read.
        """
        path = self._path(name)
        with self._refusing("read", path), open_read(path) as file:
            file.seek(offset)
            return file.read(length)

    def size(self, name: str) -> int:
        """Bytes of a file.

        Raises:
            FileNotFoundError: there is none.
            StorageError: it cannot be looked at.
        """
        path = self._path(name)
        with self._refusing("read", path):
            return path.stat().st_size

    def modified_ms(self, name: str) -> int:
        """When a file was written, by the clock of the file system; see `base.TellsAge`.

        Raises:
            FileNotFoundError: there is none.
            StorageError: it cannot be looked at.
        """
        path = self._path(name, temporary_allowed=True)
        with self._refusing("read", path):
            return path.stat().st_mtime_ns // 1_000_000

    def list(self, prefix: str) -> Sequence[str]:
        """Sorted names of the finished files below the folder `prefix`; empty when it does not exist."""
        return sorted(n for n in self._walk(prefix) if not _is_temporary(n))

    def temporaries(self, prefix: str) -> Sequence[str]:
        """Sorted names of the unfinished files below the folder `prefix`."""
        return sorted(n for n in self._walk(prefix) if _is_temporary(n))

    def delete(self, name: str) -> None:
        """Remove a file, and folders that become empty by it; an absent one is no error.

        Raises:
            StorageError: it cannot be removed.
        """
        path = self._path(name, temporary_allowed=True, linked=False)
        with self._refusing("delete", path), suppress(FileNotFoundError):
            unlink(path)
        self._remove_empty_above(path)

    def describe(self, name: str = "") -> str:
        """The full URI, for messages."""
        return (self.root / name).as_uri() if name else self.root.as_uri()

    def _path(self, name: str, *, temporary_allowed: bool = False, linked: bool = True) -> Path:
        """Where a file is; no link may lead out, `linked`: nor the file itself be one that does."""
        pieces = check_name(name, self.describe(), temporary_allowed=temporary_allowed)
        checked = pieces if linked else pieces[:-1]
        if checked:
            inside(self.root, "/".join(checked), f"a file of {self.describe()}")
        return self.root.joinpath(*pieces)

    def _walk(self, prefix: str) -> Iterator[str]:
        top = self._path(prefix.rstrip("/")) if prefix.rstrip("/") else self.root

        def fail(error: OSError) -> None:
            # A folder that vanished while it was walked has no files.
            if not isinstance(error, FileNotFoundError):
                raise self._error("list", Path(error.filename or top), error) from error

        for folder, _, files in os.walk(top, onerror=fail):
            for file in files:
                yield (Path(folder) / file).relative_to(self.root).as_posix()

    @contextmanager
    def _temporary(self, path: Path, parts: Iterable[bytes | memoryview]) -> Iterator[Path]:
        """A durable file with these bytes under a name of its own; it is gone afterwards."""
        temporary = path.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
        try:
            with self._refusing("write", path):
                descriptor = self._open_new(temporary)
                try:
                    _write_all(descriptor, parts)
                    system.fsync(descriptor)
                finally:
                    system.close(descriptor)
            yield temporary
        finally:
            with suppress(OSError):
                unlink(temporary)
            if not path.exists():
                self._remove_empty_above(path)

    def _remove_empty_above(self, path: Path) -> None:
        # Another writer may need the folder at this moment; it makes it anew when it is gone.
        with suppress(OSError):
            for folder in path.parents:
                if folder == self.root:
                    break
                system.rmdir(folder)

    def _open_new(self, path: Path) -> int:
        for _ in range(16):
            self._make_folder(path.parent)
            with suppress(FileNotFoundError):  # another process removed the empty folder meanwhile
                mode = self.permissions.file_mode
                descriptor = system.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
                self.permissions.settle(descriptor)
                return descriptor
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    def _make_folder(self, folder: Path) -> None:
        """Create a folder and its parents so that they survive a power cut."""
        with suppress(FileExistsError, FileNotFoundError):
            make_folder(folder, self.permissions)

    def _flush_after(self, path: Path) -> None:
        try:
            _flush_folder(path.parent)
        except OSError as error:
            raise UnsureWriteError(
                f"{path} was written but its folder could not be flushed to the device: "
                f"{error.strerror}; whether it survives a power cut is unknown"
            ) from error

    @contextmanager
    def _refusing(self, action: str, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, FileNotFoundError) and action == "read":
                raise
            raise self._error(action, path, error) from error

    @staticmethod
    def _error(action: str, path: Path, error: OSError) -> StorageError:
        cause = error.strerror or str(error)
        todo = advice(error) or _ADVICE.get(error.errno or 0, "check the storage folder")
        return StorageError(f"cannot {action} {path}: {cause}; {todo}")


def _is_temporary(name: str) -> bool:
    return name.rpartition("/")[2].startswith(TEMPORARY_PREFIX)


def _write_all(descriptor: int, parts: Iterable[bytes | memoryview]) -> None:
    for part in parts:
        rest = memoryview(part).cast("B")
        while rest:
            written = system.write(descriptor, rest)
            if written == 0:  # no error and no progress: asking again might never end
                raise OSError(errno.EIO, "the device took no bytes")
            rest = rest[written:]


def _link(temporary: Path, path: Path) -> bool:
    """Give a file a second name unless that exists."""
    try:
        system.link(temporary, path)
    except FileExistsError:
        # A network file system may carry out a link, lose the answer, and refuse the repetition.
        return temporary.stat().st_nlink == 2
    return True


def _flush_folder(folder: Path) -> None:
    sync(folder)
