"""A snapshot of RocksDB state: hard links at the cut, the canonical blob written beside the loop.

The blob is the one of the heap backend, so state moves from one backend to the other at a restore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any
from zlib import crc32

from headgate.common.errors import InternalError, StorageError, UsageError
from headgate.state.heap.blob import Chunk, chunk_bytes
from headgate.state.heap.restore import Target
from headgate.state.heap.snapshot import KEY_SERIALIZER, FrozenState, FrozenTimers, PendingHeapSnapshot
from headgate.state.rocksdb.database import ColumnStore, Database, remove_tree
from headgate.state.rocksdb.keys import group_of, key_of
from headgate.state.rocksdb.memory import RocksMemory


class PendingRocksSnapshot(PendingHeapSnapshot):
    """A local checkpoint of the database, and the timers as they were.

    :meth:`write` reads the checkpoint key group by key group, so no more than one group's entries
    of one state are decoded at a time; the blob itself is in memory as a whole.

    Args:
        directory: the checkpoint; removed when the snapshot is released.
        targets: the states, in the order of the blob's sections.
        timers: the timers at the cut.
        groups: first and last key group of the subtask.
        max_parallelism: number of key groups of the operator.
        memory: bounds what reading the checkpoint takes.
    """

    def __init__(
        self,
        directory: Path,
        targets: Mapping[str, Target],
        timers: list[FrozenTimers],
        groups: tuple[int, int],
        max_parallelism: int,
        memory: RocksMemory,
    ) -> None:
        states = [FrozenState(name, *target, {}) for name, target in targets.items()]
        super().__init__([*states, *timers], groups, max_parallelism, lambda: _discard(directory))
        self._open: Callable[[], Database] = lambda: Database(directory, targets, memory, read_only=True)
        self._stores: Mapping[str, ColumnStore] = {}

    def _encode(self) -> list[bytes]:
        database = self._open()
        self._stores = database.stores
        try:
            return super()._encode()
        finally:
            self._stores = {}
            database.close()

    def _section(self, part: FrozenState | FrozenTimers, offset: int) -> tuple[list[Chunk], list[bytes]]:
        if isinstance(part, FrozenTimers):
            return super()._section(part, offset)
        chunks: list[Chunk] = []
        data: list[bytes] = []
        for group, keys, values in self._stored_groups(part, self._stores[part.name]):
            try:
                chunk = chunk_bytes(
                    KEY_SERIALIZER.encode_checked(keys), part.serializer.encode_checked(values)
                )
            except UsageError as error:
                raise UsageError(f"state {part.name!r} cannot be stored: {error}") from None
            chunks.append(Chunk(group, offset, len(chunk), len(keys), crc32(chunk)))
            data.append(chunk)
            offset += len(chunk)
        return chunks, data

    def _stored_groups(
        self, part: FrozenState, store: ColumnStore
    ) -> Iterator[tuple[int, list[Any], list[Any]]]:
        """Keys and values of each key group that has any, ascending."""
        first, last = self._groups
        decode = part.serializer.decode
        for group, items in groupby(store.items(), lambda item: group_of(item[0])):
            keys: list[Any] = []
            values: list[Any] = []
            try:
                for stored, value in items:
                    keys.append(key_of(stored))
                    values.append(decode(value))
            except StorageError as error:
                raise StorageError(f"state {part.name!r}, key group {group}: {error}") from None
            if not first <= group <= last:
                raise InternalError(
                    f"state {part.name!r} holds key {keys[0]!r} outside its key groups {first} to {last}; "
                    "please report this"
                )
            yield group, keys, values


def _discard(directory: Path) -> None:
    remove_tree(directory)
    root = directory.parent.parent
    if (root / "db").exists():
        return
    for parent in (directory.parent, root):
        try:
            parent.rmdir()
        except OSError:  # another snapshot of the closed backend is still being written
            return
