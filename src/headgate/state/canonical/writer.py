"""Writes the canonical tables of one subtask: a Parquet file for each state, and one for all timers."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import Buffer

from headgate.common.errors import UsageError
from headgate.common.files.durable import crc32
from headgate.common.plain_data import Description
from headgate.serde.arrow.stored_values import open_batch
from headgate.state.backend import Entries, NewSection
from headgate.state.canonical import table_layout
from headgate.state.canonical.key_columns import key_description
from headgate.state.canonical.table_layout import BYTES, TIMER_SECTIONS, TIMERS, TableInfo, new_table_info
from headgate.state.canonical.value_columns import TableRows
from headgate.state.snapshots import Inline, KeyedStateHandle, StateTable
from headgate.state.stored.blob import SpooledBlob, StoredBlob
from headgate.state.stored.blob_format import Section
from headgate.state.stored.contract import TIMER_CODEC
from headgate.state.stored.local_files import Spool

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

ROWS: Final = 65_536
"""Rows after which a row group ends at the next boundary of a key group."""
BYTES_OF_GROUP: Final = 16 << 20
"""Bytes of columns after which a row group ends at the next boundary of a key group."""
_TIMES_OVER: Final = 4
"""How many times over those limits a row group may grow before it ends within a key group."""


class WrittenTable(NamedTuple):
    """A complete table: its description, and the length in bytes and the CRC-32 of its Parquet file."""

    info: TableInfo
    length: int
    crc32: int


class TablesWriter:
    """The `StateWriter` of the canonical format for one subtask. A section without entries gets no file.

    Each table waits in `folder` on the local disk until it is complete. Then `store` takes the name of the
    state, or `table_layout.TIMERS`, and the bytes, makes them durable and returns the name of the file. Of
    each state one batch of entries is in memory at a time, and one row group, of about `rows` rows.
    """

    def __init__(
        self,
        groups: tuple[int, int],
        max_parallelism: int,
        store: Callable[[str, Spool], str],
        folder: Path,
        rows: int = ROWS,
    ) -> None:
        self._groups, self._max_parallelism = groups, max_parallelism
        self._store, self._folder, self._rows = store, folder, rows
        self._tables: list[StateTable] = []
        self._timers: SpooledBlob | None = None

    def add(self, section: NewSection, entries: Iterable[Entries]) -> None:
        # UsageError: a value misfits; timers wait for `finish`
        if section.name not in TIMER_SECTIONS:
            self._write(section.name, section.schema, _as_in_tables(section, entries))
            return
        if self._timers is None:
            self._timers = SpooledBlob(self._groups, self._max_parallelism, self._folder)
        self._timers.add(section, entries)

    def finish(self) -> KeyedStateHandle:
        if self._timers is not None:
            self._write_timers(StoredBlob(self._timers.parts()))
        self.abandon()
        size = sum(table.length for table in self._tables)
        return KeyedStateHandle(*self._groups, Inline(b""), size, tables=self._tables)

    def abandon(self) -> None:
        # stored tables stay, for the owner of `store` to remove
        if self._timers is not None:
            self._timers.abandon()

    def _write_timers(self, blob: StoredBlob) -> None:
        groups = range(self._groups[0], self._groups[1] + 1)

        def timers(section: Section) -> Iterator[Entries]:
            domain = TIMER_SECTIONS[section.name]
            for group, keys, timestamps, size in blob.entries(section, TIMER_CODEC, groups):
                yield Entries(group, keys, [(domain, timestamp) for timestamp in timestamps], size)

        # In a key group those of event time come first.
        sections = sorted(blob.header.sections, key=lambda section: list(TIMER_SECTIONS).index(section.name))
        together = merge(*map(timers, sections), key=itemgetter(0))
        self._write(TIMERS, sections[0].schema, together)

    def _write(self, name: str, schema: Description, entries: Iterator[Entries]) -> None:
        first = next(entries, None)
        if first is None:
            return
        key = key_description(first.keys[0])
        spool = Spool(self._folder)
        table = TableWriter(
            new_table_info(name, schema, key, self._max_parallelism, self._groups), spool, self._rows
        )
        try:
            for each in chain((first,), entries):
                try:
                    table.add(each)
                except UsageError as error:
                    raise UsageError(f"state {name!r} cannot be written as a table: {error}") from None
            written = table.finish()
            self._tables.append(StateTable(name, self._store(name, spool), written.length, written.crc32))
        finally:
            table.close()
            spool.close()


def _as_in_tables(section: NewSection, entries: Iterable[Entries]) -> Iterator[Entries]:
    # plain values, or the bytes of each if its serializer is the program's own
    cells = table_layout.row_of(section.schema) == BYTES
    stored = None if cells else table_layout.stored_type(section.schema)
    for group, keys, values, _ in entries:
        if not keys:
            continue
        if stored is None:
            parts = [section.encode([value]) for value in values]
            yield Entries(group, keys, parts, sum(map(len, parts)))
        else:
            batch = section.encode(values)
            yield Entries(group, keys, open_batch(stored, batch, len(values)), len(batch))


class TableWriter:
    """Writes one state's table as a Parquet file to `stream`, in row groups of about `rows` rows or 16 MiB.
    Any number of `add` or `add_rows`, then `finish`; `close` in any case, which closes no `stream`.
    """

    def __init__(self, info: TableInfo, stream: SupportsWrite[memoryview], rows: int = ROWS) -> None:
        self._info, self._rows, self._limit = info, TableRows(info), rows
        self.schema = self._rows.schema
        self._sink = _Counted(stream)
        self._file = pq.ParquetWriter(self._sink, self.schema, compression="zstd", write_page_checksum=True)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = self._total = 0
        self._last_group: int | None = None

    def add(self, part: Entries) -> None:
        # key groups have to come in ascending order
        # Large values are taken fewer at a time, as far as their mean is known.
        fewer = 1 + part.size // BYTES_OF_GROUP
        rows = max(1, min(self._limit, self._rows.count(part.values) // fewer))
        for piece in self._rows.pieces(part.values, rows):
            self._take(self._rows.batch(part.group, part.keys[piece], part.values[piece]))
            self._flush_over(_TIMES_OVER)
        self._flush_over(1)

    def add_rows(self, batch: pa.RecordBatch) -> None:
        """Write table rows; the caller adds key groups in ascending order, all rows of a key in one batch."""
        groups = batch.column(0).to_numpy()
        borders = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        for start, stop in pairwise(borders):
            group = groups[start] if start < stop else self._last_group
            if group != self._last_group:
                self._flush_over(1)
            self._last_group = group
            self._take(batch.slice(start, stop - start))
            self._flush_over(_TIMES_OVER)

    def _take(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_rows += len(batch)
        self._waiting_bytes += batch.nbytes

    def _flush_over(self, times: int) -> None:
        if self._waiting_rows >= self._limit * times or self._waiting_bytes >= BYTES_OF_GROUP * times:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._file.write_table(table, row_group_size=max(1, len(table)))
            self._total += len(table)
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def finish(self) -> WrittenTable:
        self._flush()
        info = msgspec.structs.replace(self._info, rows=self._total)
        self._file.add_key_value_metadata({table_layout.METADATA_KEY: info.text()})
        self._file.close()
        self._sink.drop()
        return WrittenTable(info, self._sink.length, self._sink.crc32)

    def close(self) -> None:
        self._sink.drop()
        if self._file.is_open:
            self._file.close()


class _Counted(io.RawIOBase):
    """A file object that passes bytes on until :meth:`drop`, and keeps the number and checksum of all."""

    def __init__(self, stream: SupportsWrite[memoryview]) -> None:
        self._stream: SupportsWrite[memoryview] | None = stream
        self.length = self.crc32 = 0

    def writable(self) -> bool:
        return True

    def drop(self) -> None:
        self._stream = None

    def write(self, data: Buffer) -> int:
        part = memoryview(data)
        if self._stream is not None:
            self._stream.write(part)
        self.crc32 = crc32(part, self.crc32)
        self.length += part.nbytes
        return part.nbytes

    def tell(self) -> int:
        return self.length
