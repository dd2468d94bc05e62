"""The keyed backend that keeps state in RocksDB on the local disk, and values in use in memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.common.errors import StorageError
from headgate.common.process.children import OwnProcess
from headgate.core.timers import TimerQueue
from headgate.state.backend import Items, MigrationProgress, PendingSnapshot, StateHandle, Stored
from headgate.state.heap.backend import (
    EVENT_TIMERS,
    PROCESSING_TIMERS,
    SETTLED_PER_CALL,
    OwnTables,
    handle_of,
)
from headgate.state.heap.handles import HeapTable
from headgate.state.heap.snapshot import TimersView
from headgate.state.rocksdb.database import Database, remove_tree
from headgate.state.rocksdb.map_layout import MapEntries, layout_of
from headgate.state.rocksdb.map_table import RocksMapState, RocksMapTable
from headgate.state.rocksdb.migration import Migration
from headgate.state.rocksdb.native_files import PendingNativeSnapshot, Uploads
from headgate.state.rocksdb.rocksdb_memory import RocksMemory
from headgate.state.rocksdb.snapshot import (
    FailedSnapshot,
    PendingRocksSnapshot,
    SnapshotPoint,
    check_nothing_outside,
)
from headgate.state.rocksdb.state_table import RocksTable
from headgate.state.rocksdb.timer_queue import BEYOND_ALL_TIMERS, RocksTimerQueue, timer_of, timers_of
from headgate.state.stored.native_restore import NamedStates, NativeRestore, sources_of
from headgate.state.stored.restoring import open_restore

CACHE_ENTRIES: Final = 10_000
"""Keys of one state that are kept as live values; several batches' worth."""


class RocksKeyedBackend(OwnTables[RocksTable | RocksMapTable]):
    """The keyed state of one operator subtask in a RocksDB database of its own; timers in it or in memory.

    The pause of a snapshot is the write-back of what changed, a flush and one hard link per file. The
    database does not outlive the process: a new attempt begins in a new directory, from the checkpoint.
    Snapshots are blobs, or incremental: RocksDB's own files, of which only those are stored that no completed
    checkpoint has. A restore reads every form; if formats allow, the RocksDB files of the earlier subtask
    with most of the key groups become its database.

    Args:
        directory: on a local disk, for this subtask of this attempt alone; made if needed, removed by
            :meth:`close`.
        memory: the bound that all databases of the worker share.
        cache_entries: most keys of one state that are kept as live values.
        incremental: whether snapshots store RocksDB's own files.
        eager_migration: whether a restore rewrites all values of older types; else :meth:`settle` does.
        timers_on_disk: whether timers are in RocksDB, and only the next ones in memory too.
        map_entries: whether entries of a large map are stored one by one, if the type of its keys allows it.
    """

    def __init__(
        self,
        descriptors: Mapping[str, StateDescriptor],
        first_group: int,
        last_group: int,
        max_parallelism: int,
        *,
        directory: Path,
        memory: RocksMemory,
        cache_entries: int = CACHE_ENTRIES,
        incremental: bool = False,
        eager_migration: bool = False,
        timers_on_disk: bool = False,
        map_entries: bool = True,
    ) -> None:
        super().__init__(descriptors, (first_group, last_group), max_parallelism)
        self._directory, self._memory = directory, memory
        self._snapshots, self._process = count(1), OwnProcess()
        self._incremental, self._uploads = incremental, Uploads()
        self._database = Database(directory / "db", self._targets, memory)
        for name in descriptors:
            layout = layout_of(name, self._targets[name], map_entries=map_entries)
            store = self._database.stores[name]
            self._tables[name] = (
                RocksMapTable(store, layout, max_parallelism, cache_entries)
                if isinstance(layout, MapEntries)
                else RocksTable(store, layout, max_parallelism, cache_entries)
            )
        self._eager, self._migrations = eager_migration, deque[Migration]()
        self._use({name: self._handle(descriptor) for name, descriptor in descriptors.items()})
        self.event_timers = self._timer_queue(EVENT_TIMERS, timers_on_disk)
        self.processing_timers = self._timer_queue(PROCESSING_TIMERS, timers_on_disk)

    def _handle(self, descriptor: StateDescriptor) -> StateHandle:
        table = self._tables[descriptor.name]
        if isinstance(table, RocksMapTable):
            return RocksMapState(table)
        return handle_of(descriptor, self._targets[descriptor.name].serializer, cast(HeapTable, table))

    def _timer_queue(self, kind: str, on_disk: bool) -> TimerQueue[Hashable]:
        if not on_disk:
            return TimerQueue()
        return cast(TimerQueue[Hashable], RocksTimerQueue(self._database.stores[kind], self.max_parallelism))

    @property
    def _timers_on_disk(self) -> dict[str, RocksTimerQueue]:
        timers: Mapping[str, object] = self._timers
        return {kind: queue for kind, queue in timers.items() if isinstance(queue, RocksTimerQueue)}

    def keys(self, name: str) -> Iterator[Hashable]:
        return self._tables[name].keys()

    def scan(self, name: str) -> Items:
        return self._tables[name].scan()

    def prefetch(self, keys: Iterable[Hashable]) -> None:
        # immutable values are read with each record in any case
        wanted = set(keys)
        for name, table in self._tables.items():
            table.prefetch(wanted, certain=self.handles[name].immutable)

    def snapshot_sync(self, checkpoint: int = 0, completed: int | None = 0) -> PendingSnapshot:
        """Return a snapshot of the state as it is now. Call it between records, with everything stored.

        If the local disk fails, only storing the snapshot raises the StorageError; a value of a wrong type is
        a UsageError at once. `completed`: newest complete checkpoint, to whose files an incremental snapshot
        may refer (0: to none); None: for a savepoint. `checkpoint`: the number under which it is remembered.
        """
        on_disk = self._timers_on_disk
        for queue in on_disk.values():
            queue.flush()
        for name, table in self._tables.items():
            table.flush()
            if self._incremental:  # else it is checked when all is written
                check_nothing_outside(name, self._database.stores[name], self.groups)
        directory = self._directory / "snapshots" / str(next(self._snapshots))
        try:
            self._database.checkpoint(directory)
        except StorageError as error:
            remove_tree(directory)
            return FailedSnapshot(error)
        point = SnapshotPoint(
            directory,
            {name: table.layout.at_snapshot() for name, table in self._tables.items()},
            [
                TimersView(kind, *self._targets[kind], queue.freeze())
                for kind, queue in self._timers.items()
                if kind not in on_disk
            ],
            {kind: self._targets[kind] for kind in on_disk},
            self.groups,
            self.max_parallelism,
            self._memory,
        )
        if not self._incremental:
            return PendingRocksSnapshot(point)
        uploads = Uploads() if completed is None else self._uploads
        return PendingNativeSnapshot(point, checkpoint=checkpoint, completed=completed or 0, uploads=uploads)

    def settle(self) -> None:
        for timers in self._timers.values():
            timers.settle(SETTLED_PER_CALL)
        if self._migrations and self._migrations[0].step():
            self._migrations.popleft()

    def migration_progress(self) -> list[MigrationProgress]:
        return [migration.progress() for migration in self._migrations]

    def measured(self) -> Mapping[str, int]:
        return self._database.measured()

    def restore(self, stored: Iterable[Stored]) -> None:
        self._check_empty(all(table.empty() for table in self._tables.values()))
        with open_restore(
            stored, self.targets, self.groups, self.max_parallelism, takes_native=True
        ) as restore:
            self._restore_native(restore.native)
            restore.fill(self._tables, self._timers)

    def _restore_native(self, states: Sequence[NamedStates]) -> None:
        sources = sources_of(states, self.groups)
        if not sources:
            return
        self._database.close()
        remove_tree(self._directory / "db")
        restore = NativeRestore(
            sources,
            self.targets,
            {name: table.layout for name, table in self._tables.items()},
            self.groups,
            self.max_parallelism,
            self._directory,
            self._memory,
        )
        self._database, layouts, continued = restore.build()
        for name, table in self._tables.items():
            layout: Any = layouts.get(name) or table.layout
            table.attach(self._database.stores[name], layout)
        self._attach_timers()
        if continued is not None:
            state = continued.state
            self._uploads.restored(continued.details.checkpoint, state.native.files, state.root)
        self._migrate()

    def _attach_timers(self) -> None:
        # timers that are in RocksDB in the checkpoint only are moved into memory
        on_disk = self._timers_on_disk
        for kind, queue in self._timers.items():
            store = self._database.stores[kind]
            if kind in on_disk:
                on_disk[kind].attach(store)
            elif not store.empty():
                queue.restore(timer_of(*entry) for entry in timers_of(store, self.groups))
                store.delete_range(b"", BEYOND_ALL_TIMERS)

    def _migrate(self) -> None:
        for name, table in self._tables.items():
            if table.layout.versions.older:
                self._migrations.append(Migration(table.layout, self._database.stores[name]))
        while self._eager and self._migrations:
            self._migrations.popleft().step(math.inf)

    def close(self) -> None:
        # Pending snapshots remove their files when released; a forked child removes nothing.
        if not self._process.is_here:
            return
        self._database.close()
        remove_tree(self._directory / "db")
        for directory in (self._directory / "snapshots", self._directory):
            try:
                directory.rmdir()
            except OSError:  # a snapshot is still there, or all is removed already
                continue
