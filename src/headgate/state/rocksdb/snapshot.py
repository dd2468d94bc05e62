"""A snapshot of RocksDB state: hard links at the cut, the canonical blob written beside the loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from headgate.common.errors import InternalError, StorageError
from headgate.state.backend import EntryFilter, StateFiles, store_blob
from headgate.state.heap.snapshot import FrozenTimers, PendingHeapSnapshot
from headgate.state.rocksdb.database import Access, ColumnStore, Database, remove_tree
from headgate.state.rocksdb.key_bytes import groups_range, key_of
from headgate.state.stored.local_files import Spool
from headgate.state.rocksdb.rocksdb_memory import RocksMemory
from headgate.state.rocksdb.timer_sections import timer_chunks
from headgate.state.rocksdb.value_layout import Layout, entries_of
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.blob_writer import BlobWriter, SpooledBlob
from headgate.state.targets import Target


@dataclass(frozen=True)
class Cut:
    """Everything at one moment.

    Attributes:
        directory: a local checkpoint of the database; removed when the snapshot is released.
        layouts: of the states, in the order of the blob's sections, as they were.
        stored_timers: those in the database, and what the blob calls them.
    """

    directory: Path
    layouts: Mapping[str, Layout]
    timers: Sequence[FrozenTimers]
    stored_timers: Mapping[str, Target]
    groups: tuple[int, int]
    max_parallelism: int
    memory: RocksMemory


class PendingRocksSnapshot:
    """A local checkpoint of the database, and the timers as they were."""

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._timers = PendingHeapSnapshot(cut.timers, cut.groups, cut.max_parallelism)
        self.keep: EntryFilter | None = None

    def write(self) -> Spool:
        """The whole state as one blob; then the snapshot is released."""
        cut = self._cut
        blob = SpooledBlob(cut.directory.parent, cut.groups, cut.max_parallelism)
        try:
            self._add_states(blob)
            self._timers.write_to(blob)
            return blob.finish()
        except BaseException:
            blob.close()
            raise
        finally:
            self.release()

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        """See :class:`~headgate.state.backend.PendingSnapshot`."""
        blob = self.write()
        try:
            return store_blob(uid, files, self._cut.groups, blob)
        finally:
            blob.close()

    def release(self) -> None:
        """Let go of the checkpoint and the timers."""
        self._timers.release()
        _discard(self._cut.directory)

    def _add_states(self, blob: BlobWriter) -> None:
        cut = self._cut
        names = [*cut.layouts, *cut.stored_timers]
        database = Database(cut.directory, names, cut.memory, Access.READ_ONLY)
        try:
            for name, layout in cut.layouts.items():
                store = database.stores[name]
                check_nothing_outside(name, store, cut.groups)
                target, entries = layout.versions.target, entries_of(layout.rows(store, cut.groups))
                blob.add(name, target.schema, entries, target.serializer.encode_many, keep=self.keep)
            for name, target in cut.stored_timers.items():
                entries = timer_chunks(name, database.stores[name], cut.groups)
                blob.add(name, target.schema, entries, target.serializer.encode_many)
        finally:
            database.close()


class FailedSnapshot:
    """Stands for a snapshot that the local disk refused: the checkpoint fails and not the job."""

    def __init__(self, error: StorageError) -> None:
        self._error = error
        self.keep: EntryFilter | None = None

    def write(self) -> NoReturn:
        """Say why there is none."""
        raise self._error

    def store(self, uid: str, files: StateFiles) -> NoReturn:
        """Say why there is none."""
        raise self._error

    def release(self) -> None:
        """Nothing is held."""


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
    """A key of other key groups would be lost at the next rescaling."""
    low, high = groups_range(*groups)
    for strange in (next(store.items(stop=low), None), next(store.items(high), None)):
        if strange is not None:
            raise InternalError(
                f"state {name!r} holds key {key_of(strange[0])!r} outside its key groups {groups[0]} to "
                f"{groups[1]}; please report this"
            )
