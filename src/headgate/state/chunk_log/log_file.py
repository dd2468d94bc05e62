"""The bytes of a file of a log: chunks of columns, each after its key and its length.

8 bytes    MAGIC
entries    the chunk's key (18 bytes, 6 of padding), length of the chunk (8 bytes, little-endian), the chunk,
and padding, so that each begins at a multiple of 8

A chunk's rows are of the key group in its key, or of any key groups, if that says `ANY_GROUP`. Files of
version 1 have chunks of one group only.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from mmap import mmap
from pathlib import Path
from typing import Final, NamedTuple

from headgate.common.errors import StorageError
from headgate.state.backend import Part
from headgate.state.rocksdb.chunk_bytes import ChunkKey, Piece, chunk_parts

COLUMN_LOG: Final = "columns"
"""Name of the kind of native files that are such a log."""

VERSION: Final = 2
MAGIC: Final = b"HGCHUNK%d" % VERSION
MAGICS: Final = (b"HGCHUNK1", MAGIC)
_HEAD: Final = struct.Struct("<18s6xQ")
_ALIGNED: Final = 8

ANY_GROUP: Final = 0xFFFF
"""Stands for the key group of a chunk that has rows of several: whoever reads it finds the group of each by
its key. A snapshot is taken each second and read hardly ever, so it is the reader who sorts.
"""

WAITING: Final = "waiting.chunks"
"""Name of the file of what came since the last mark; each snapshot writes it anew."""

_NAME: Final = re.compile(r"(?:[0-9]{20}|waiting)\.chunks")


def log_name(number: int) -> str:
    """Return the name of a file by its number: names are in the order in which files were written.

    Example:
        >>> log_name(7)
        '00000000000000000007.chunks'
    """
    return f"{number:020}.chunks"


def check_log_names(names: Iterable[str]) -> None:
    """Raise a StorageError if one of the files that a checkpoint names is not of a log."""
    strange = [name for name in names if not _NAME.fullmatch(name)]
    if strange:
        raise StorageError(
            f"the checkpoint lists {', '.join(map(repr, strange))} for a log of columns; expected files of "
            "chunks; restore an older checkpoint"
        )


def log_bytes(pieces: Iterable[Piece], number: int, kind: int) -> Iterator[Part]:
    """Yield the bytes of a file, of which each piece is a chunk, part by part; the chunks are numbered from
    `number` on. `kind`: number of the type of the records.
    """
    yield MAGIC
    schema, schema_data = None, b""
    for group, place, columns in pieces:
        if schema is None or not columns.schema.equals(schema, check_metadata=True):
            schema, schema_data = columns.schema, columns.schema.serialize().to_pybytes()
        head, data = chunk_parts(columns, kind, schema_data)
        size = len(head) + len(data)
        yield _HEAD.pack(ChunkKey(group, place, number).encoded(), size) + head
        yield data
        yield b"\0" * (-size % _ALIGNED)
        number += 1


class Place(NamedTuple):
    """Where a chunk lies in a file."""

    key: bytes
    start: int
    stop: int


def places_in(data: bytes | mmap, path: Path) -> Iterator[Place]:
    """Yield the key and the place of each chunk in the bytes of a file; `path` is for errors.

    Raises:
        StorageError: it is not such a file, or ends in the middle of a chunk.
    """
    if data[: len(MAGIC)] not in MAGICS:
        raise StorageError(
            f"{path} begins with {data[: len(MAGIC)]!r}; expected {' or '.join(map(repr, MAGICS))}: it is "
            "damaged, or of a newer Headgate"
        )
    at = len(MAGIC)
    while at < len(data):
        key, length = _HEAD.unpack_from(data, at) if at + _HEAD.size <= len(data) else (b"", len(data))
        start = at + _HEAD.size
        if start + length > len(data):
            raise StorageError(
                f"{path} has {len(data)} bytes and ends in the middle of a chunk; it is damaged"
            )
        yield Place(key, start, start + length)
        at = start + length + (-length % _ALIGNED)
