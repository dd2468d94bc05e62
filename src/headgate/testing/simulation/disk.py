"""A disk in memory that may fail, be unsure, or have its user killed between two operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from headgate.checkpoint.storage.base import UnsureWriteError
from headgate.common.errors import StorageError

Verdict = Literal["works", "fails", "unsure"]
Gate = Callable[[str, str], Verdict]
"""(operation, file) -> what becomes of it; may also raise what ends the process."""


class SimFiles:
    """The files that all processes share; what is in here is durable."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def names(self, prefix: str) -> list[str]:
        """Sorted names below the folder `prefix`."""
        folder = prefix.rstrip("/")
        return sorted(name for name in self.files if not folder or name.startswith(folder + "/"))


def always_works(_operation: str, _name: str) -> Verdict:
    """The gate of a disk without faults."""
    return "works"


class SimDisk:
    """One process's way to the files; implements `common.ports.Disk` and `RandomAccess`.

    Example:
        >>> disk = SimDisk(SimFiles())
        >>> disk.create_if_absent("log/1", b"a"), disk.create_if_absent("log/1", b"b"), disk.read("log/1")
        (True, False, b'a')
    """

    def __init__(self, files: SimFiles, gate: Gate = always_works) -> None:
        self._files, self._gate = files, gate

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """See `common.ports.Disk`."""
        data = b"".join(bytes(part) for part in parts)
        verdict = self._pass("create", name)
        self._files.files[name] = data
        self._demand_sure(verdict, name)

    def create_if_absent(self, name: str, data: bytes) -> bool:
        """See `common.ports.Disk`."""
        verdict = self._pass("create-if-absent", name)
        if name in self._files.files:
            return False
        self._files.files[name] = bytes(data)
        self._demand_sure(verdict, name)
        return True

    def read(self, name: str) -> bytes:
        """See `common.ports.Disk`."""
        self._pass("read", name)
        return self._existing(name)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """See `checkpoint.storage.base.RandomAccess`."""
        self._pass("read", name)
        return self._existing(name)[offset : offset + length]

    def size(self, name: str) -> int:
        """See `checkpoint.storage.base.RandomAccess`."""
        self._pass("size", name)
        return len(self._existing(name))

    def list(self, prefix: str) -> Sequence[str]:
        """See `common.ports.Disk`."""
        self._pass("list", prefix)
        return self._files.names(prefix)

    def delete(self, name: str) -> None:
        """See `common.ports.Disk`."""
        self._pass("delete", name)
        self._files.files.pop(name, None)

    def describe(self, name: str = "") -> str:
        """See `common.ports.Disk`."""
        return f"sim://disk/{name}"

    def _pass(self, operation: str, name: str) -> Verdict:
        verdict = self._gate(operation, name)
        if verdict == "fails":
            raise StorageError(f"cannot {operation} {self.describe(name)}: the simulated device has an error")
        return verdict

    def _demand_sure(self, verdict: Verdict, name: str) -> None:
        if verdict == "unsure":
            raise UnsureWriteError(f"{self.describe(name)} was written, but its flush failed")

    def _existing(self, name: str) -> bytes:
        try:
            return self._files.files[name]
        except KeyError:
            raise FileNotFoundError(name) from None
