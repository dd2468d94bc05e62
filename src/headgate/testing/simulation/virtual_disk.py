"""A disk in memory on which operations fail, leave their outcome open, or kill the process that uses it.

Listings never lag: the `Disk` port promises that a read, and so a listing, sees every completed write, and a
storage without that is refused (`docs/storage.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.common.errors import StorageError
from headgate.common.files.durable_file import TEMPORARY_PREFIX

Verdict = Literal["works", "fails", "full", "unsure"]
Gate = Callable[[str, str], Verdict]
"""Function asked before an operation: (operation, file) -> outcome; may raise to end the process."""
Done = Callable[[str, str], None]
"""Function called after a change of a file with (operation, file); may raise to end the process."""

URI: Final = "sim://disk"
"""URI of the root folder below which a simulated job stores everything."""

_WHY: Final = {
    "fails": "the simulated device has an error",
    "full": "no space is left on the simulated device",
}


class SimFiles:
    """The durable files of a simulation by name, and those that killed writers left unfinished (`torn`)."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.torn: dict[str, bytes] = {}  # what killed writers left unfinished; no listing shows it

    def names(self, prefix: str) -> list[str]:
        return _below(self.files, prefix)

    def unfinished(self, prefix: str) -> list[str]:
        return _below(self.torn, prefix)

    def tear(self, name: str, data: bytes) -> None:
        """Keep half of `data` as an unfinished file in the folder of `name`, under a name of its own that no
        listing shows: the process that wrote file `name` was killed meanwhile.
        """
        folder, slash, last = name.rpartition("/")
        self.torn[f"{folder}{slash}{TEMPORARY_PREFIX}{len(self.torn)}-{last}"] = data[: len(data) // 2]


def _below(names: Iterable[str], prefix: str) -> list[str]:
    folder = prefix.rstrip("/")
    return sorted(name for name in names if not folder or name.startswith(folder + "/"))


def always_works(_operation: str, _name: str) -> Verdict:
    return "works"


def _ignore(_operation: str, _name: str) -> None:
    pass


class SimDisk:
    """One process's access to the shared files, as a `Disk`, `RandomAccess` and `KeepsTemporaries`.

    Names are relative to the folder `root`; `gate` and `done` get names from the root of all files. `gate` is
    asked before each operation for its outcome: "works"; "fails" or "full" raise StorageError, and nothing
    happens; "unsure" lets a write happen, and raises UnsureWriteError. If it raises ProcessKilled, half of
    what was to be written is left as an unfinished file. `done` is called after each write and deletion.

    Example:
        >>> disk = SimDisk(SimFiles())
        >>> disk.create_if_absent("log/1", b"a"), disk.create_if_absent("log/1", b"b"), disk.read("log/1")
        (True, False, b'a')
    """

    def __init__(
        self, files: SimFiles, gate: Gate = always_works, done: Done = _ignore, root: str = ""
    ) -> None:
        self._files, self._gate, self._done = files, gate, done
        self._root = f"{root}/" if root else ""

    @classmethod
    def at(cls, uri: str, files: SimFiles, gate: Gate = always_works, done: Done = _ignore) -> SimDisk:
        """Return a process's disk whose root is the folder `uri`, which is :data:`URI` or below it;
        StorageError for any other URI. `gate` and `done` are as for the class.
        """
        if uri != URI and not uri.startswith(f"{URI}/"):
            raise StorageError(f"{uri!r} is nothing in a simulation; expected a URI that begins with {URI}")
        return cls(files, gate, done, uri.removeprefix(URI).strip("/"))

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        self._write("create", name, b"".join(bytes(part) for part in parts))

    def create_if_absent(self, name: str, data: bytes) -> bool:
        return self._write("create-if-absent", name, bytes(data))

    def read(self, name: str) -> bytes:
        self._pass("read", name)
        return self._existing(name)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        self._pass("read", name)
        return self._existing(name)[offset : offset + length]

    def size(self, name: str) -> int:
        self._pass("size", name)
        return len(self._existing(name))

    def list(self, prefix: str) -> Sequence[str]:
        self._pass("list", prefix)
        return self._relative(self._files.names(self._root + prefix))

    def temporaries(self, prefix: str) -> Sequence[str]:
        self._pass("list", prefix)
        return self._relative(self._files.unfinished(self._root + prefix))

    def delete(self, name: str) -> None:
        self._pass("delete", name)
        self._files.files.pop(self._root + name, None)
        self._files.torn.pop(self._root + name, None)
        self._done("delete", self._root + name)

    def describe(self, name: str = "") -> str:
        return f"{URI}/{self._root}{name}".rstrip("/")

    def _relative(self, names: Iterable[str]) -> Sequence[str]:
        return [name[len(self._root) :] for name in names]

    def _pass(self, operation: str, name: str) -> Verdict:
        verdict = self._gate(operation, self._root + name)
        if verdict in _WHY:
            raise StorageError(f"cannot {operation} {self.describe(name)}: {_WHY[verdict]}")
        return verdict

    def _write(self, operation: str, name: str, data: bytes) -> bool:
        try:
            verdict = self._pass(operation, name)
        except Exception:
            raise
        except BaseException:  # the process was killed on the way
            self._files.tear(self._root + name, data)
            raise
        if operation == "create-if-absent" and self._root + name in self._files.files:
            return False
        self._files.files[self._root + name] = data
        self._done(operation, self._root + name)
        if verdict == "unsure":
            raise UnsureWriteError(f"{self.describe(name)} was written, but its flush failed")
        return True

    def _existing(self, name: str) -> bytes:
        try:
            return self._files.files[self._root + name]
        except KeyError:
            raise FileNotFoundError(name) from None
