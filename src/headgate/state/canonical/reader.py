"""Reading tables back: the key groups of one subtask out of the tables of any number of earlier ones.

Rows become chunks of a stored blob again, some row groups at a time, and these are restored as every blob is.
So state that changed its types is judged and converted by the one set of rules.
"""

from __future__ import annotations

import io
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.common.errors import StorageError, UsageError
from headgate.common.files.durable import crc32
from headgate.common.keys.keygroups import key_groups_of_keys, shortened
from headgate.serde.arrow.stored_values import close_batch
from headgate.serde.evolution.undecodable import stored_description
from headgate.state.backend import BlobReader
from headgate.state.canonical.table_layout import (
    BYTES,
    TIMER,
    TIMER_SECTIONS,
    TableInfo,
    stored_type,
    table_info,
)
from headgate.state.canonical.table_rows import TableRows
from headgate.state.heap.heap_blob import BytesBlob, Chunk, Header, Section, chunk_bytes, preamble_and_header
from headgate.state.heap.restore import restored_sections
from headgate.state.heap.snapshot import KEY_SERIALIZER
from headgate.state.targets import Target

_PIECE: Final = 1 << 20
"""Bytes that are verified at a time."""
_NO_GROUP: Final = -1

Restored = tuple[str, list[Any], list[Any]]


class StoredTable(NamedTuple):
    """One file of a table, and what is known of it besides.

    Attributes:
        file: its bytes.
        length: how many they are.
        crc32: their checksum.
        verified: whether whoever gives the bytes has compared them with both.
        where: what errors call it.
    """

    file: BlobReader
    length: int
    crc32: int
    verified: bool = False
    where: str = "a savepoint"


class SubtaskTables(NamedTuple):
    """The tables of one earlier subtask.

    Attributes:
        groups: its first and last key group (inclusive).
        tables: those that hold something.
    """

    groups: tuple[int, int]
    tables: Sequence[StoredTable]


def restored_tables(
    subtasks: Sequence[SubtaskTables],
    targets: Mapping[str, Target],
    groups: tuple[int, int],
    max_parallelism: int,
) -> Iterator[Restored]:
    """Section name, keys and values of the key groups in `groups`, as from stored blobs.

    Every file is verified, and every table compared with the program, before anything is yielded. Of a
    table one row group is in memory at a time, and only those are read that have a wanted key group.

    Args:
        subtasks: the earlier subtasks; those of other key groups do no harm.
        targets: section name -> what the program declares under it.
        groups: first and last key group (inclusive) that are wanted.
        max_parallelism: number of key groups of the operator.

    Raises:
        StorageError: a file is damaged, or no table of a state.
        UsageError: a state's type changed, a stored state is no longer declared, or the number of
            key groups differs.
        InternalError: a key group is in two subtasks or in none.
    """
    opened = [
        [OpenTable(table) for table in one.tables]
        if one.groups[0] <= groups[1] and one.groups[1] >= groups[0]
        else []
        for one in subtasks
    ]
    for one, tables in zip(subtasks, opened, strict=True):
        check_tables(one, tables)
    probes = [
        _probe(one, [table.info for table in tables], max_parallelism)
        for one, tables in zip(subtasks, opened, strict=True)
    ]
    # Yields nothing: what the probes have is of no key group.
    yield from restored_sections(probes, targets, groups, max_parallelism)
    for table in [table for tables in opened for table in tables]:
        for first, last, blob in table.blobs(groups):
            yield from restored_sections([blob], targets, (first, last), max_parallelism)


def verify(table: StoredTable) -> None:
    """Compare length and checksum of a file, without having all of it in memory.

    Raises:
        StorageError: they differ.
    """
    checksum = offset = 0
    if table.file.size == table.length:
        while offset < table.length:
            piece = table.file.read(offset, min(_PIECE, table.length - offset))
            if not piece:
                break
            checksum, offset = crc32(piece, checksum), offset + len(piece)
    if offset != table.length or checksum != table.crc32:
        raise StorageError(
            f"a table of state is damaged: its bytes 0 to {table.file.size} do not match the stored length "
            f"{table.length} and checksum; restore the file from a copy or use an older savepoint"
        )


class OpenTable:
    """One verified file.

    Attributes:
        info: what it says of itself.

    Raises:
        StorageError: it is damaged, or no table of a state.
    """

    def __init__(self, stored: StoredTable) -> None:
        if not stored.verified:
            verify(stored)
        try:
            self._file = pq.ParquetFile(BlobFile(stored.file), page_checksum_verification=True)
        except (pa.ArrowException, OSError, ValueError) as error:  # a name in it may be no UTF-8
            raise StorageError(
                f"a table of state is no Parquet file in its bytes 0 to {stored.length} ({error})"
            ) from None
        self.info = table_info(self._file.metadata.metadata)
        with stored_description():
            self._rows = TableRows(self.info)
        self._check()

    def _check(self) -> None:
        """Columns, number of rows, and the order of the row groups."""
        schema = self._file.schema_arrow
        if schema.names != self._rows.schema.names or schema.types != self._rows.schema.types:
            raise StorageError(
                f"the table of state {self.info.name!r} has the columns {_shown(schema)}; expected "
                f"{_shown(self._rows.schema)}"
            )
        if self._file.metadata.num_rows != self.info.rows:
            raise StorageError(
                f"the table of state {self.info.name!r} has {self._file.metadata.num_rows} rows; its "
                f"metadata says {self.info.rows}"
            )
        self._borders = [self._border(number) for number in range(self._file.metadata.num_row_groups)]
        borders = [self.info.first_group, *chain.from_iterable(self._borders), self.info.last_group]
        if borders != sorted(borders):
            raise self._disordered()

    def _border(self, number: int) -> tuple[int, int]:
        """First and last key group of a row group."""
        statistics = self._file.metadata.row_group(number).column(0).statistics
        if statistics is None or not statistics.has_min_max:
            raise StorageError(
                f"the table of state {self.info.name!r} does not tell which key groups are in row group "
                f"{number}; restore from the files of a savepoint as they were written"
            )
        return statistics.min, statistics.max

    def _disordered(self) -> StorageError:
        return StorageError(f"the table of state {self.info.name!r} is not in the order of its key groups")

    @property
    def sections(self) -> Sequence[str]:
        """What a stored blob calls the table's entries."""
        return list(_section_names(self.info))

    def blobs(self, groups: tuple[int, int]) -> Iterator[tuple[int, int, BlobReader]]:
        """Stored blobs that together hold the wanted rows, each with its first and last key group."""
        for found, keys, values in self.entries(groups):
            yield found[0], found[-1], _blob(self.info, found, keys, values)

    def chunks(self, groups: tuple[int, int]) -> Iterator[tuple[str, int, int, bytes]]:
        """Section, key group, number of entries and bytes of each chunk of a stored blob; key groups ascend.

        Raises:
            StorageError: the rows are not those of the table that it says it is.
        """
        for found, keys, values in self.entries(groups):
            yield from _chunks(self.info, found, keys, values)

    def record_batches(
        self, groups: Container[int], columns: Sequence[str], row_groups: Iterable[int]
    ) -> Iterator[Any]:
        """Columns of the row groups that hold rows of some key groups, as they are: nothing is looked into.

        Args:
            groups: the wanted key groups; a row group with one of them comes as a whole.
            columns: their names.
            row_groups: numbers of those that are wanted.

        Raises:
            StorageError: a page is damaged.
        """
        for number in row_groups:
            if self.holds(groups, [number]):
                yield from self._table(number, columns).to_batches()

    def holds(self, groups: Container[int], row_groups: Iterable[int]) -> bool:
        """Whether rows of some key groups may be in some row groups."""
        borders = (self._borders[number] for number in row_groups)
        return any(group in groups for low, high in borders for group in range(low, high + 1))

    @property
    def row_groups(self) -> int:
        """How many there are."""
        return len(self._borders)

    def entries(self, groups: tuple[int, int]) -> Iterator[tuple[list[int], list[Any], list[Any]]]:
        """Key groups, keys and plain values of the wanted rows, a row group at a time.

        Raises:
            StorageError: the rows are not those of the table that it says it is.
        """
        for number, (low, high) in enumerate(self._borders):
            batch = self._read(number, groups) if low <= groups[1] and high >= groups[0] else None
            if batch is None or not len(batch):
                continue
            try:
                found, keys, values = self._rows.entries(batch)
                _check_groups(found, keys, self.info.max_parallelism)
            except (StorageError, UsageError) as error:
                raise StorageError(f"the table of state {self.info.name!r}: {error}") from None
            yield found, keys, values

    def _read(self, number: int, groups: tuple[int, int]) -> Any:
        """The rows of the wanted key groups."""
        table = self._table(number)
        stored = table.column("key_group").to_numpy()
        if (np.diff(stored) < 0).any():
            raise self._disordered()
        start, stop = np.searchsorted(stored, groups[0]), np.searchsorted(stored, groups[1], side="right")
        (batch,) = table.slice(start, stop - start).to_batches() or [
            pa.RecordBatch.from_pylist([], table.schema)
        ]
        return batch

    def _table(self, number: int, columns: Sequence[str] | None = None) -> Any:
        """A row group."""
        names = None if columns is None else list(columns)
        try:
            return self._file.read_row_group(number, names, use_threads=False).combine_chunks()
        except (pa.ArrowException, OSError) as error:
            group = self._file.metadata.row_group(number)
            starts = [_start(group.column(place)) for place in range(group.num_columns)]
            raise StorageError(
                f"the table of state {self.info.name!r} cannot be read in row group {number}, which "
                f"begins at byte {min(starts)} ({error})"
            ) from None


def _start(column: Any) -> int:
    """Where the pages of one column of a row group begin."""
    return int(column.dictionary_page_offset or column.data_page_offset)


def _check_groups(groups: list[int], keys: list[Any], max_parallelism: int) -> None:
    """A key in another group than its own would be state that nobody finds."""
    own = key_groups_of_keys(keys, max_parallelism).tolist() if keys else []
    for group, right, key in zip(groups, own, keys, strict=True):
        if group != right:
            raise StorageError(f"key {shortened(key)} is in key group {group}; its own is {right}")


def _shown(schema: Any) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


class BlobFile(io.RawIOBase):
    """A blob as a file, for Arrow."""

    def __init__(self, blob: BlobReader) -> None:
        self._blob, self._at = blob, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._blob.size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """The place."""
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        left = max(0, self._blob.size - self._at)
        data = self._blob.read(self._at, left if size is None or size < 0 else min(size, left))
        self._at += len(data)
        return data


# -- into blobs


def _probe(subtask: SubtaskTables, tables: list[TableInfo], max_parallelism: int) -> BlobReader:
    """A blob that says what a subtask's tables say and holds nothing: it is compared with the program."""
    for info in tables:
        max_parallelism = info.max_parallelism
    key_schema = tables[0].key_schema if tables else KEY_SERIALIZER.describe()
    nothing = [Chunk(_NO_GROUP, 0, 0, 0, 0)]
    sections = [Section(name, info.schema, nothing) for info in tables for name in _section_names(info)]
    header = Header(max_parallelism, *subtask.groups, key_schema, sections, 0)
    return BytesBlob(preamble_and_header(header))


def check_tables(subtask: SubtaskTables, tables: Iterable[OpenTable]) -> None:
    """That the tables are those of this subtask.

    Raises:
        StorageError: one is not.
    """
    for info in (table.info for table in tables):
        if (info.first_group, info.last_group) != subtask.groups:
            raise StorageError(
                f"the table of state {info.name!r} is of key groups {info.first_group} to {info.last_group}; "
                f"expected {subtask.groups[0]} to {subtask.groups[1]}: it belongs to another subtask"
            )


def _section_names(info: TableInfo) -> Iterable[str]:
    return TIMER_SECTIONS if info.rows_are == TIMER else [info.name]


def _blob(info: TableInfo, groups: list[int], keys: list[Any], values: list[Any]) -> BlobReader:
    """Entries of a table as a stored blob."""
    chunks: dict[str, list[Chunk]] = {name: [] for name in _section_names(info)}
    body, offset = [], 0
    for name, group, count, data in _chunks(info, groups, keys, values):
        chunks[name].append(Chunk(group, offset, len(data), count, crc32(data)))
        body.append(data)
        offset += len(data)
    sections = [Section(name, info.schema, listed) for name, listed in chunks.items()]
    header = Header(info.max_parallelism, groups[0], groups[-1], info.key_schema, sections, offset)
    return BytesBlob(b"".join([preamble_and_header(header), *body]))


def _chunks(
    info: TableInfo, groups: list[int], keys: list[Any], values: list[Any]
) -> Iterator[tuple[str, int, int, bytes]]:
    """Section, key group, number of entries, and bytes."""
    for name, entries in _by_section(info, zip(groups, keys, values, strict=True)):
        for group, of_group in _portions(info, entries):
            stored_keys = KEY_SERIALIZER.encode_many([key for _, key, _ in of_group])
            yield name, group, len(of_group), chunk_bytes(stored_keys, _encoded(info, of_group))


Entry = tuple[int, Any, Any]


def _by_section(info: TableInfo, entries: Iterable[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    if info.rows_are != TIMER:
        yield info.name, list(entries)
        return
    timers = list(entries)
    for section, domain in TIMER_SECTIONS.items():
        yield section, [(group, key, timer[1]) for group, key, timer in timers if timer[0] == domain]


def _portions(info: TableInfo, entries: list[Entry]) -> Iterator[tuple[int, list[Entry]]]:
    """Entries by key group; one by one where each has the bytes of its own batch."""
    if info.rows_are == BYTES:
        yield from ((entry[0], [entry]) for entry in entries)
        return
    for group, of_group in groupby(entries, itemgetter(0)):
        yield group, list(of_group)


def _encoded(info: TableInfo, entries: list[Entry]) -> bytes:
    values = [value for _, _, value in entries]
    if info.rows_are == BYTES:
        (cell,) = values
        return bytes(cell)
    return close_batch(stored_type(info.schema), values)
