"""A snapshot of RocksDB state: hard links at the snapshot point, all of it written in the background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from headgate.common.errors import InternalError, StorageError
from headgate.state.backend import EntryFilter, NewSection, NewWriter, StateFiles, StateWriter
from headgate.state.heap.snapshot import PendingHeapSnapshot, TimersView, kept
from headgate.state.rocksdb.database import Access, ColumnStore, Database, remove_tree
from headgate.state.rocksdb.key_bytes import groups_range, key_of
from headgate.state.rocksdb.rocksdb_memory import RocksMemory
from headgate.state.rocksdb.timer_queue import timer_chunks
from headgate.state.rocksdb.value_layout import VersionedValues, entries_of
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.blob import SpooledBlob
from headgate.state.stored.contract import written
from headgate.state.targets import Target


@dataclass(frozen=True)
class SnapshotPoint:
    """The state of a backend, or ChunkStore, in RocksDB at the snapshot point, for the background thread."""

    directory: Path  # a local checkpoint of the database; removed when the snapshot is released
    layouts: Mapping[str, VersionedValues]  # of the states, in the order of the sections
    timers: Sequence[TimersView]
    stored_timers: Mapping[str, Target]  # those in the database
    groups: tuple[int, int]
    max_parallelism: int
    memory: RocksMemory


class PendingRocksSnapshot:
    """A pending snapshot of a backend in RocksDB that is stored complete, as one blob or by a given writer.

    An incremental one is a :class:`~headgate.state.rocksdb.native_files.PendingNativeSnapshot`.
    """

    def __init__(self, point: SnapshotPoint) -> None:
        self._point = point
        self._timers = PendingHeapSnapshot(point.timers, point.groups, point.max_parallelism)
        self.keep: EntryFilter | None = None

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        folder, write = self._point.directory.parent, partial(files.write, uid)
        return self.store_with(lambda groups, number: SpooledBlob(groups, number, folder, write))

    def store_with(self, new_writer: NewWriter) -> KeyedStateHandle:
        try:
            return written(new_writer(self._point.groups, self._point.max_parallelism), self._write_to)
        finally:
            self.release()

    def release(self) -> None:
        self._timers.release()
        _discard(self._point.directory)

    def _write_to(self, writer: StateWriter) -> None:
        point = self._point
        names = [*point.layouts, *point.stored_timers]
        database = Database(point.directory, names, point.memory, Access.READ_ONLY)
        try:
            for name, layout in point.layouts.items():
                store, target = database.stores[name], layout.versions.target
                check_nothing_outside(name, store, point.groups)
                entries = kept(self.keep, name, entries_of(layout.rows(store, point.groups)))
                writer.add(NewSection(name, target.schema, target.serializer.encode_many), entries)
            for name, target in point.stored_timers.items():
                timers = timer_chunks(name, database.stores[name], point.groups)
                writer.add(NewSection(name, target.schema, target.serializer.encode_many), timers)
        finally:
            database.close()
        self._timers.write_to(writer)
        self.release()  # the local disk has its space back before the bytes go to the storage


class FailedSnapshot:
    """Stands for a snapshot that the local disk refused: storing it raises, so only the checkpoint fails."""

    def __init__(self, error: StorageError) -> None:
        self._error = error
        self.keep: EntryFilter | None = None

    def store(self, uid: str, files: StateFiles) -> NoReturn:
        raise self._error

    def store_with(self, new_writer: NewWriter) -> NoReturn:
        raise self._error

    def release(self) -> None:
        """Do nothing: no files are held."""


def _discard(directory: Path) -> None:
    remove_tree(directory)
    root = directory.parent.parent
    if (root / "db").exists():
        return
    for parent in (directory.parent, root):
        try:
            parent.rmdir()
        except OSError:  # another snapshot of the closed backend is still being written
            return


def check_nothing_outside(name: str, store: ColumnStore, groups: tuple[int, int]) -> None:
    """Raise an InternalError if the state `name` has a key in `store` that is not of `groups` (first and last
    key group, inclusive), and which a restore with another parallelism would lose.
    """
    low, high = groups_range(*groups)
    for outside in (next(store.items(stop=low), None), next(store.items(high), None)):
        if outside is not None:
            raise InternalError(
                f"state {name!r} holds key {key_of(outside[0])!r} outside its key groups {groups[0]} to "
                f"{groups[1]}; please report this"
            )
