"""The envelope of `_metadata`, and which reader serves which format version.

::

    magic 8 | version u16 | length of body u64 | crc32 of body u32 | sha256 of body 32 | body

All numbers are big-endian. Nothing of the body is decoded before length and both checksums hold.
Every version listed in `READERS` is read. What is written is version 1 for checkpoints and version 2 for
savepoints: a version is raised only for what its readers would get wrong.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from typing import Final

from headgate.checkpoint.metadata import v1, v2
from headgate.common.errors import StorageError
from headgate.serde.undecodable import UNDECODABLE
from headgate.state.snapshots import CheckpointMetadata

MAGIC: Final = b"\x89HGMETA\n"
"""Not text, so that a tool which rewrites line ends or encodings is noticed."""

OF_CHECKPOINTS: Final = v1.VERSION
OF_SAVEPOINTS: Final = v2.VERSION

READERS: Final[dict[int, Callable[[bytes | memoryview], CheckpointMetadata]]] = {
    v1.VERSION: v1.decode,
    v2.VERSION: v2.decode,
}
_WRITERS: Final[dict[str, tuple[int, Callable[[CheckpointMetadata], bytes]]]] = {
    "checkpoint": (OF_CHECKPOINTS, v1.encode),
    "savepoint": (OF_SAVEPOINTS, v2.encode),
}

_HEADER: Final = struct.Struct(">8sHQI32s")


def encode_metadata(metadata: CheckpointMetadata) -> bytes:
    """The bytes of `_metadata`.

    Raises:
        StorageError: a source, sink or operator put something else than plain values into it.
    """
    version, encode = _WRITERS[metadata.kind]
    try:
        body = encode(metadata)
    except (TypeError, OverflowError, ValueError, RecursionError) as error:
        raise StorageError(
            f"{metadata.kind} {metadata.checkpoint} holds a value that metadata cannot store: {error}; "
            "sources and sinks may put only None, bool, int of 64 bits, float, str, bytes, and lists and "
            "dicts of these into a checkpoint"
        ) from error
    digest = hashlib.sha256(body).digest()
    return _HEADER.pack(MAGIC, version, len(body), zlib.crc32(body), digest) + body


def decode_metadata(data: bytes, where: str) -> CheckpointMetadata:
    """The metadata in `data`.

    Args:
        data: all bytes of the file.
        where: the file, for messages.

    Raises:
        StorageError: the bytes are damaged, foreign, or of a version that this program cannot read.
    """
    body = _verified_body(data, where)
    version = _HEADER.unpack_from(data)[1]
    try:
        return READERS[version](body)
    except UNDECODABLE as error:
        raise StorageError(
            f"{where} has good checksums but not the structure of format version {version}: {error}; "
            "it was written by a faulty or foreign program"
        ) from error


def _verified_body(data: bytes, where: str) -> memoryview:
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise StorageError(
            f"{where} is no checkpoint metadata: it begins with {data[:8]!r}, expected {MAGIC!r}; likely "
            "causes: another kind of file, a tool that converted it as text, or a damaged disk block"
        )
    if len(data) < _HEADER.size:
        raise StorageError(
            f"{where} is truncated: {len(data)} bytes, expected at least {_HEADER.size}; likely causes: "
            "an incomplete copy, or a full disk while copying"
        )
    _, version, length, crc32, sha256 = _HEADER.unpack_from(data)
    if version not in READERS:
        raise StorageError(
            f"{where} has format version {version}, this program reads {_listed(READERS)}; likely causes: "
            "it was written by a newer Headgate (upgrade this one), or its header is damaged"
        )
    body = memoryview(data)[_HEADER.size :]
    if len(body) != length:
        kind = "is truncated" if len(body) < length else "has bytes too many"
        raise StorageError(
            f"{where} {kind}: its body has {len(body)} bytes, expected {length}; likely causes: an "
            "incomplete copy, or a damaged header"
        )
    if zlib.crc32(body) != crc32 or hashlib.sha256(body).digest() != sha256:
        raise StorageError(
            f"{where} is damaged: its checksums do not match its bytes; likely causes: a failing disk, "
            "or a copy that was changed; restore the file from a copy or use an older checkpoint"
        )
    return body


def _listed(versions: dict[int, Callable[[bytes | memoryview], CheckpointMetadata]]) -> str:
    return ", ".join(map(str, sorted(versions)))
