"""Durable files in a folder of this machine, or of a file system mounted on every machine."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from headgate.checkpoint.storage.storage_contract import UnsureWriteError, check_name, is_temporary
from headgate.common.errors import StorageError
from headgate.common.files.durable import open_read, read_bytes, system, unlink
from headgate.common.files.durable_file import UnsyncedNameError, create_new, replace
from headgate.common.files.permissions import Permissions
from headgate.common.files.stored_paths import inside
from headgate.common.process.limits import advice

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
    """Storage in the folder `root` of this machine or a mounted file system; implements the `Disk` port.

    It also implements RandomAccess, KeepsTemporaries and TellsAge. Files are durable as in
    `common/files/durable_file.py`, and get the rights `permissions`. Folders are made as files need them, and
    removed when a deletion leaves them empty.

    Raises:
        StorageError: the file system fails, or a symbolic link leads out of `root`.
        UnsureWriteError: a file may be written or not; only `create` and `create_if_absent` raise this.
    """

    def __init__(self, root: str | os.PathLike[str], permissions: Permissions = Permissions.OWNER) -> None:
        self.root, self.permissions = Path(root).resolve(), permissions

    def __repr__(self) -> str:
        return f"LocalDisk({str(self.root)!r})"

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        path = self._path(name)
        with self._writing(path):
            replace(path, parts, self.permissions)

    def create_if_absent(self, name: str, data: bytes) -> bool:
        path = self._path(name)
        if path.exists():
            return False
        with self._writing(path):
            return create_new(path, [data], self.permissions)

    def read(self, name: str) -> bytes:
        path = self._path(name)
        with self._refusing("read", path):
            return read_bytes(path)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        path = self._path(name)
        with self._refusing("read", path), open_read(path) as file:
            file.seek(offset)
            return file.read(length)

    def size(self, name: str) -> int:
        path = self._path(name)
        with self._refusing("read", path):
            return path.stat().st_size

    def modified_ms(self, name: str) -> int:
        path = self._path(name, temporary_allowed=True)
        with self._refusing("read", path):
            return path.stat().st_mtime_ns // 1_000_000

    def list(self, prefix: str) -> Sequence[str]:
        return sorted(name for name in self._walk(prefix) if not is_temporary(name))

    def temporaries(self, prefix: str) -> Sequence[str]:
        return sorted(name for name in self._walk(prefix) if is_temporary(name))

    def delete(self, name: str) -> None:
        path = self._path(name, temporary_allowed=True, linked=False)
        with self._refusing("delete", path), suppress(FileNotFoundError):
            unlink(path)
        self._remove_empty_above(path)

    def describe(self, name: str = "") -> str:
        return (self.root / name).as_uri() if name else self.root.as_uri()

    def _path(self, name: str, *, temporary_allowed: bool = False, linked: bool = True) -> Path:
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
    def _writing(self, path: Path) -> Iterator[None]:
        try:
            with self._refusing("write", path):
                yield
        finally:
            if not path.exists():
                self._remove_empty_above(path)

    def _remove_empty_above(self, path: Path) -> None:
        # Another writer may need the folder at this moment; it makes it anew when it is missing.
        with suppress(OSError):
            for folder in path.parents:
                if folder == self.root:
                    break
                system.rmdir(folder)

    @contextmanager
    def _refusing(self, action: str, path: Path) -> Iterator[None]:
        try:
            yield
        except UnsyncedNameError as error:
            raise UnsureWriteError(
                f"{path} was written but its folder could not be flushed to the device: "
                f"{error.strerror}; whether it survives a power cut is unknown"
            ) from error
        except OSError as error:
            if isinstance(error, FileNotFoundError) and action == "read":
                raise
            raise self._error(action, path, error) from error

    @staticmethod
    def _error(action: str, path: Path, error: OSError) -> StorageError:
        cause = error.strerror or str(error)
        todo = advice(error) or _ADVICE.get(error.errno or 0, "check the storage folder")
        return StorageError(f"cannot {action} {path}: {cause}; {todo}")
