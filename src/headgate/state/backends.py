"""Where the keyed state of a worker's subtasks lives: in Python dicts, or in RocksDB on the local disk."""

from __future__ import annotations

import copy
import platform
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.common.errors import ConfigError
from headgate.common.ports import Clock
from headgate.common.process.processes import process_lives
from headgate.common.settings.options import STATE_BACKEND
from headgate.state.backend import KeyedBackend, TableBackend
from headgate.state.changelog.backend import ChangelogBackend
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.stored.families import own_prefix

if TYPE_CHECKING:
    from headgate.state.rocksdb.rocksdb_memory import RocksMemory

HASHMAP, ROCKSDB = "hashmap", "rocksdb"
_FOLDER = re.compile(r"headgate-state-(?P<host>.+)-(?P<pid>\d+)-[^-]+")


class StateBackends(Protocol):
    """Makes the backend of one operator subtask."""

    def open(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> KeyedBackend:
        """An empty backend."""
        ...


class HeapBackends:
    """State as Python objects: fast, and bounded by memory."""

    def open(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> TableBackend:
        """See :class:`StateBackends`."""
        return HeapKeyedBackend(descriptors, *groups, max_parallelism)

    def to_build_on(self) -> HeapBackends:
        """The same for a backend that is built around the tables."""
        return self


class RocksBackends:
    """State in RocksDB on the local disk; one bound for what it holds in memory for all states of the worker.

    Beyond that bound: live values of the keys in use, and the next timers.

    Args:
        local: folder on a disk of this machine; None: the one for temporary files.
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
        """See :class:`StateBackends`."""
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
            directory=Path(tempfile.mkdtemp(prefix=own_prefix(), dir=self._local)),
            memory=self._memory,
            incremental=self._incremental,
            timers_on_disk=self._timers_on_disk,
            eager_migration=self._eager,
            map_entries=self._map_entries,
        )

    def to_build_on(self) -> RocksBackends:
        """The same for a backend that is built around the tables: whole maps, and timers in memory."""
        same = copy.copy(self)
        same._map_entries = same._timers_on_disk = False
        return same


class ChangelogBackends:
    """Others with a log of changes, for short checkpoints.

    Args:
        materialize_ms: how often a snapshot is whole.
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


def backends_for(
    kind: str,
    memory_bytes: int,
    local: str | None,
    incremental: bool = False,
    *,
    timers_on_disk: bool = False,
    eager_migration: bool = False,
) -> HeapBackends | RocksBackends:
    """The backends that a job asked for, by the name in its configuration."""
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
