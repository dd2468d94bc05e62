"""Writing the tables of one subtask from its stored blob, key group by key group."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.common.errors import StorageError, UsageError
from headgate.common.files.durable import crc32
from headgate.common.plain_data import mappings_in, text_in
from headgate.serde.arrow.stored_values import open_batch
from headgate.serde.compatibility import AsIs, compare
from headgate.state.backend import BlobReader
from headgate.state.canonical.key_columns import key_description
from headgate.state.canonical.table_layout import (
    BYTES,
    METADATA_KEY,
    TIMER_SECTIONS,
    TIMERS,
    VERSION,
    TableInfo,
    row_of,
    stored_type,
)
from headgate.state.canonical.table_rows import TableRows
from headgate.state.heap.heap_blob import Chunk, Header, Section, read_chunks, read_header, split_chunk
from headgate.state.heap.snapshot import KEY_SERIALIZER
from headgate.state.targets import Target

ROWS: Final = 65_536
"""Rows after which a row group ends at the next border of a key group."""
BYTES_OF_GROUP: Final = 16 << 20
"""Bytes of columns after which it ends there."""
_OVER: Final = 4
"""How many times as many there may be before a row group ends within a key group."""


class Stream(Protocol):
    """Where a file goes: bytes in order."""

    def write(self, data: Any, /) -> Any:
        """Take the next bytes."""
        ...


class WrittenTable(NamedTuple):
    """One file.

    Attributes:
        info: what it says of itself.
        length: its bytes.
        crc32: their checksum, for whoever keeps them.
    """

    info: TableInfo
    length: int
    crc32: int


class Part(NamedTuple):
    """The entries of one key group, or of some of its timers.

    Attributes:
        group: the key group.
        length: bytes that they take in the blob.
        keys: one for each.
        values: plain values, cells, or time domains and timestamps.
    """

    group: int
    length: int
    keys: list[Any]
    values: list[Any]


def write_tables(
    blob: BlobReader,
    create: Callable[[str], Stream],
    targets: Mapping[str, Target] | None = None,
    *,
    rows: int = ROWS,
) -> list[WrittenTable]:
    """Write a blob of keyed state as one Parquet file for each state, and one for all timers.

    What holds nothing gets no file. Of each state one key group is in memory at a time, and one row group.

    Args:
        blob: of any backend.
        create: name of a state, or `layout.TIMERS`, to where its file goes; not closed.
        targets: what the program declares; needed for states of a serializer of the user's own, whose
            bytes nothing else can take apart.
        rows: after how many a row group ends.

    Raises:
        StorageError: the blob is damaged.
        UsageError: a state needs the program's serializer, or a value is too large for a cell.
    """
    header, body = read_header(blob)
    states = [section for section in header.sections if section.name not in TIMER_SECTIONS]
    written = []
    for section in states:
        if section.chunks:
            target = (targets or {}).get(section.name)
            written.append(_write(section, header, _state_parts(blob, body, section, target), create, rows))
    timers = [section for section in header.sections if section.name in TIMER_SECTIONS and section.chunks]
    if timers:
        together = Section(
            TIMERS, timers[0].schema, [chunk for section in timers for chunk in section.chunks]
        )
        written.append(_write(together, header, _timer_parts(blob, body, timers), create, rows))
    return written


def _write(
    section: Section, header: Header, parts: Iterator[Part], create: Callable[[str], Stream], rows: int
) -> WrittenTable:
    first = next(parts)
    info = TableInfo(
        format=VERSION,
        name=section.name,
        kind=text_in(section.schema, "kind"),
        rows_are=row_of(section.schema),
        schema=section.schema,
        key_schema=header.key_schema,
        key=key_description(first.keys[0]),
        max_parallelism=header.max_parallelism,
        first_group=header.first_group,
        last_group=header.last_group,
    )
    table = TableWriter(info, create(section.name), rows)
    try:
        table.add(first)
        for part in parts:
            table.add(part)
        return table.finish()
    except UsageError as error:
        raise UsageError(f"state {section.name!r} cannot be written as a table: {error}") from None
    finally:
        table.close()


class TableWriter:
    """One file in the making.

    Args:
        info: what it is to say of itself; its number of rows is counted here.
        stream: where it goes.
        rows: after how many a row group ends.

    Attributes:
        schema: the columns.
    """

    def __init__(self, info: TableInfo, stream: Stream, rows: int = ROWS) -> None:
        self._info, self._rows, self._limit = info, TableRows(info), rows
        self.schema = self._rows.schema
        self._sink = _Counted(stream)
        self._file = pq.ParquetWriter(self._sink, self.schema, compression="zstd", write_page_checksum=True)
        self._waiting: list[Any] = []
        self._waiting_rows = self._waiting_bytes = self._total = 0
        self._last_group: int | None = None

    def add(self, part: Part) -> None:
        """Take a key group, or some of its timers."""
        # Large values are taken fewer at a time, as far as their mean tells.
        fewer = 1 + part.length // BYTES_OF_GROUP
        rows = max(1, min(self._limit, self._rows.count(part.values) // fewer))
        for piece in self._rows.pieces(part.values, rows):
            self._take(self._rows.batch(part.group, part.keys[piece], part.values[piece]))
            self._cut(_OVER)
        self._cut(1)

    def add_rows(self, batch: Any) -> None:
        """Take rows that are columns already, in the order of key groups; those of a key are in one batch."""
        groups = batch.column(0).to_numpy()
        borders = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        for start, stop in pairwise(borders):
            group = groups[start] if start < stop else self._last_group
            if group != self._last_group:
                self._cut(1)
            self._last_group = group
            self._take(batch.slice(start, stop - start))
            self._cut(_OVER)

    def _take(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._waiting_rows += len(batch)
        self._waiting_bytes += batch.nbytes

    def _cut(self, times: int) -> None:
        if self._waiting_rows >= self._limit * times or self._waiting_bytes >= BYTES_OF_GROUP * times:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._file.write_table(table, row_group_size=max(1, len(table)))
            self._total += len(table)
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def finish(self) -> WrittenTable:
        """Write what waits, and the end of the file."""
        self._flush()
        info = msgspec.structs.replace(self._info, rows=self._total)
        self._file.add_key_value_metadata({METADATA_KEY: info.text()})
        self._file.close()
        self._sink.drop()
        return WrittenTable(info, self._sink.length, self._sink.crc32)

    def close(self) -> None:
        """Let go of a file that is not to be finished; of a finished one, nothing is left to do."""
        self._sink.drop()
        if self._file.is_open:
            self._file.close()


class _Counted(io.RawIOBase):
    """Passes bytes on, and keeps their number and checksum."""

    def __init__(self, stream: Stream) -> None:
        self._stream: Stream | None = stream
        self.length = self.crc32 = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def drop(self) -> None:
        """Pass nothing on any more."""
        self._stream = None

    def write(self, data: Any) -> int:
        """Pass bytes on."""
        if self._stream is not None:
            self._stream.write(data)
        self.crc32 = crc32(data, self.crc32)
        self.length += len(data)
        return len(data)

    def tell(self) -> int:
        """How many there were."""
        return self.length


# -- out of the blob


def _state_parts(blob: BlobReader, body: int, section: Section, target: Target | None) -> Iterator[Part]:
    stored = stored_type(section.schema)
    target = _needed(section, target) if row_of(section.schema) == BYTES else None
    for chunk in section.chunks:
        keys, values = _batches(blob, body, section, chunk)
        if target is None:
            yield Part(chunk.group, chunk.length, keys, open_batch(stored, values, chunk.count))
        else:
            decoded = target.serializer.decode_many(values, chunk.count)
            cells = [target.serializer.encode_many([value]) for value in decoded]
            yield Part(chunk.group, chunk.length, keys, cells)


def _needed(section: Section, target: Target | None) -> Target:
    if target is None or not isinstance(compare(section.schema, target.schema), AsIs):
        raise UsageError(
            f"state {section.name!r} was written by a serializer of the program's own; its table can only be "
            "written by that program, before the serializer changes"
        )
    return target


def _timer_parts(blob: BlobReader, body: int, sections: list[Section]) -> Iterator[Part]:
    """Timers by key group, those of event time first."""
    in_order = sorted(sections, key=lambda section: list(TIMER_SECTIONS).index(section.name))
    chunks = [
        [(chunk.group, place, chunk) for chunk in section.chunks] for place, section in enumerate(in_order)
    ]
    for group, place, chunk in merge(*chunks, key=itemgetter(0, 1)):
        section = in_order[place]
        keys, values = _batches(blob, body, section, chunk)
        domain = TIMER_SECTIONS[section.name]
        timestamps = open_batch(mappings_in(section.schema, "of")[0], values, chunk.count)
        yield Part(group, chunk.length, keys, [(domain, timestamp) for timestamp in timestamps])


def _batches(blob: BlobReader, body: int, section: Section, chunk: Chunk) -> tuple[list[Any], memoryview]:
    """The keys and the encoded values of one chunk."""
    (part,) = read_chunks(blob, body, section, [chunk])
    keys, values = split_chunk(part)
    try:
        return KEY_SERIALIZER.decode_many(keys, chunk.count), values
    except StorageError as error:
        raise StorageError(f"section {section.name!r}, key group {chunk.group}: {error}") from None
