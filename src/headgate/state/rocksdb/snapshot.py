"""A snapshot of RocksDB state: hard links at the cut, the canonical blob written beside the loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from headgate.common.errors import StorageError
from headgate.state.backend import EntryFilter, StateFiles, store_blob
from headgate.state.heap.heap_blob import BytesBlob
from headgate.state.heap.restore import Target
from headgate.state.heap.snapshot import FrozenTimers, PendingHeapSnapshot
from headgate.state.rocksdb.canonical import CanonicalBlob, check_nothing_outside, chunks_of
from headgate.state.rocksdb.database import Access, Database, remove_tree
from headgate.state.rocksdb.local_files import Spool
from headgate.state.rocksdb.rocksdb_memory import RocksMemory
from headgate.state.rocksdb.timer_sections import timer_chunks
from headgate.state.rocksdb.value_layout import Layout
from headgate.state.snapshots import KeyedStateHandle


@dataclass(frozen=True)
class Cut:
    """Everything at one moment.

    Attributes:
        directory: a local checkpoint of the database; removed when the snapshot is released.
        layouts: of the states, in the order of the blob's sections, as they were.
        timers: the timers in memory.
        stored_timers: those in the database, and what the blob calls them.
        groups: first and last key group of the subtask.
        max_parallelism: number of key groups of the operator.
        memory: bounds what reading the checkpoint takes.
    """

    directory: Path
    layouts: Mapping[str, Layout]
    timers: Sequence[FrozenTimers]
    stored_timers: Mapping[str, Target]
    groups: tuple[int, int]
    max_parallelism: int
    memory: RocksMemory


class PendingRocksSnapshot:
    """A local checkpoint of the database, and the timers as they were.

    Args:
        cut: the moment.
    """

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._timers = PendingHeapSnapshot(cut.timers, cut.groups, cut.max_parallelism)
        self.keep: EntryFilter | None = None

    def write(self) -> Spool:
        """The whole state as one blob; then the snapshot is released.

        Raises:
            StorageError: the checkpoint cannot be read, or the local disk does not take the blob.
            InternalError: a key is not of the subtask's key groups.
        """
        cut = self._cut
        blob = CanonicalBlob(cut.directory.parent, cut.groups, cut.max_parallelism)
        try:
            self._add_states(blob)
            blob.add_all_of(self._timers_blob())
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

    def _add_states(self, blob: CanonicalBlob) -> None:
        cut = self._cut
        names = [*cut.layouts, *cut.stored_timers]
        database = Database(cut.directory, names, cut.memory, Access.READ_ONLY)
        try:
            for name, layout in cut.layouts.items():
                store = database.stores[name]
                check_nothing_outside(name, store, cut.groups)
                blob.add(name, layout.versions.target, chunks_of(layout.rows(store, cut.groups)), self.keep)
            for name, target in cut.stored_timers.items():
                blob.add(name, target, timer_chunks(name, database.stores[name], cut.groups))
        finally:
            database.close()

    def _timers_blob(self) -> BytesBlob:
        return BytesBlob(b"".join(self._timers.write()))


class FailedSnapshot:
    """Stands for a snapshot that the local disk refused: the checkpoint fails and not the job."""

    def __init__(self, error: StorageError) -> None:
        self._error = error
        self.keep: EntryFilter | None = None

    def write(self) -> NoReturn:
        """Say why there is none.

        Raises:
            StorageError: always.
        """
        raise self._error

    def store(self, uid: str, files: StateFiles) -> NoReturn:
        """Say why there is none.

        Raises:
            StorageError: always.
        """
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
