"""The bytes of chunks of columns in RocksDB: their keys, and Arrow record batches after a short head."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

import pyarrow as pa

from headgate.common.errors import StorageError

_KEY: Final = struct.Struct(">HQQ")
_BIAS: Final = 1 << 63
"""Places may be negative, and their bytes are to be in order."""
_HEAD: Final = struct.Struct(">BxxxII4x")
KEYS, NUMBERED, PLACED = b"keys", b"numbered", b"placed"


class ChunkKey(NamedTuple):
    """The RocksDB key of a chunk of columns. The bytes of such keys sort as the keys do: by key group first.

    Attributes:
        place: map key (such as a window) of all entries; any number if the chunk has a column of it.
        number: ascends with each chunk that a subtask writes.
    """

    group: int
    place: int
    number: int

    def encoded(self) -> bytes:
        """Return the bytes under which the chunk lies in RocksDB.

        Example:
            >>> ChunkKey(3, -1, 2).encoded().hex()
            '00037fffffffffffffff0000000000000002'
        """
        return _KEY.pack(self.group, self.place + _BIAS, self.number)

    @staticmethod
    def of(stored: bytes) -> ChunkKey:
        if len(stored) != _KEY.size:
            raise StorageError(f"a chunk's key has {len(stored)} bytes, expected {_KEY.size}; it is damaged")
        group, place, number = _KEY.unpack(stored)
        return ChunkKey(group, place - _BIAS, number)


class Piece(NamedTuple):
    """An Arrow batch to be stored as a new chunk of a key group, at a place (see :class:`ChunkKey`)."""

    group: int
    place: int
    columns: pa.RecordBatch


def chunk_schema(columns: pa.Schema, keys: int, *, numbered: bool, placed: bool) -> pa.Schema:
    """Return the schema of chunks with these columns, of which the first `keys` are of the stream's key.
    `placed`: the next column is the map entry's key, else the chunk's place is. `numbered`: a key may have
    several records under one entry's key; the stored entry's key is that and a number.
    """
    about = {KEYS: b"%d" % keys, NUMBERED: b"%d" % numbered, PLACED: b"%d" % placed}
    return columns.with_metadata(about)


def placed_in(schema: pa.Schema) -> bool:
    # whether the keys of map entries are a column
    return (schema.metadata or {}).get(PLACED) == b"1"


def keys_in(schema: pa.Schema) -> int:
    # how many columns, the first ones, are of the stream's key
    return int((schema.metadata or {}).get(KEYS, b"1"))


def chunk_bytes(batch: pa.RecordBatch, number: int, schema: bytes) -> bytes:
    """Return a chunk in the form in which RocksDB stores it and :func:`read_chunk` reads it. `number`: 0 to
    255, that of the type of its records; `schema`: that of `batch`, serialized by Arrow.
    """
    return b"".join(chunk_parts(batch, number, schema))


def chunk_parts(batch: pa.RecordBatch, number: int, schema: bytes) -> tuple[bytes, memoryview]:
    """Return the two parts of :func:`chunk_bytes`; the second is not copied."""
    padded = schema + b"\0" * (-len(schema) % 8)
    return _HEAD.pack(number, batch.num_rows, len(schema)) + padded, memoryview(batch.serialize())


def rows_in(data: bytes | memoryview) -> int:
    """Return how many rows a stored chunk has, by its head; StorageError: it has no complete head."""
    if len(data) < _HEAD.size:
        raise StorageError(f"a chunk of columns has {len(data)} bytes; it is damaged")
    return int(_HEAD.unpack_from(data)[1])


def read_chunk(data: bytes | memoryview) -> pa.RecordBatch:
    """Return the record batch in the stored bytes of a chunk, which are not copied; StorageError: they are
    damaged.
    """
    rows_in(data)
    length = _HEAD.unpack_from(data)[2]
    start = _HEAD.size + length + (-length % 8)
    try:
        schema = _schema_of(bytes(data[_HEAD.size : _HEAD.size + length]))
        return pa.ipc.read_record_batch(pa.py_buffer(data).slice(start), schema)
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise StorageError(f"a stored chunk of columns does not decode ({error}); it is damaged") from None


@lru_cache(maxsize=64)
def _schema_of(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))
