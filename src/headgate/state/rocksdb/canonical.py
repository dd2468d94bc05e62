"""The canonical blob of a state in RocksDB, written as a stream: few entries are decoded at a time.

The blob is the one of the heap backend, so state moves from one backend to the other at a restore.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from headgate.common.errors import InternalError
from headgate.common.files.durable import crc32
from headgate.state.backend import BlobReader, EntryFilter
from headgate.state.heap.heap_blob import (
    Chunk,
    Header,
    Section,
    chunk_bytes,
    preamble_and_header,
    read_header,
)
from headgate.state.heap.restore import Target
from headgate.state.heap.snapshot import KEY_SERIALIZER
from headgate.state.rocksdb.database import ColumnStore
from headgate.state.rocksdb.key_bytes import group_of, groups_range, key_of
from headgate.state.rocksdb.local_files import Spool
from headgate.state.rocksdb.value_layout import Row

CHUNK_ENTRIES: Final = 10_000
"""A key group with more entries of one state takes several chunks."""

_COPY_BYTES: Final = 1 << 20

Chunks = Iterable[tuple[int, list[Any], list[Any]]]


class CanonicalBlob:
    """A blob in the making; its chunks go to the local disk, as its header comes first and is known last.

    Args:
        folder: on the local disk.
        groups: first and last key group inside.
        max_parallelism: number of key groups of the operator.

    Raises:
        StorageError: the local disk does not take it.
    """

    def __init__(self, folder: Path, groups: tuple[int, int], max_parallelism: int) -> None:
        self._spool = Spool(folder)
        self._groups, self._max_parallelism = groups, max_parallelism
        self._sections: list[Section] = []
        self._offset = 0

    def add(self, name: str, target: Target, chunks: Chunks, keep: EntryFilter | None = None) -> None:
        """A state: key group, keys and values, ascending by key group; without what `keep` leaves out."""
        listed: list[Chunk] = []
        for group, all_keys, all_values in chunks:
            keys, values = (all_keys, all_values) if keep is None else keep(name, all_keys, all_values)
            if not keys:
                continue
            data = chunk_bytes(KEY_SERIALIZER.encode_many(keys), target.serializer.encode_many(values))
            listed.append(Chunk(group, self._offset, len(data), len(keys), crc32(data)))
            self._append(data)
        self._sections.append(Section(name, target.schema, listed))

    def add_all_of(self, blob: BlobReader, without: Container[str] = ()) -> None:
        """The sections of another blob, but those named; the chunks stay as they are."""
        header, body = read_header(blob)
        before = self._offset
        for offset in range(0, header.body_length, _COPY_BYTES):
            self._append(blob.read(body + offset, min(_COPY_BYTES, header.body_length - offset)))
        for section in header.sections:
            if section.name not in without:
                moved = [msgspec.structs.replace(c, offset=c.offset + before) for c in section.chunks]
                self._sections.append(msgspec.structs.replace(section, chunks=moved))

    def finish(self) -> Spool:
        """The whole blob."""
        header = Header(
            self._max_parallelism, *self._groups, KEY_SERIALIZER.describe(), self._sections, self._offset
        )
        self._spool.finish(preamble_and_header(header))
        return self._spool

    def close(self) -> None:
        """Give it up."""
        self._spool.close()

    def _append(self, data: bytes) -> None:
        self._spool.append([data])
        self._offset += len(data)


def chunks_of(rows: Iterable[Row]) -> Iterator[tuple[int, list[Any], list[Any]]]:
    """Key group, keys and values of rows that are in order of the keys' bytes.

    Raises:
        StorageError: a key or value does not decode, or a block is damaged.
        UsageError: a value of an older type cannot become one of the declared type.
    """
    for group, of_group in groupby(rows, lambda row: group_of(row.stored)):
        keys, values, weight = list[Any](), list[Any](), 0
        for row in of_group:
            keys.append(key_of(row.stored))
            values.append(row.value)
            weight += row.weight
            if weight >= CHUNK_ENTRIES:
                yield group, keys, values
                keys, values, weight = [], [], 0
        if keys:
            yield group, keys, values


def check_nothing_outside(name: str, store: ColumnStore, groups: tuple[int, int]) -> None:
    """A key of other key groups would be lost at the next rescaling.

    Raises:
        InternalError: there is one.
    """
    low, high = groups_range(*groups)
    for strange in (next(store.items(stop=low), None), next(store.items(high), None)):
        if strange is not None:
            raise InternalError(
                f"state {name!r} holds key {key_of(strange[0])!r} outside its key groups {groups[0]} to "
                f"{groups[1]}; please report this"
            )
