"""The stored form of one operator state: a preamble that covers every byte, then the batches of its elements.

Layout: magic, version, length of the body, checksum of all that and of the body; the body. The body is,
for each column (elements; or keys, then values), the length of the encoded batch and the batch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from headgate.common.durable import crc32
from headgate.common.errors import StorageError

MAGIC: Final = b"HGOPSTA\n"
VERSION: Final = 1
_HEAD: Final = struct.Struct("<8sIQ")
_CHECKSUM: Final = struct.Struct("<I")
_LENGTH: Final = struct.Struct("<Q")


def blob_parts(columns: Sequence[bytes]) -> list[bytes]:
    """The blob of encoded batches, in parts to be laid end to end."""
    body = [part for column in columns for part in (_LENGTH.pack(len(column)), column)]
    head = _HEAD.pack(MAGIC, VERSION, sum(map(len, body)))
    checksum = crc32(head)
    for part in body:
        checksum = crc32(part, checksum)
    return [head, _CHECKSUM.pack(checksum), *body]


def read_columns(blob: bytes, count: int) -> list[memoryview]:
    """The `count` encoded batches of a blob, verified.

    Raises:
        StorageError: the blob is damaged, cut short, or of another kind or version.
    """
    body = _verified_body(memoryview(blob))
    columns: list[memoryview] = []
    while len(body) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(body)
        stop = _LENGTH.size + length
        columns.append(body[_LENGTH.size : stop])
        body = body[stop:]
    if len(columns) != count or body:
        raise StorageError(f"it has {len(columns)} columns, expected {count}")
    return columns


def _verified_body(blob: memoryview) -> memoryview:
    start = _HEAD.size + _CHECKSUM.size
    if len(blob) < start:
        raise StorageError(f"it has {len(blob)} bytes, expected {start} or more")
    magic, version, length = _HEAD.unpack_from(blob)
    if magic != MAGIC:
        raise StorageError(f"it begins with {magic!r}, expected {MAGIC!r}; it is damaged or something else")
    if version != VERSION:
        raise StorageError(f"it has version {version}; this Headgate reads version {VERSION}")
    if len(blob) != start + length:
        raise StorageError(f"it has {len(blob)} bytes, its head says {start + length}")
    (checksum,) = _CHECKSUM.unpack_from(blob, _HEAD.size)
    if crc32(blob[start:], crc32(blob[: _HEAD.size])) != checksum:
        raise StorageError("its checksum does not fit; restore an older checkpoint")
    return blob[start:]
