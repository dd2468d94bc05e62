"""State without windows on RocksDB: it is read in memory, and a log of its changes lies in chunks on disk, so
that a checkpoint stores what has changed since the last one.

The log is in RocksDB's files, of which a checkpoint stores the new ones. Chunks of a key group that are about
as large become one; where most of the log is about rows that changed since, it is written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headgate.common.errors import StorageError
from headgate.runtime.worker.operators.columns.kept_windows import WindowsView
from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns
from headgate.runtime.worker.operators.columns.updating.kept_for_good import KeptForGood
from headgate.runtime.worker.operators.columns.window_state import PendingWindows
from headgate.state.backend import EntryFilter, NewWriter, PendingSnapshot, StateFiles
from headgate.state.rocksdb.chunk_bytes import ChunkKey, Piece, placed_in
from headgate.state.rocksdb.chunk_store import ChunkStore
from headgate.state.rocksdb.native_chunks import native_chunks
from headgate.state.rocksdb.native_files import PendingNativeSnapshot
from headgate.state.rocksdb.snapshot import FailedSnapshot
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.native_restore import NamedStates

if TYPE_CHECKING:
    from headgate.state.targets import Target

_LOG: Final = 0
"""The place of chunks that say what changed, oldest first."""
_WAITING: Final = 1
"""The place of chunks with what came since the last mark; each snapshot writes them anew."""

_ANYWHERE: Final = ChunkKey(0, 0, 0)
"""Stands for the key of a chunk whose rows say their places."""

_TOGETHER: Final = 8
"""So many chunks of about one size become one."""
_SPARE_ROWS: Final = 1 << 16
"""The log may have twice the rows of the state, and so many more, before it is written anew."""


class LoggedState:
    """State in memory, `kept`, and its log in `chunks`. `columns` are those of chunks; `pending` gives a
    snapshot of what is in memory, for savepoints.
    """

    def __init__(
        self,
        kept: KeptForGood,
        chunks: ChunkStore,
        columns: ChunkColumns,
        pending: Callable[[], PendingWindows],
    ) -> None:
        self._chunks, self._columns, self._pending = chunks, columns, pending
        self.replace(kept)

    def replace(self, kept: KeptForGood) -> None:
        """Keep `kept` from now on, of which the log has nothing."""
        self.kept = kept
        self._whole = True  # whether the log lacks what is in memory
        if self._chunks.incremental:
            kept.begin_log()

    def restore(self, states: Sequence[NamedStates]) -> None:
        """Take over the RocksDB files that earlier subtasks stored; call it before any row is added."""
        self._chunks.restore(states)
        for place in (_LOG, _WAITING):
            for group in self._chunks.groups_at([place]):
                for table in self._tables(self._chunks.read(group, [place])):
                    self.kept.restore(table)
        self._whole = False

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        return (self._columns.table(_ANYWHERE, batch) for batch in batches)

    def snapshot(self, checkpoint: int, completed: int | None) -> PendingSnapshot:
        """Write what changed since the last snapshot, and take one. `completed`: newest complete checkpoint,
        to whose files it may refer; 0: to none; None: a savepoint. A StorageError here is raised when the
        snapshot is stored, so that only the checkpoint fails.
        """
        if not self._chunks.incremental:
            return self._pending()
        try:
            self._write()
            point = self._chunks.snapshot()
        except StorageError as error:
            self._whole = True
            return FailedSnapshot(error)
        if point is None:
            return self._pending()
        uploads = self._chunks.no_uploads() if completed is None else self._chunks.uploads
        native = PendingNativeSnapshot(
            point, checkpoint=checkpoint, completed=completed or 0, uploads=uploads
        )
        return PendingLog(native, self._pending() if completed is None else None)

    def _write(self) -> None:
        rows = self.kept.take_log()
        if self._whole or self._chunks.rows > 2 * self.kept.count + _SPARE_ROWS:
            self._chunks.drop([_LOG])
            for table in self.kept.settled()():
                self._chunks.add(self._pieces(table, _LOG))
            self._whole = False
        else:
            for table in rows:
                self._append(table)
        self._chunks.drop([_WAITING])
        for table in self.kept.since():
            self._chunks.add(self._pieces(table, _WAITING))

    def _pieces(self, table: pa.Table, place: int) -> Iterator[Piece]:
        return self._columns.pieces(table, place)

    def _append(self, table: pa.Table) -> None:
        pieces = list(self._pieces(table, _LOG))
        self._chunks.add(pieces)
        for group, _, _ in pieces:
            newest = _alike(self._chunks.sizes(group, _LOG))
            if newest >= _TOGETHER:
                chunks = self._chunks.read_newest(group, _LOG, newest)
                merged = self.kept.compacted(pa.concat_tables(self._tables(chunks)))
                pieces_of_it = [self._columns.piece(group, _LOG, merged)] if merged.num_rows else []
                self._chunks.replace(group, _LOG, newest, pieces_of_it)

    def views_of(self, key: Hashable) -> list[WindowsView]:
        """Return views of all that is kept, for a query of `key`."""
        return self.kept.at_snapshot()

    def close(self) -> None:
        self._chunks.close()


def _alike(sizes: Sequence[int]) -> int:
    """Return how many of the newest chunks are each at most twice as large as all newer ones together."""
    newest, total = 1, sizes[-1]
    for size in reversed(sizes[:-1]):
        if size > 2 * total:
            break
        newest, total = newest + 1, total + size
    return newest


def logged_tables(
    states: Sequence[NamedStates],
    name: str,
    target: Target,
    groups: tuple[int, int],
    columns: ChunkColumns,
) -> Iterator[pa.Table]:
    """Yield what the log of state `name` in RocksDB files says of `groups` (first, last), oldest first."""
    for at, batch in native_chunks(states, name, target, groups, columns.max_parallelism):
        assert placed_in(batch.schema)  # as chunks of this state are written
        yield columns.table(at, batch)


@dataclass(slots=True)
class PendingLog:
    """A snapshot to be stored in the background: RocksDB's files, or for a savepoint what was in memory."""

    native: PendingNativeSnapshot
    memory: PendingWindows | None
    keep: EntryFilter | None = field(default=None)

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        try:
            return self.native.store(uid, files)
        finally:
            self.release()

    def store_with(self, new_writer: NewWriter) -> KeyedStateHandle:
        assert self.memory is not None  # only savepoints are written so
        try:
            return self.memory.store_with(new_writer)
        finally:
            self.release()

    def release(self) -> None:
        self.native.release()
        if self.memory is not None:
            self.memory.release()
