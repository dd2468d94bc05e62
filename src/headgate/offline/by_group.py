"""The parts that keyed state is stored in, each as entries that ascend by key group.

A part is a section of a blob, a column family of RocksDB, or a table. Values come as plain ones (see
:mod:`headgate.serde.stored_values`), so no class of the program is needed. Every byte is verified before it
is decoded; of a blob only the chunks that are wanted are read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import msgspec

from headgate.checkpoint.data_files import StoredBytes, read_handle, verify_handle
from headgate.common.errors import StorageError, UsageError
from headgate.common.ports import Disk
from headgate.offline.forms import PlainMaps, PlainSerializer
from headgate.offline.stored import RangeReader
from headgate.runtime.operators.stored_state import StoredNativeState
from headgate.serde.stored_values import open_batch
from headgate.state.backend import BlobReader
from headgate.state.canonical.layout import BYTES, ENTRY, TIMER_SECTIONS, row_of, stored_type
from headgate.state.canonical.reader import OpenTable, StoredTable
from headgate.state.heap.blob import BytesBlob, Chunk, Section, read_chunks, read_header, split_chunk
from headgate.state.heap.snapshot import KEY_SERIALIZER
from headgate.state.snapshots import FileRange, KeyedStateHandle, StateHandle, StateTable
from headgate.state.targets import Target, timers_target

_SPAN_BYTES: Final = 4 << 20
"""Chunks that lie behind one another are read together up to so many bytes."""
_MEMORY_MAX: Final = 128 << 20
"""A table up to so many bytes is read once, into memory; a larger one twice: to verify it, then in parts."""

Found = tuple[int, list[Any], list[Any]]
"""Key group, keys, and the plain value of each."""


class ByGroup:
    """Entries that ascend by key group, taken one key group after the other."""

    def __init__(self, portions: Iterator[Found]) -> None:
        self._portions = portions
        self._next = next(portions, None)

    def take(self, group: int) -> tuple[list[Any], list[Any]]:
        """Keys and values of a key group; those of lower ones are passed over."""
        keys, values = list[Any](), list[Any]()
        while self._next is not None and self._next[0] <= group:
            found, more_keys, more_values = self._next
            if found == group:
                keys += more_keys
                values += more_values
            self._next = next(self._portions, None)
        return keys, values


# -- blobs


class Blob:
    """A stored blob, of which parts are read.

    Args:
        disk: where it is.
        handle: refers to it.

    Attributes:
        header: its head.

    Raises:
        StorageError: the head is damaged.
    """

    def __init__(self, disk: Disk, handle: StateHandle) -> None:
        self._where = _place(disk, handle)
        self._reader = RangeReader(disk, handle)
        try:
            self.header, self._body = read_header(self._reader)
        except StorageError as error:
            raise StorageError(f"{self._where(0, self._reader.size)}: {error}") from None

    def section(self, name: str) -> Section | None:
        """The section of a state, of timers, or of what went of one."""
        return next((section for section in self.header.sections if section.name == name), None)

    def portions(self, section: Section, groups: Collection[int], values: bool = True) -> Iterator[Found]:
        """The entries of some key groups.

        Args:
            section: one of its sections.
            groups: the wanted key groups.
            values: whether values are wanted; else they are None.

        Raises:
            StorageError: a chunk is damaged; names the file and the bytes.
            UsageError: only the program's own serializer can take the values apart.
        """
        for span in _spans([chunk for chunk in section.chunks if chunk.group in groups]):
            begin = self._body + span[0].offset
            try:
                parts = read_chunks(self._reader, self._body, section, span)
                for chunk, part in zip(span, parts, strict=True):
                    stored_keys, stored = split_chunk(part)
                    keys = KEY_SERIALIZER.decode_many(stored_keys, chunk.count)
                    held = _values(section, chunk, stored) if values else [None] * chunk.count
                    yield chunk.group, keys, held
            except StorageError as error:
                end = self._body + span[-1].offset + span[-1].length
                raise StorageError(f"{self._where(begin, end)}: {error}") from None


def _place(disk: Disk, handle: StateHandle) -> Callable[[int, int], str]:
    """What errors call some bytes of a handle."""
    if not isinstance(handle, FileRange):
        return lambda begin, end: f"bytes {begin} to {end} of state within _metadata"
    where, offset = disk.describe(handle.file), handle.offset
    return lambda begin, end: f"{where}, bytes {offset + begin} to {offset + end}"


def _spans(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    """Chunks that one read may bring."""
    span: list[Chunk] = []
    for chunk in chunks:
        if span:
            end = span[-1].offset + span[-1].length
            if chunk.offset != end or end + chunk.length - span[0].offset > _SPAN_BYTES:
                yield span
                span = []
        span.append(chunk)
    if span:
        yield span


def _values(section: Section, chunk: Chunk, stored: memoryview) -> list[Any]:
    schema = section.schema
    if row_of(schema) == BYTES:
        if chunk.count != 1:
            raise own_serializer(section.name)
        return [bytes(stored)]
    described = schema["of"][0] if section.name in TIMER_SECTIONS else stored_type(schema)
    return open_batch(described, stored, chunk.count)


def own_serializer(state: str) -> UsageError:
    """What to raise where values of a state cannot be told apart."""
    return UsageError(
        f"state {state!r} was written by a serializer of the program's own, which alone can take its values "
        "apart; take a canonical savepoint, in which each value has bytes of its own, and read that"
    )


# -- RocksDB


@contextmanager
def native_families(
    disk: Disk, keyed: KeyedStateHandle, names: Collection[str], groups: Sequence[int]
) -> Iterator[dict[str, Iterator[Found]]]:
    """The entries of column families, while their files are on the local disk.

    Args:
        disk: where the files are.
        keyed: refers to them.
        names: the wanted states and kinds of timers; what is not in column families is left out.
        groups: the wanted key groups, ascending.

    Raises:
        StorageError: a file is missing or damaged.
        UsageError: a state holds values of older types, or such that only the program can take apart.
    """
    from headgate.state.rocksdb.canonical import chunks_of
    from headgate.state.rocksdb.database import Access, Database
    from headgate.state.rocksdb.memory import LIMIT_MIN, RocksMemory
    from headgate.state.rocksdb.native_restore import readable, readable_timers, sources_of
    from headgate.state.rocksdb.timer_sections import timer_chunks

    assert keyed.native is not None
    (source,) = sources_of(
        [StoredNativeState(disk, keyed, keyed.native)], (keyed.first_group, keyed.last_group)
    )
    wanted = [section for section in source.header.sections if section.name in names]
    formats = {name: number for name, number in source.details.formats.items() if name in names}
    _refuse_older(source.details.versions, names)
    source = replace(
        source,
        header=msgspec.structs.replace(source.header, sections=wanted),
        details=msgspec.structs.replace(source.details, formats=formats),
    )
    targets = {section.name: _plain_target(section) for section in wanted}
    with tempfile.TemporaryDirectory(prefix="headgate-reading-") as folder:
        source.fetch(Path(folder) / "db")
        database = Database(Path(folder) / "db", (), RocksMemory(LIMIT_MIN), Access.READ_ONLY)
        try:
            layouts = readable(source, database, targets, source.header.max_parallelism)
            found: dict[str, Iterator[Found]] = {
                name: _opened(
                    targets[name], chunks_of(layout.rows(database.stores[name], (groups[0], groups[-1])))
                )
                for name, layout in layouts.items()
            }
            for name in readable_timers(source, database):
                found[name] = timer_chunks(name, database.stores[name], (keyed.first_group, keyed.last_group))
            yield found
        finally:
            database.close()


def _refuse_older(versions: Any, names: Collection[str]) -> None:
    older = [name for name, each in versions.items() if each.older and name in names]
    if older:
        raise UsageError(
            f"state {older[0]!r} holds values of older types, which were not rewritten yet; take a canonical "
            "savepoint of the running job and read that"
        )


def _plain_target(section: Section) -> Target:
    if section.name in TIMER_SECTIONS:
        return timers_target()
    schema = section.schema
    row = row_of(schema)
    if row == BYTES:
        raise own_serializer(section.name)
    if row == ENTRY:
        return Target(schema, PlainMaps(*schema["of"]))
    return Target(schema, PlainSerializer(stored_type(schema)))


def _opened(target: Target, portions: Iterator[Found]) -> Iterator[Found]:
    """Maps as the plain values that every other form has."""
    maps = isinstance(target.serializer, PlainMaps)
    described = stored_type(target.schema) if maps else None
    for group, keys, values in portions:
        if described is not None:
            values = open_batch(described, target.serializer.encode_many(values), len(values))
        yield group, keys, values


# -- tables


def open_table(disk: Disk, table: StateTable) -> OpenTable:
    """A table, verified as a whole.

    Raises:
        StorageError: it is missing or damaged, or no table of a state; names the file.
    """
    whole = table.range()
    small = whole.length <= _MEMORY_MAX
    data: BlobReader = BytesBlob(read_handle(disk, whole)) if small else StoredBytes(disk, whole)
    return _open(disk, table, data)


def head_of_table(disk: Disk, table: StateTable) -> OpenTable:
    """The same for who only wants to know what it is: no row may be read of it.

    Raises:
        StorageError: it is missing, or so damaged that it cannot be told; names the file.
    """
    try:
        return _open(disk, table, RangeReader(disk, table.range()))
    except StorageError:
        verify_handle(disk, table.range())  # says better what is wrong
        raise


def _open(disk: Disk, table: StateTable, data: BlobReader) -> OpenTable:
    where = disk.describe(table.file)
    try:
        return OpenTable(StoredTable(data, table.length, table.crc32, True, where))
    except StorageError as error:
        raise StorageError(f"{where}: {error}") from None


def table_portions(table: OpenTable, groups: Sequence[int]) -> Iterator[Found]:
    """The entries of a table; of timers, pairs of time domain and timestamp.

    Raises:
        StorageError: the rows are not those of the table that it says it is.
    """
    for found, keys, values in table.entries((groups[0], groups[-1])):
        rows = zip(found, keys, values, strict=True)
        for group, of_group in groupby(rows, itemgetter(0)):
            entries = list(of_group)
            yield group, [key for _, key, _ in entries], [value for _, _, value in entries]
