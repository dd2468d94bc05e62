"""Tables of state in a storage, and what a restore makes of them; for tests of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple
from zlib import crc32

from headgate.checkpoint.storage.memory import MemoryDisk
from headgate.checkpoint.stored_files import DiskFiles
from headgate.core.timers import TimerQueue
from headgate.state.backend import EarlierState
from headgate.state.heap.live_tables import HeapTable
from headgate.state.snapshots import Inline, KeyedStateHandle, StateTable
from headgate.state.stored.restoring import Restore
from headgate.state.targets import Target

_NUMBERS = count()


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
    return EarlierState(
        None, tables=(files(disk), KeyedStateHandle(*subtask.groups, Inline(b""), 0, tables=tables))
    )


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
    with Restore(stored, targets, groups, max_parallelism) as restore:
        restore.fill(tables, queues)
    for name, table in tables.items():
        yield name, list(table.entries), list(table.entries.values())
    for name, queue in queues.items():
        timestamps, keys = queue.frozen()
        yield name, keys, timestamps
