"""Makes the keyed state backends of a worker's subtasks, as configured: in Python dicts or in RocksDB."""

from __future__ import annotations

import platform
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.common.errors import ConfigError
from headgate.common.ports import Clock
from headgate.common.process.processes import process_lives
from headgate.common.settings.options import STATE_BACKEND, WINDOWS_MEMORY
from headgate.state.backend import KeyedBackend, TableBackend
from headgate.state.changelog.backend import ChangelogBackend
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.stored.families import own_prefix

if TYPE_CHECKING:
    from headgate.state.rocksdb.rocksdb_memory import RocksMemory

HASHMAP, ROCKSDB = "hashmap", "rocksdb"
_FOLDER = re.compile(r"headgate-state-(?P<host>.+)-(?P<pid>\d+)-[^-]+")


class StateBackends(Protocol):
    """The configured kind of state backend: makes one backend for each operator subtask of a worker."""

    def open(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> KeyedBackend:
        """Return an empty backend for one operator subtask; the caller restores it, and closes it in the end.
        `descriptors`: its declared states by name; `groups`: its first and last key group (inclusive).
        """


class HeapBackends:
    """Makes backends that keep state as Python objects: fast, and bounded by memory."""

    def open(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> TableBackend:
        return HeapKeyedBackend(descriptors, *groups, max_parallelism)

    def to_build_on(self) -> HeapBackends:
        return self


@dataclass
class RocksBackends:
    """Makes backends that keep state in RocksDB on the local disk; one memory bound for all of the worker.

    `memory_bytes` bounds block caches and write buffers, not live values of keys in use or timers in memory.
    `local`: folder of the databases, None: that for temporary files; `incremental`: snapshots store RocksDB's
    own files; `windows_bytes`: bytes of columnar windows that a subtask may buffer.
    """

    memory_bytes: int  # the bound: for all block caches and write buffers of the worker's RocksDB databases
    local: str | None  # folder on a disk of this machine; None: the one for temporary files
    incremental: bool = False  # checkpoints store RocksDB's own files, those that no earlier one has
    timers_on_disk: bool = False  # timers are in RocksDB, and only the next ones in memory too
    eager_migration: bool = False  # rewrite values of older types before processing begins
    map_entries: bool = True  # entries of large maps are stored one by one, where the keys' type allows it
    windows_bytes: int = WINDOWS_MEMORY.default  # of windows of columns, before a subtask stores them
    statistics: bool = False  # databases count hits and misses of their cache and the like
    _memory: RocksMemory | None = field(default=None, init=False)

    def open(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> TableBackend:
        # Optional packages are loaded when they are used.
        from headgate.state.rocksdb.backend import RocksKeyedBackend

        return RocksKeyedBackend(
            descriptors,
            *groups,
            max_parallelism,
            memory=self.shared_memory(),
            directory=self.new_directory(),
            incremental=self.incremental,
            timers_on_disk=self.timers_on_disk,
            eager_migration=self.eager_migration,
            map_entries=self.map_entries,
        )

    def shared_memory(self) -> RocksMemory:
        """Return the memory bound that all RocksDB databases of the worker share; ConfigError: it is under 8
        MiB. The first call makes it, and deletes the local folders of dead processes of this host.
        """
        from headgate.state.rocksdb.rocksdb_memory import RocksMemory

        if self._memory is None:
            self._local.mkdir(parents=True, exist_ok=True)
            remove_abandoned(self._local)
            self._memory = RocksMemory(self.memory_bytes, statistics=self.statistics)
        return self._memory

    @property
    def _local(self) -> Path:
        return Path(self.local or tempfile.gettempdir())

    def new_directory(self) -> Path:
        return Path(tempfile.mkdtemp(prefix=own_prefix(), dir=self._local))

    def to_build_on(self) -> RocksBackends:
        # A changelog tracks changes of whole maps, and of timers in memory.
        return replace(self, timers_on_disk=False, map_entries=False)


class ChangelogBackends:
    """Makes backends whose checkpoints mostly store changes only, around those of RocksDB or Python dicts.

    `materialize_ms`: after so long the next snapshot is complete by itself, and the log begins anew.
    `restored`: the checkpoint that the attempt begins with, 0 for none.
    """

    def __init__(
        self, backends: HeapBackends | RocksBackends, materialize_ms: int, clock: Clock, restored: int
    ) -> None:
        self.inner, self._materialize_ms = backends.to_build_on(), materialize_ms
        self._clock, self._restored = clock, restored

    def open(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> KeyedBackend:
        backend = self.inner.open(descriptors, groups, max_parallelism)
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
    windows_bytes: int = WINDOWS_MEMORY.default,
    statistics: bool = False,
) -> HeapBackends | RocksBackends:
    """Return the backends of `kind` "hashmap", or "rocksdb" with the other arguments; else ConfigError."""
    if kind == HASHMAP:
        return HeapBackends()
    if kind != ROCKSDB:
        raise ConfigError(
            f"{STATE_BACKEND.key} is {kind!r}, and there is no such state backend; "
            f"expected {HASHMAP} or {ROCKSDB}"
        )
    return RocksBackends(
        memory_bytes,
        local,
        incremental,
        timers_on_disk,
        eager_migration,
        windows_bytes=windows_bytes,
        statistics=statistics,
    )


def remove_abandoned(folder: Path) -> list[Path]:
    """Delete the state folders in `folder` that dead processes of this host left; return their paths."""
    found: list[Path] = []
    for path in folder.glob("headgate-state-*"):
        match = _FOLDER.fullmatch(path.name)
        if match is None or match["host"] != platform.node() or process_lives(int(match["pid"])):
            continue
        shutil.rmtree(path, ignore_errors=True)
        found.append(path)
    return found
