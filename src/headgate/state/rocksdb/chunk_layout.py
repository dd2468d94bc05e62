"""The layout of map states whose entries are kept as chunks of columns, such as those of windows.

A chunk is a RocksDB entry of one key group: many entries of the maps of many keys as one Arrow record batch.
A key may be in several chunks, also with the same entry's key: then its records are parts of one, which only
the operator that wrote them can merge.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from headgate.common.errors import StorageError, UsageError
from headgate.serde.codecs.dynamic import encode_tagged
from headgate.serde.codecs.type_codec import plain_bytes
from headgate.state.rocksdb.chunk_bytes import NUMBERED, ChunkKey, keys_in, placed_in, read_chunk
from headgate.state.rocksdb.key_bytes import group_of, groups_range, one_form
from headgate.state.rocksdb.value_layout import Row, Stored, VersionedValues, where
from headgate.state.stored.blob_format import ColumnLayout
from headgate.state.stored.column_chunks import Maps, converts_of, maps_of, python_columns
from headgate.state.stored.entry_store import EntryStore

COLUMN_CHUNKS: Final = 5

_STORED_KEY: Final = struct.Struct(">HI")


class ColumnChunks(VersionedValues):
    """The layout of chunks of columns, format 5; each begins with the number of its records' type."""

    format = COLUMN_CHUNKS

    def rows(self, store: EntryStore, groups: tuple[int, int]) -> Iterator[Row]:
        # a key in several chunks comes as several rows
        for stored, data in store.items(*groups_range(*groups)):
            yield from self._rows_of(ChunkKey.of(stored), data, {})

    def whole_rows(self, store: EntryStore, advice: str, groups: tuple[int, int]) -> Iterator[Row]:
        """Yield each key of `groups` (first, last) once, with its complete map; a chunk may hold it in part.

        Raises:
            UsageError: records are stored in parts, which only the program merges; ends with `advice`.
        """
        entries = store.items(*groups_range(*groups))
        for _, of_group in groupby(entries, lambda entry: group_of(entry[0])):
            counts: dict[Hashable, int] = {}
            found: dict[bytes, Any] = {}
            for stored, data in of_group:
                for row in self._rows_of(ChunkKey.of(stored), data, counts):
                    mine = found.setdefault(row.stored, {})
                    if not mine.keys().isdisjoint(row.value):
                        raise UsageError(
                            f"state {self.versions.name!r} holds records in parts, which only its program "
                            f"merges; {advice}"
                        )
                    mine.update(row.value)
            for key, value in found.items():
                yield Row(key, value, len(value))

    def _rows_of(self, at: ChunkKey, data: bytes, counts: dict[Hashable, int]) -> Iterator[Row]:
        found = _maps_of(at, read_chunk(data), counts)
        prefix = data[:1]
        values = self.versions.decode([prefix + plain_bytes([plain]) for plain in found.plain])
        for key, value in zip(found.keys, values, strict=True):
            encoded = encode_tagged(one_form(key))
            yield Row(_STORED_KEY.pack(at.group, len(encoded)) + encoded, value, len(value))

    def entries(self, stored: bytes, value: Any) -> Stored:
        # only the operator that has the columns can write chunks
        raise StorageError(f"state {self.versions.name!r}, {where(stored)}: it is kept as columns only")

    def migrated(self, stored: bytes, data: bytes) -> bytes:
        # columns of an older type are converted when they are read
        return data


def chunks_in(store: EntryStore, groups: tuple[int, int]) -> Iterator[tuple[ChunkKey, pa.RecordBatch]]:
    """Yield key and batch of each chunk in `groups` (first, last), in keys' order; StorageError: damaged."""
    for stored, data in store.items(*groups_range(*groups)):
        yield ChunkKey.of(stored), read_chunk(data)


def chunk_keys(store: EntryStore) -> Iterator[list[Hashable]]:
    """Yield, chunk by chunk, the stream's keys that have entries in it; a key may be in several chunks."""
    for stored, data in store.items():
        yield _maps_of(ChunkKey.of(stored), read_chunk(data), {}).keys


def _maps_of(at: ChunkKey, columns: pa.RecordBatch, counts: dict[Hashable, int]) -> Maps:
    # `counts`: records of each key so far, which are numbered on
    about = columns.schema.metadata or {}
    keys, numbered = keys_in(columns.schema), about.get(NUMBERED) == b"1"
    table = pa.Table.from_batches([columns])
    if not placed_in(columns.schema):
        table = table.add_column(keys, "__place", pa.repeat(pa.scalar(at.place, pa.int64()), len(table)))
    layout = ColumnLayout(b"", keys, numbered)
    found = maps_of(python_columns(table), layout, converts_of(table.schema, layout))
    return _numbered_on(found, counts) if numbered else found


def _numbered_on(found: Maps, counts: dict[Hashable, int]) -> Maps:
    plain = []
    for key, pairs in zip(found.keys, found.plain, strict=True):
        before = counts.get(key, 0)
        plain.append([((place, number + before), record) for (place, number), record in pairs])
        counts[key] = before + len(pairs)
    return Maps(found.keys, plain)
