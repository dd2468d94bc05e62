"""Writing the tables of one subtask from its stored blob, key group by key group."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from heapq import merge
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.common.errors import UsageError
from headgate.common.files.durable import crc32
from headgate.common.plain_data import Description, text_in
from headgate.serde.arrow.stored_values import open_batch
from headgate.serde.compatibility import AsIs, compare
from headgate.serde.serializer import Buffer, TypeSerializer
from headgate.state.backend import BlobReader, Entries
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
from headgate.state.stored.blob_format import Header, Section
from headgate.state.stored.blob import StoredBlob
from headgate.state.stored.contract import OpenSection, SectionCodec
from headgate.state.stored.values import OpaqueValues
from headgate.state.targets import Target

V = TypeVar("V")

ROWS: Final = 65_536
"""Rows after which a row group ends at the next border of a key group."""
BYTES_OF_GROUP: Final = 16 << 20
"""Bytes of columns after which it ends there."""
_OVER: Final = 4
"""How many times as many there may be before a row group ends within a key group."""


class Stream(Protocol):
    """Where a file goes: bytes in order."""

    def write(self, data: bytes | memoryview, /) -> int | None:
        """Take the next bytes."""
        ...


class WrittenTable(NamedTuple):
    """One file."""

    info: TableInfo
    length: int
    crc32: int


def write_tables(
    blob: BlobReader,
    create: Callable[[str], Stream],
    targets: Mapping[str, Target] | None = None,
    *,
    rows: int = ROWS,
) -> list[WrittenTable]:
    """Write a blob of keyed state as one Parquet file for each state, and one for all timers.

    What holds nothing gets no file. Of each state one key group is in memory at a time, and one row group.

    `create`: name of a state, or `layout.TIMERS`, to where its file goes; not closed.
    `targets`: what the program declares; needed for states of a serializer of the user's own, whose
    bytes nothing else can take apart.
    """
    stored = StoredBlob(blob)
    found = {section.state: section for section in stored.sections(_Cells(targets or {}), None)}
    written, groups = list[WrittenTable](), range(stored.header.max_parallelism)
    for section in stored.header.sections:
        if section.name in found and section.name not in TIMER_SECTIONS:
            entries = found[section.name].entries(groups)
            written.append(_write(section, stored.header, entries, create, rows))
    timers = [s for s in stored.header.sections if s.name in TIMER_SECTIONS and s.chunks]
    if timers:
        together = Section(TIMERS, timers[0].schema, [])
        written.append(_write(together, stored.header, _timers(found, groups), create, rows))
    return written


def _write(
    section: Section, header: Header, entries: Iterator[Entries], create: Callable[[str], Stream], rows: int
) -> WrittenTable:
    first = next(entries)
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
        for each in chain((first,), entries):
            table.add(each)
        return table.finish()
    except UsageError as error:
        raise UsageError(f"state {section.name!r} cannot be written as a table: {error}") from None
    finally:
        table.close()


class TableWriter:
    """One file in the making.

    Args:
        info: what it is to say of itself; its number of rows is counted here.
    """

    def __init__(self, info: TableInfo, stream: Stream, rows: int = ROWS) -> None:
        self._info, self._rows, self._limit = info, TableRows(info), rows
        self.schema = self._rows.schema
        self._sink = _Counted(stream)
        self._file = pq.ParquetWriter(self._sink, self.schema, compression="zstd", write_page_checksum=True)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = self._total = 0
        self._last_group: int | None = None

    def add(self, part: Entries) -> None:
        """Take a key group, or some of its timers."""
        # Large values are taken fewer at a time, as far as their mean tells.
        fewer = 1 + part.size // BYTES_OF_GROUP
        rows = max(1, min(self._limit, self._rows.count(part.values) // fewer))
        for piece in self._rows.pieces(part.values, rows):
            self._take(self._rows.batch(part.group, part.keys[piece], part.values[piece]))
            self._cut(_OVER)
        self._cut(1)

    def add_rows(self, batch: pa.RecordBatch) -> None:
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

    def _take(self, batch: pa.RecordBatch) -> None:
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


class _Cells:
    """Values as a table has them: plain ones, or of a serializer of the program's own the bytes of each."""

    advice, converts = "", False

    def __init__(self, targets: Mapping[str, Target]) -> None:
        self._targets = targets

    def codec(self, section: Section) -> SectionCodec | None:
        """See :class:`state.stored.contract.ValueCodec`."""
        if not section.chunks:
            return None
        target = self._targets.get(section.name)
        if row_of(section.schema) != BYTES:
            stored = stored_type(section.schema)
            return SectionCodec(partial(open_batch, stored), Target(section.schema, OpaqueValues()))
        if target is None or not isinstance(compare(section.schema, target.schema), AsIs):
            raise UsageError(
                f"state {section.name!r} was written by a serializer of the program's own; its table can "
                "only be written by that program, before the serializer changes"
            )
        return SectionCodec(partial(_cells, target.serializer), target)

    def targets(self, stored: Mapping[str, Description]) -> Mapping[str, Target]:
        """See :class:`state.stored.contract.ValueCodec`."""
        return self._targets


def _cells(serializer: TypeSerializer[V], data: Buffer, count: int) -> list[bytes]:
    return [serializer.encode_many([value]) for value in serializer.decode_many(data, count)]


def _timers(found: Mapping[str, OpenSection], groups: range) -> Iterator[Entries]:
    """Timers by key group, those of event time first."""
    mine = [(found[name], domain) for name, domain in TIMER_SECTIONS.items() if name in found]
    kinds = [_of_domain(section, domain, groups) for section, domain in mine]
    return merge(*kinds, key=itemgetter(0))


def _of_domain(section: OpenSection, domain: str, groups: range) -> Iterator[Entries]:
    for group, keys, timestamps, size in section.entries(groups):
        yield Entries(group, keys, [(domain, timestamp) for timestamp in timestamps], size)
