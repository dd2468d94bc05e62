"""Snapshots, restores and queries of a subtask's windows, of which a part lies in chunks on disk."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from headgate.common.errors import StorageError
from headgate.common.keys.keygroups import key_group
from headgate.runtime.worker.operators.columns.kept_rows import RowsView
from headgate.runtime.worker.operators.columns.kept_windows import PANE, KeptWindows, WindowsView
from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns
from headgate.runtime.worker.operators.columns.spilled.pending_chunks import PendingChunks
from headgate.runtime.worker.operators.columns.spilled.spill import Merge, Spill
from headgate.runtime.worker.operators.columns.window_state import WINDOWS, PendingWindows
from headgate.state.backend import PendingSnapshot
from headgate.state.rocksdb.chunk_bytes import placed_in
from headgate.state.rocksdb.native_chunks import native_chunks
from headgate.state.rocksdb.native_files import PendingNativeSnapshot
from headgate.state.rocksdb.snapshot import FailedSnapshot
from headgate.state.stored.native_restore import NamedStates
from headgate.state.targets import Target


class SpillingWindows(KeptWindows, Protocol):
    """Kept windows with a memory budget: what exceeds it is written to chunks on disk."""

    def store_all(self) -> None:
        """Write all that is in memory to chunks on disk, before an incremental snapshot."""

    def stored(self) -> None:
        """Drop copies that :meth:`store_all` wrote for a snapshot, if any; it was taken, or failed."""

    def restored(self) -> None:
        """Note that the chunks of a snapshot were restored; called before any row is added."""


class WindowsOnDisk:
    """Windows, `kept`, and the chunks that they share with snapshots.

    `merge` merges rows of equal keys and panes; None: they stay several. `pending` gives a snapshot of what
    is in memory alone.
    """

    def __init__(
        self,
        kept: SpillingWindows,
        spill: Spill,
        merge: Merge | None,
        pending: Callable[[], PendingWindows],
    ) -> None:
        self.kept, self._spill, self._merge, self._pending = kept, spill, merge, pending
        self._chunks = spill.chunks

    def measured(self) -> dict[str, int]:
        """Return the metrics of the chunks' database by name of the series; none before it is made."""
        return self._chunks.measured()

    def restore(self, states: Sequence[NamedStates]) -> None:
        """Take over the RocksDB files that earlier subtasks stored; call it before any row is added."""
        self._chunks.restore(states)
        self.kept.restored()

    def snapshot(self, checkpoint: int, completed: int | None) -> PendingSnapshot:
        """Take a snapshot; if it is incremental, all that is in memory is written to chunks before.
        `completed`: newest complete checkpoint, to whose files it may refer; 0: to none; None: a savepoint. A
        StorageError here is raised when the snapshot is stored, so that only the checkpoint fails.
        """
        if self._chunks.incremental:
            self.kept.store_all()
        try:
            point = self._chunks.snapshot()
        except StorageError as error:
            return FailedSnapshot(error)
        finally:
            self.kept.stored()
        if point is None:
            return self._pending()
        native, memory = None, list[pa.Table]()
        if self._chunks.incremental:
            uploads = self._chunks.no_uploads() if completed is None else self._chunks.uploads
            native = PendingNativeSnapshot(
                point, checkpoint=checkpoint, completed=completed or 0, uploads=uploads
            )
        else:
            memory = [table for view in self.kept.at_snapshot() for table in view.tables()]
        rows = self._chunks.rows + sum(map(len, memory))
        columns, target = self._spill.columns, self._chunks.target
        return PendingChunks(point, memory, rows, columns, self._merge, target, native)

    def views_of(self, key: Hashable) -> list[WindowsView]:
        """Return a view of the merged rows of the key group of `key`, for a query; [] if it has none."""
        columns = self._spill.columns
        group = key_group(key, columns.max_parallelism)
        memory = [table for view in self.kept.at_snapshot() for table in view.tables() if len(table)]
        mine = [columns.by_group(columns.in_order(table)).get(group) for table in memory]
        tables = self._spill.tables(group, self._chunks.places())
        tables += [table for table in mine if table is not None]
        if not tables:
            return []
        whole = pa.concat_tables(tables)
        return [RowsView([whole if self._merge is None else columns.in_order(self._merge(whole))])]

    def close(self) -> None:
        self._chunks.close()


def restored_tables(
    states: Sequence[NamedStates],
    target: Target,
    groups: tuple[int, int],
    max_parallelism: int,
    keys: pa.Schema,
    values: pa.Schema,
) -> Iterator[tuple[int, pa.Table]]:
    """Yield (key group, table with `PANE`) of the `groups` (first, last) in RocksDB files of `states`."""
    for at, batch in native_chunks(states, WINDOWS, target, groups, max_parallelism):
        placed = placed_in(batch.schema)
        columns = ChunkColumns(keys, values, max_parallelism, placed=placed, numbered=False)
        yield at.group, columns.table(at, batch).select([PANE, *keys.names, *values.names])
