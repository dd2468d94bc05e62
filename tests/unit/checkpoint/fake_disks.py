"""Disks for tests: one in memory, and one that stops at a chosen operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.common.errors import StorageError


class Crash(BaseException):
    """The process is dead: nothing may catch this."""


class MemoryDisk:
    """The `Disk` port on a dict; `files` outlives the disk object as a real disk outlives a process."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files: dict[str, bytes] = {} if files is None else files

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        self.files[name] = b"".join(parts)

    def create_if_absent(self, name: str, data: bytes) -> bool:
        return self.files.setdefault(name, data) is data

    def read(self, name: str) -> bytes:
        try:
            return self.files[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def list(self, prefix: str) -> Sequence[str]:
        folder = prefix.rstrip("/") + "/" if prefix else ""
        return sorted(name for name in self.files if name.startswith(folder))

    def delete(self, name: str) -> None:
        self.files.pop(name, None)

    def describe(self, name: str = "") -> str:
        return f"memory:///{name}" if name else "memory://"


class StoppingDisk(MemoryDisk):
    """Dies before the n-th change (from 0), as by SIGKILL; changes are atomic."""

    def __init__(self, files: dict[str, bytes], changes_left: int) -> None:
        super().__init__(files)
        self.changes_left = changes_left

    def _change(self) -> None:
        if self.changes_left == 0:
            raise Crash
        self.changes_left -= 1

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        self._change()
        super().create(name, parts)

    def create_if_absent(self, name: str, data: bytes) -> bool:
        self._change()
        return super().create_if_absent(name, data)

    def delete(self, name: str) -> None:
        self._change()
        super().delete(name)


class FailingDisk(MemoryDisk):
    """Raises where told to.

    `fail` maps (operation, name) to None, "before" (nothing happened), or "after" (it happened, unsure).
    """

    def __init__(
        self, files: dict[str, bytes], fail: Callable[[str, str], str | None] = lambda operation, name: None
    ) -> None:
        super().__init__(files)
        self.fail = fail

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        when = self.fail("create", name)
        if when == "before":
            raise StorageError(f"cannot write {name}: No space left on device")
        super().create(name, parts)
        if when == "after":
            raise UnsureWriteError(f"{name} could not be flushed")

    def create_if_absent(self, name: str, data: bytes) -> bool:
        when = self.fail("create_if_absent", name)
        if when == "before":
            raise StorageError(f"cannot write {name}: No space left on device")
        created = super().create_if_absent(name, data)
        if when == "after":
            raise UnsureWriteError(f"{name} could not be flushed")
        return created

    def list(self, prefix: str) -> Sequence[str]:
        if self.fail("list", prefix):
            raise StorageError(f"cannot list {prefix}: Input/output error")
        return super().list(prefix)
