"""The stored form of one operator state: a preamble that covers every byte, then the batches of its elements.

Layout: magic, version, length of the body, checksum of all that and of the body; the body. The body is,
for each column (elements; or keys, then values), the length of the encoded batch and the batch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from headgate.common.errors import StorageError
from headgate.common.files.envelope import Envelope

MAGIC: Final = b"HGOPSTA\n"
VERSION: Final = 1
_ENVELOPE: Final = Envelope("operator state", MAGIC, "<IQ", covers_head=True)
_LENGTH: Final = struct.Struct("<Q")


def blob_parts(columns: Sequence[bytes]) -> list[bytes]:
    """The blob of encoded batches, in parts to be laid end to end."""
    body = [part for column in columns for part in (_LENGTH.pack(len(column)), column)]
    return _ENVELOPE.seal(VERSION, body)


def read_columns(blob: bytes, count: int) -> list[memoryview]:
    """The `count` encoded batches of a blob, verified."""
    _, body = _ENVELOPE.open(blob, "it", (VERSION,))
    columns: list[memoryview] = []
    while len(body) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(body)
        stop = _LENGTH.size + length
        columns.append(body[_LENGTH.size : stop])
        body = body[stop:]
    if len(columns) != count or body:
        raise StorageError(f"it has {len(columns)} columns, expected {count}")
    return columns
