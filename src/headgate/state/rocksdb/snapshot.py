"""A snapshot of RocksDB state: hard links at the cut, the canonical blob written beside the loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from headgate.common.errors import StorageError
from headgate.state.backend import EntryFilter, StateFiles, store_blob
from headgate.state.heap.blob import BytesBlob
from headgate.state.heap.restore import Target
from headgate.state.heap.snapshot import FrozenTimers, PendingHeapSnapshot
from headgate.state.rocksdb.canonical import CanonicalBlob, check_nothing_outside, decoded
from headgate.state.rocksdb.database import Access, Database, remove_tree
from headgate.state.rocksdb.local_files import Spool
from headgate.state.rocksdb.memory import RocksMemory
from headgate.state.snapshots import KeyedStateHandle


class PendingRocksSnapshot:
    """A local checkpoint of the database, and the timers as they were.

    Args:
        directory: the checkpoint; removed when the snapshot is released.
        targets: the states, in the order of the blob's sections.
        timers: the timers at the cut.
        groups: first and last key group of the subtask.
        max_parallelism: number of key groups of the operator.
        memory: bounds what reading the checkpoint takes.
    """

    def __init__(
        self,
        directory: Path,
        targets: Mapping[str, Target],
        timers: Sequence[FrozenTimers],
        groups: tuple[int, int],
        max_parallelism: int,
        memory: RocksMemory,
    ) -> None:
        self._directory, self._targets, self._memory = directory, targets, memory
        self._groups, self._max_parallelism = groups, max_parallelism
        self._timers = PendingHeapSnapshot(timers, groups, max_parallelism)
        self.keep: EntryFilter | None = None

    def write(self) -> Spool:
        """The whole state as one blob; then the snapshot is released.

        Raises:
            StorageError: the checkpoint cannot be read, or the local disk does not take the blob.
            InternalError: a key is not of the subtask's key groups.
        """
        blob = CanonicalBlob(self._directory.parent, self._groups, self._max_parallelism)
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
            return store_blob(uid, files, self._groups, blob)
        finally:
            blob.close()

    def release(self) -> None:
        """Let go of the checkpoint and the timers."""
        self._timers.release()
        _discard(self._directory)

    def _add_states(self, blob: CanonicalBlob) -> None:
        database = Database(self._directory, self._targets, self._memory, Access.READ_ONLY)
        try:
            for name, target in self._targets.items():
                store = database.stores[name]
                check_nothing_outside(name, store, self._groups)
                values = decoded(name, store, target.serializer.decode_stored, self._groups)
                blob.add(name, target, values, self.keep)
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
