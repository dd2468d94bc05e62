"""Tables of state in a storage, and what a restore makes of them; for tests of tables."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import pyarrow.parquet as pq

from headgate.checkpoint.storage.memory import MemoryDisk
from headgate.checkpoint.stored_files import DiskFiles
from headgate.core.timers import TimerQueue
from headgate.state.backend import EarlierState, NewSection, StateWriter
from headgate.state.canonical.table_layout import table_info
from headgate.state.canonical.writer import ROWS, TablesWriter, WrittenTable
from headgate.state.heap.handles import HeapTable
from headgate.state.snapshots import Inline, KeyedStateHandle, StateTable
from headgate.state.stored.blob import StoredBlob
from headgate.state.stored.blob_format import BytesBlob
from headgate.state.stored.contract import written
from headgate.state.stored.local_files import Spool
from headgate.state.stored.restoring import open_restore
from headgate.state.stored.values import DeclaredValues, PlainValues
from headgate.state.targets import Target

_NUMBERS = count()

Create = Callable[[str], io.BytesIO]
"""Name of a state, or of the table of timers, to where its file goes."""


def write_tables(
    blob: bytes, create: Create, targets: Mapping[str, Target] | None = None, *, rows: int = ROWS
) -> list[WrittenTable]:
    """Write a blob as tables: read with one form, written with the other; with the program or without."""
    stored = StoredBlob(BytesBlob(blob))
    header, found = stored.header, {}

    def store(state: str, table: Spool) -> str:
        stream = create(state)
        for part in table:
            stream.write(part)
        found[state] = table_info(pq.read_metadata(io.BytesIO(stream.getvalue())).metadata)
        return state

    def add_sections(writer: StateWriter) -> None:
        values = PlainValues() if targets is None else DeclaredValues(targets)
        for section in stored.sections(values, None):
            codec = section.codec
            assert codec is not None
            new = NewSection(section.state, codec.target.schema, codec.target.serializer.encode_many)
            writer.add(new, section.entries(range(header.max_parallelism)))

    groups = header.first_group, header.last_group
    writer = TablesWriter(groups, header.max_parallelism, store, Path(tempfile.gettempdir()), rows)
    tables = written(writer, add_sections).tables or []
    return [WrittenTable(found[table.name], table.length, table.crc32) for table in tables]


class Table(NamedTuple):
    """One file, and what the metadata says of it."""

    name: str
    data: bytes
    length: int
    crc32: int


class SubtaskTables(NamedTuple):
    """The tables of one earlier subtask."""

    groups: tuple[int, int]
    tables: Sequence[Table]


def table_of(name: str, data: bytes) -> Table:
    """A file with the checksum that it has."""
    return Table(name, data, len(data), crc32(data))


def earlier(disk: Any, subtask: SubtaskTables, files: type[DiskFiles] = DiskFiles) -> EarlierState:
    """The files in a storage, as a backend gets them."""
    tables = []
    for table in subtask.tables:
        file = f"{next(_NUMBERS)}.parquet"
        disk.create(file, [table.data])
        tables.append(StateTable(table.name, file, table.length, table.crc32))
    return EarlierState(files(disk), KeyedStateHandle(*subtask.groups, Inline(b""), 0, tables=tables))


def restored_tables(
    subtasks: Sequence[SubtaskTables],
    targets: Mapping[str, Target],
    groups: tuple[int, int],
    max_parallelism: int,
    files: type[DiskFiles] = DiskFiles,
) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Section name, keys and values of the key groups in `groups`, as a restore has them."""
    disk = MemoryDisk("tables-of-a-test")
    try:
        stored = [earlier(disk, subtask, files) for subtask in subtasks]
        yield from restored(stored, targets, groups, max_parallelism)
    finally:
        disk.forget()


def restored(
    stored: Sequence[Any], targets: Mapping[str, Target], groups: tuple[int, int], max_parallelism: int
) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """What a restore fills tables and timers with."""
    queues: dict[str, Any] = {name: TimerQueue() for name in targets if name.startswith("timers:")}
    tables = {
        name: HeapTable(target.serializer.copy) for name, target in targets.items() if name not in queues
    }
    with open_restore(stored, targets, groups, max_parallelism) as restore:
        restore.fill(tables, queues)
    for name, table in tables.items():
        yield name, list(table.entries), list(table.entries.values())
    for name, queue in queues.items():
        timestamps, keys = queue.frozen()
        yield name, keys, timestamps
