"""Where the keyed state of a worker's subtasks lives: in Python dicts, or in RocksDB on the local disk."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headgate.api.state import StateDescriptor
from headgate.state.backend import KeyedBackend
from headgate.state.heap.backend import HeapKeyedBackend

if TYPE_CHECKING:
    from headgate.state.rocksdb.memory import RocksMemory

HASHMAP, ROCKSDB = "hashmap", "rocksdb"
_FOLDER = re.compile(r"headgate-state-(?P<host>.+)-(?P<pid>\d+)-[^-]+")


class StateBackends(Protocol):
    """Makes the backend of one operator subtask."""

    def open(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> KeyedBackend:
        """An empty backend.

        Args:
            descriptors: the declared states, by name.
            groups: first and last key group (inclusive).
            max_parallelism: number of key groups.
        """
        ...


class HeapBackends:
    """State as Python objects: fast, and bounded by memory."""

    def open(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> KeyedBackend:
        """See :class:`StateBackends`."""
        return HeapKeyedBackend(descriptors, *groups, max_parallelism)


class RocksBackends:
    """State in RocksDB on the local disk; one bound for what it holds in memory for all states of the worker.

    Beyond that bound: live values of the keys in use, and the blob of a state while a checkpoint is written.

    Args:
        memory_bytes: for all of them.
        local: folder on a disk of this machine; None: the one for temporary files.
    """

    def __init__(self, memory_bytes: int, local: str | None) -> None:
        self._bytes = memory_bytes
        self._local = Path(local or tempfile.gettempdir())
        self._memory: RocksMemory | None = None

    def open(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> KeyedBackend:
        """See :class:`StateBackends`.

        Raises:
            StorageError: the folder cannot be used.
        """
        # Optional packages are loaded by those who use them.
        from headgate.state.rocksdb.backend import RocksKeyedBackend
        from headgate.state.rocksdb.memory import RocksMemory

        if self._memory is None:
            self._local.mkdir(parents=True, exist_ok=True)
            remove_abandoned(self._local)
            self._memory = RocksMemory(self._bytes)
        prefix = f"headgate-state-{platform.node()}-{os.getpid()}-"
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=self._local))
        return RocksKeyedBackend(descriptors, *groups, max_parallelism, directory=folder, memory=self._memory)


def backends_for(kind: str, memory_bytes: int, local: str | None) -> StateBackends:
    """The backends that a job asked for, by the name in its configuration."""
    return RocksBackends(memory_bytes, local) if kind == ROCKSDB else HeapBackends()


def remove_abandoned(folder: Path) -> list[Path]:
    """Remove what killed workers of this machine left behind; gives what was found."""
    found: list[Path] = []
    for path in folder.glob("headgate-state-*"):
        match = _FOLDER.fullmatch(path.name)
        if match is None or match["host"] != platform.node() or _lives(int(match["pid"])):
            continue
        shutil.rmtree(path, ignore_errors=True)
        found.append(path)
    return found


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # somebody else's, so not ours to judge
    return True
