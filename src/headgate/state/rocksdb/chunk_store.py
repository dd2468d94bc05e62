"""The RocksDB store of a columnar operator's state: chunks of columns, each written once and read by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from headgate.common.errors import InternalError, StorageError
from headgate.common.process.children import OwnProcess
from headgate.common.settings.options import WINDOWS_MEMORY
from headgate.state.rocksdb.chunk_bytes import ChunkKey, Piece, chunk_bytes, read_chunk, rows_in
from headgate.state.rocksdb.chunk_layout import ColumnChunks
from headgate.state.rocksdb.database import ColumnStore, Database, remove_tree
from headgate.state.rocksdb.native_files import Uploads
from headgate.state.rocksdb.rocksdb_memory import RocksMemory
from headgate.state.rocksdb.snapshot import SnapshotPoint
from headgate.state.rocksdb.value_versions import Versions
from headgate.state.stored.native_restore import NamedStates, NativeRestore, sources_of
from headgate.state.targets import Target

_BATCH_BYTES: Final = 4 << 20
"""Chunks are written together up to about so many bytes."""


class _Chunk(NamedTuple):
    number: int
    rows: int
    type: int  # number of the type of its records


class ChunkStore:
    """One state of one operator subtask as chunks (Arrow record batches) in a RocksDB database of its own.

    A columnar window operator owns it. A chunk lies at a key group and a place, a number of the operator's
    choice such as a window's start; only the list of chunks is in memory. `groups`: first and last key group.
    `directory` makes the local folder, when it is needed. `incremental`: snapshots store only RocksDB files
    that no completed checkpoint has. `held_bytes`: what the operator may buffer.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        groups: tuple[int, int],
        max_parallelism: int,
        directory: Callable[[], Path],
        memory: RocksMemory,
        *,
        incremental: bool,
        held_bytes: int = WINDOWS_MEMORY.default,
    ) -> None:
        self.name, self.target, self.incremental = name, target, incremental
        self.held_bytes = held_bytes
        self.groups, self.max_parallelism = groups, max_parallelism
        self._new_directory, self._memory = directory, memory
        self._directory: Path | None = None
        self._database: Database | None = None
        self.layout = ColumnChunks(Versions(name, target))
        self.uploads = Uploads()
        self._snapshots, self._numbers, self._process = count(1), count(1), OwnProcess()
        self._chunks: dict[int, dict[int, list[_Chunk]]] = {}
        self.rows = 0

    # -- what there is

    def measured(self) -> dict[str, int]:
        """Return the metrics of the database by name of the series; none before it is made."""
        return {} if self._database is None else self._database.measured()

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def places(self) -> list[int]:
        # ascending
        return sorted(self._chunks)

    def groups_at(self, places: Iterable[int]) -> list[int]:
        return sorted({group for place in places for group in self._chunks.get(place, ())})

    def sizes(self, group: int, place: int) -> list[int]:
        return [each.rows for each in self._chunks.get(place, {}).get(group, ())]

    # -- reading and writing

    def add(self, pieces: Iterable[Piece]) -> None:
        self._write((), pieces)

    def read(self, group: int, places: Sequence[int]) -> list[pa.RecordBatch]:
        """Return a key group's chunks at `places`, place by place as given, each place's oldest first; places
        without chunks are skipped. StorageError: a chunk is missing in the database or damaged.
        """
        keys = [
            ChunkKey(group, place, each.number).encoded()
            for place in places
            for each in self._chunks.get(place, {}).get(group, ())
        ]
        return [read_chunk(data) for data in self._found(keys)]

    def replace(self, group: int, place: int, newest: int, pieces: Sequence[Piece]) -> None:
        """Delete the last `newest` chunks of a key group and place, and write `pieces` as its newest ones.
        There are at least `newest` chunks (not checked); KeyError: there are none.
        """
        chunks = self._chunks[place][group]
        old = chunks[len(chunks) - newest :]
        del chunks[len(chunks) - newest :]
        self._forget(old)
        if not chunks:
            del self._chunks[place][group]
        if not self._chunks[place]:
            del self._chunks[place]
        self._write([ChunkKey(group, place, each.number).encoded() for each in old], pieces)

    def read_newest(self, group: int, place: int, newest: int) -> list[pa.RecordBatch]:
        """Return the last `newest` (from 1) chunks of a key group and place, oldest first; KeyError: none."""
        chunks = self._chunks[place][group][-newest:]
        keys = [ChunkKey(group, place, each.number).encoded() for each in chunks]
        return [read_chunk(data) for data in self._found(keys)]

    def drop(self, places: Iterable[int]) -> None:
        keys = []
        for place in places:
            for group, chunks in self._chunks.pop(place, {}).items():
                self._forget(chunks)
                keys += [ChunkKey(group, place, each.number).encoded() for each in chunks]
        if keys:
            self._store.write((key, None) for key in keys)

    def _found(self, keys: Sequence[bytes]) -> list[bytes]:
        if not keys:
            return []
        found = []
        for key, data in zip(keys, self._store.get_many(keys), strict=True):
            if data is None:
                raise StorageError(
                    f"state {self.name!r}: chunk {ChunkKey.of(key)} is missing in {self._directory}; the "
                    "local disk is damaged, restart the job elsewhere"
                )
            found.append(data)
        return found

    def _write(self, deleted: Iterable[bytes], pieces: Iterable[Piece]) -> None:
        batch: list[tuple[bytes, bytes | None]] = [(key, None) for key in deleted]
        size, schema, schema_data = 0, pa.schema([]), b""
        for group, place, columns in pieces:
            if not columns.schema.equals(schema, check_metadata=True):
                schema, schema_data = columns.schema, columns.schema.serialize().to_pybytes()
            if not self.groups[0] <= group <= self.groups[1]:
                raise InternalError(
                    f"state {self.name!r} would hold rows of key group {group}, and the subtask has groups "
                    f"{self.groups[0]} to {self.groups[1]}; please report this"
                )
            number = next(self._numbers)
            data = chunk_bytes(columns, self.layout.versions.current, schema_data)
            batch.append((ChunkKey(group, place, number).encoded(), data))
            self._note(ChunkKey(group, place, number), columns.num_rows, self.layout.versions.current)
            size += len(data)
            if size > _BATCH_BYTES:
                self._store.write(batch)
                batch, size = [], 0
        if batch:
            self._store.write(batch)

    def _note(self, at: ChunkKey, rows: int, kind: int) -> None:
        self._chunks.setdefault(at.place, {}).setdefault(at.group, []).append(_Chunk(at.number, rows, kind))
        self.rows += rows

    def _forget(self, chunks: Iterable[_Chunk]) -> None:
        self.rows -= sum(each.rows for each in chunks)

    @property
    def _store(self) -> ColumnStore:
        if self._database is None:
            self._database = Database(self._folder / "db", [self.name], self._memory)
        return self._database.stores[self.name]

    @property
    def _folder(self) -> Path:
        if self._directory is None:
            self._directory = self._new_directory()
        return self._directory

    # -- snapshots and restores

    def snapshot(self) -> SnapshotPoint | None:
        """Take a local RocksDB checkpoint of all chunks, which the caller stores in the background and
        releases. None: no chunk was ever written. StorageError: the local disk is full or fails.
        """
        if self._database is None:
            return None
        self._forget_older_types()
        directory = self._folder / "snapshots" / str(next(self._snapshots))
        try:
            self._database.checkpoint(directory)
        except StorageError:
            remove_tree(directory)
            raise
        layouts = {self.name: self.layout.at_snapshot()}
        return SnapshotPoint(directory, layouts, (), {}, self.groups, self.max_parallelism, self._memory)

    def no_uploads(self) -> Uploads:
        # for a savepoint, whose files no other snapshot may refer to
        return Uploads()

    def _forget_older_types(self) -> None:
        versions = self.layout.versions
        if versions.older and not any(
            each.type != versions.current
            for groups in self._chunks.values()
            for chunks in groups.values()
            for each in chunks
        ):
            versions.forget_older()

    def restore(self, states: Sequence[NamedStates]) -> None:
        """Fill the unused store from earlier subtasks' RocksDB files with any of its key groups. `states`:
        each one's files, and the states wanted of them. UsageError: the type misfits; StorageError: damaged.
        """
        sources = sources_of(states, self.groups)
        if not sources:
            return
        restore = NativeRestore(
            sources,
            {self.name: self.target},
            {self.name: self.layout},
            self.groups,
            self.max_parallelism,
            self._folder,
            self._memory,
        )
        self._database, layouts, continued = restore.build()
        layout = layouts.get(self.name)
        if isinstance(layout, ColumnChunks):
            self.layout = layout
        if continued is not None:
            state = continued.state
            self.uploads.restored(continued.details.checkpoint, state.native.files, state.root)
        self._list()

    def _list(self) -> None:
        last = 0
        for stored, data in self._store.items():
            at = ChunkKey.of(stored)
            self._note(at, rows_in(data), data[0])
            last = max(last, at.number)
        self._numbers = count(last + 1)

    def close(self) -> None:
        if self._directory is None or not self._process.is_here:
            return
        if self._database is not None:
            self._database.close()
        remove_tree(self._directory / "db")
        for directory in (self._directory / "snapshots", self._directory):
            try:
                directory.rmdir()
            except OSError:  # a snapshot is still there, or all is removed already
                continue
