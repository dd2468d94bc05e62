"""Where the keyed state of a worker's subtasks lives: in Python dicts, or in RocksDB on the local disk."""

from __future__ import annotations

import copy
import importlib.util
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.common.errors import ConfigError, UsageError
from headgate.common.ports import Clock
from headgate.common.process.processes import process_lives
from headgate.common.registry import OPTIONAL_PACKAGES
from headgate.common.settings.options import STATE_BACKEND
from headgate.state.backend import BlobReader, KeyedBackend, NativeState, TableBackend
from headgate.state.changelog.backend import ChangelogBackend
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.targets import target_of

if TYPE_CHECKING:
    from headgate.state.rocksdb.rocksdb_memory import RocksMemory

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

    def readable(
        self, stored: BlobReader, descriptors: Mapping[str, StateDescriptor], max_parallelism: int
    ) -> BlobReader:
        """Stored state in a form that its backends restore.

        Args:
            stored: a blob, or a :class:`NativeState`.
            descriptors: the declared states, by name.
            max_parallelism: number of key groups.

        Raises:
            StorageError: something is missing or damaged.
            UsageError: stored and declared state do not fit, or a package is missing.
        """
        ...


class HeapBackends:
    """State as Python objects: fast, and bounded by memory."""

    def open(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> TableBackend:
        """See :class:`StateBackends`."""
        return HeapKeyedBackend(descriptors, *groups, max_parallelism)

    def readable(
        self, stored: BlobReader, descriptors: Mapping[str, StateDescriptor], max_parallelism: int
    ) -> BlobReader:
        """See :class:`StateBackends`; RocksDB's files become a blob on the disk for temporary files."""
        if not isinstance(stored, NativeState):
            return stored
        if importlib.util.find_spec("rocksdict") is None:
            raise UsageError(
                "the checkpoint holds state in RocksDB's own files, and package rocksdict, which reads them, "
                f"is not installed; install {OPTIONAL_PACKAGES['rocksdict']} on all workers"
            )
        from headgate.state.rocksdb.conversion import canonical_blob

        targets = {name: target_of(descriptor) for name, descriptor in descriptors.items()}
        return canonical_blob(stored, targets, max_parallelism, _own_folder(Path(tempfile.gettempdir())))

    def to_build_on(self) -> HeapBackends:
        """The same for a backend that is built around the tables."""
        return self


class RocksBackends:
    """State in RocksDB on the local disk; one bound for what it holds in memory for all states of the worker.

    Beyond that bound: live values of the keys in use, and the next timers.

    Args:
        memory_bytes: for all of them.
        local: folder on a disk of this machine; None: the one for temporary files.
        incremental: whether checkpoints are.
        timers_on_disk: whether timers are in RocksDB too.
        eager_migration: whether values of older types are rewritten before processing begins.
    """

    def __init__(
        self,
        memory_bytes: int,
        local: str | None,
        incremental: bool = False,
        *,
        timers_on_disk: bool = False,
        eager_migration: bool = False,
    ) -> None:
        self._bytes, self._incremental, self._map_entries = memory_bytes, incremental, True
        self._timers_on_disk, self._eager = timers_on_disk, eager_migration
        self._local = Path(local or tempfile.gettempdir())
        self._memory: RocksMemory | None = None

    def open(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> TableBackend:
        """See :class:`StateBackends`.

        Raises:
            StorageError: the folder cannot be used.
        """
        # Optional packages are loaded by those who use them.
        from headgate.state.rocksdb.backend import RocksKeyedBackend
        from headgate.state.rocksdb.rocksdb_memory import RocksMemory

        if self._memory is None:
            self._local.mkdir(parents=True, exist_ok=True)
            remove_abandoned(self._local)
            self._memory = RocksMemory(self._bytes)
        return RocksKeyedBackend(
            descriptors,
            *groups,
            max_parallelism,
            directory=_own_folder(self._local),
            memory=self._memory,
            incremental=self._incremental,
            timers_on_disk=self._timers_on_disk,
            eager_migration=self._eager,
            map_entries=self._map_entries,
        )

    def readable(
        self, stored: BlobReader, descriptors: Mapping[str, StateDescriptor], max_parallelism: int
    ) -> BlobReader:
        """See :class:`StateBackends`; all is restored as it is."""
        return stored

    def to_build_on(self) -> RocksBackends:
        """The same for a backend that is built around the tables: whole maps, and timers in memory."""
        same = copy.copy(self)
        same._map_entries = same._timers_on_disk = False
        return same


class ChangelogBackends:
    """Others with a log of changes, for short checkpoints.

    Args:
        backends: the others.
        materialize_ms: how often a snapshot is whole.
        clock: measures it.
        restored: the checkpoint that the attempt begins with, 0 for none.
    """

    def __init__(
        self, backends: HeapBackends | RocksBackends, materialize_ms: int, clock: Clock, restored: int
    ) -> None:
        self._backends, self._materialize_ms = backends.to_build_on(), materialize_ms
        self._clock, self._restored = clock, restored

    def open(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> KeyedBackend:
        """See :class:`StateBackends`."""
        backend = self._backends.open(descriptors, groups, max_parallelism)
        now_ms = self._clock.monotonic_ms
        return ChangelogBackend(backend, descriptors, self._materialize_ms, now_ms, self._restored)

    def readable(
        self, stored: BlobReader, descriptors: Mapping[str, StateDescriptor], max_parallelism: int
    ) -> BlobReader:
        """See :class:`StateBackends`; a base, as the others read it."""
        return self._backends.readable(stored, descriptors, max_parallelism)


def backends_for(
    kind: str,
    memory_bytes: int,
    local: str | None,
    incremental: bool = False,
    *,
    timers_on_disk: bool = False,
    eager_migration: bool = False,
) -> HeapBackends | RocksBackends:
    """The backends that a job asked for, by the name in its configuration.

    Raises:
        ConfigError: there is none of that name.
    """
    if kind == HASHMAP:
        return HeapBackends()
    if kind != ROCKSDB:
        raise ConfigError(
            f"{STATE_BACKEND.key} is {kind!r}, and there is no such state backend; "
            f"expected {HASHMAP} or {ROCKSDB}"
        )
    return RocksBackends(
        memory_bytes, local, incremental, timers_on_disk=timers_on_disk, eager_migration=eager_migration
    )


def _own_folder(local: Path) -> Path:
    """A new folder whose name tells whose it is, should this process be killed."""
    prefix = f"headgate-state-{platform.node()}-{os.getpid()}-"
    return Path(tempfile.mkdtemp(prefix=prefix, dir=local))


def remove_abandoned(folder: Path) -> list[Path]:
    """Remove what killed workers of this machine left behind; gives what was found."""
    found: list[Path] = []
    for path in folder.glob("headgate-state-*"):
        match = _FOLDER.fullmatch(path.name)
        if match is None or match["host"] != platform.node() or process_lives(int(match["pid"])):
            continue
        shutil.rmtree(path, ignore_errors=True)
        found.append(path)
    return found
