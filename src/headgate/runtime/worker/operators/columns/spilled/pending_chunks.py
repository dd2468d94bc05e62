"""A snapshot of windows in RocksDB: chunks on the local disk and tables in memory, stored later on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns
from headgate.runtime.worker.operators.columns.spilled.spill import Merge
from headgate.runtime.worker.operators.columns.window_state import COLUMNS_FROM, WINDOWS
from headgate.serde.codecs.type_codec import FormSerializer
from headgate.state.backend import Entries, EntryFilter, NewSection, NewWriter, StateFiles, StateWriter
from headgate.state.rocksdb.chunk_layout import chunks_in
from headgate.state.rocksdb.database import Access, Database
from headgate.state.rocksdb.native_files import PendingNativeSnapshot
from headgate.state.rocksdb.snapshot import PendingRocksSnapshot, SnapshotPoint
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.blob import BlobWriter, SpooledBlob
from headgate.state.stored.blob_format import ColumnLayout
from headgate.state.stored.column_chunks import ColumnChunk, converts_of, layout_of, maps_of, python_columns
from headgate.state.stored.contract import written
from headgate.state.targets import Target


@dataclass(slots=True)
class PendingChunks:
    """The windows of a subtask as they were at the snapshot point, to be stored in the background.

    `memory`: tables with the column `PANE`, which RocksDB lacks. `rows`: how many rows there are, about.
    `native`: stores RocksDB's own files, which hold all rows then; None: a checkpoint is a blob.
    """

    point: SnapshotPoint
    memory: Sequence[pa.Table]
    rows: int
    columns: ChunkColumns
    merge: Merge | None
    target: Target
    native: PendingNativeSnapshot | None
    keep: EntryFilter | None = field(default=None)

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        if self.native is not None:
            return self.native.store(uid, files)
        folder, write = self.point.directory.parent, partial(files.write, uid)
        return self.store_with(lambda groups, number: SpooledBlob(groups, number, folder, write))

    def store_with(self, new_writer: NewWriter) -> KeyedStateHandle:
        try:
            return written(new_writer(self.point.groups, self.point.max_parallelism), self._write)
        finally:
            self.release()

    def release(self) -> None:
        self.memory = ()
        PendingRocksSnapshot(self.point).release()

    def _write(self, writer: StateWriter) -> None:
        serializer = self.target.serializer
        assert isinstance(serializer, FormSerializer)  # of a map of records, as the API declares it
        section = NewSection(WINDOWS, self.target.schema, serializer.encode_plain)
        layout = layout_of(self.columns.schema, len(self.columns.keys), numbered=self.merge is None)
        database = Database(self.point.directory, (), self.point.memory, Access.READ_ONLY)
        try:
            tables = self._by_group(database)
            if isinstance(writer, BlobWriter) and self.rows >= COLUMNS_FROM:
                writer.add_columns(section, layout, map(self._chunk, tables))
            else:
                writer.add(section, _entries(tables, layout))
        finally:
            database.close()

    def _by_group(self, database: Database) -> Iterator[tuple[int, pa.Table]]:
        memory = [self.columns.in_order(table) for table in self.memory]
        rest = self.columns.by_group(pa.concat_tables(memory)) if memory else {}
        store = database.stores[WINDOWS]
        for group in range(self.point.groups[0], self.point.groups[1] + 1):
            stored = (self.columns.table(*found) for found in chunks_in(store, (group, group)))
            tables = list(chain(stored, [rest[group]] if group in rest else []))
            if tables:
                whole = pa.concat_tables(tables)
                merged = whole if self.merge is None else self.merge(whole)
                yield group, self.columns.in_order(merged).cast(self.columns.schema).combine_chunks()

    def _chunk(self, found: tuple[int, pa.Table]) -> ColumnChunk:
        group, table = found
        keys = len(table.group_by(list(self.columns.keys), use_threads=False).aggregate([]))
        (columns,) = table.to_batches()
        return ColumnChunk(group, keys, columns)


def _entries(tables: Iterator[tuple[int, pa.Table]], layout: ColumnLayout) -> Iterator[Entries]:
    for group, table in tables:
        maps: Any = maps_of(python_columns(table), layout, converts_of(table.schema, layout))
        yield Entries(group, *maps)
