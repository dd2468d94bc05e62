"""Checkpoints in the memory of the driver: for tests and for jobs with little state."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote

from headgate.checkpoint.storage.storage_contract import check_name
from headgate.common.errors import StorageError


class _Files:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.files: dict[str, bytes] = {}


_STORAGES: Final[dict[str, _Files]] = {}
_LOCK: Final = threading.Lock()


class MemoryDisk:
    """Implements the `Disk` port in this process's memory; its files end with the process.

    Disks of the same name show the same files; the name ``a/b`` is the folder ``b`` of storage ``a``. Other
    processes cannot reach them, so workers put all of their state into their acknowledgements
    (see `storage_contract.OfThisProcess`).
    """

    def __init__(self, name: str) -> None:
        storage, _, folder = name.strip("/").partition("/")
        self._name = f"{storage}/{folder}".rstrip("/")
        self._folder = f"{folder}/" if folder else ""
        with _LOCK:
            self._files = _STORAGES.setdefault(storage, _Files())

    def __repr__(self) -> str:
        return f"MemoryDisk({self._name!r})"

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        path = self._path(name)
        data = b"".join(parts)
        with self._files.lock:
            self._files.files[path] = data

    def create_if_absent(self, name: str, data: bytes) -> bool:
        path, data = self._path(name), bytes(data)
        with self._files.lock:
            if path in self._files.files:
                return False
            self._files.files[path] = data
            return True

    def read(self, name: str) -> bytes:
        path = self._path(name)
        try:
            return self._files.files[path]
        except KeyError:
            raise FileNotFoundError(self.describe(name)) from None

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        return self.read(name)[offset : offset + length]

    def size(self, name: str) -> int:
        return len(self.read(name))

    def list(self, prefix: str) -> Sequence[str]:
        below = self._folder + (f"{prefix.strip('/')}/" if prefix.strip("/") else "")
        with self._files.lock:
            found = [name for name in self._files.files if name.startswith(below)]
        return sorted(name.removeprefix(self._folder) for name in found)

    def delete(self, name: str) -> None:
        path = self._path(name, temporary_allowed=True)
        with self._files.lock:
            self._files.files.pop(path, None)

    def describe(self, name: str = "") -> str:
        return "memory://" + quote(f"{self._name}/{name}" if name else self._name, errors="surrogatepass")

    def forget(self) -> None:
        with self._files.lock:
            for path in [path for path in self._files.files if path.startswith(self._folder)]:
                del self._files.files[path]

    def _path(self, name: str, *, temporary_allowed: bool = False) -> str:
        check_name(name, self.describe(), temporary_allowed=temporary_allowed)
        return self._folder + name


def too_large(what: str, limit: int) -> StorageError:
    """Return (not raise) the error for state of `what` of more than `limit` bytes, too much for memory.

    `what` says whose state it is; `limit` is the option headgate.storage.memory.max-state-size.
    """
    return StorageError(
        f"state of {what} takes more than the {limit} bytes that a checkpoint in memory has for one state; "
        "set execution.checkpointing.dir to a folder or bucket that all workers reach, or raise "
        "headgate.storage.memory.max-state-size"
    )
