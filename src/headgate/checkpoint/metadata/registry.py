"""The envelope of `_metadata`, and which reader serves which format version.

::

    magic 8 | version u16 | length of body u64 | crc32 of body u32 | sha256 of body 32 | body

All numbers are big-endian. Nothing of the body is decoded before length and both checksums hold.
Every version listed in `READERS` is read. What is written is version 1 for checkpoints and version 2 for
savepoints: a version is raised only for what its readers would get wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from headgate.checkpoint.metadata import v1, v2
from headgate.common.durable import crc32 as crc32_of
from headgate.common.durable import sha256 as sha256_of
from headgate.common.errors import DamagedFileError, StorageError
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

_FIELDS: Final = ("8s", "H", "Q", "I", "32s")
"""Magic, version, length, CRC-32 and SHA-256."""
_HEADER: Final = struct.Struct(f">{''.join(_FIELDS)}")


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
    digest = sha256_of(body).digest()
    return _HEADER.pack(MAGIC, version, len(body), crc32_of(body), digest) + body


def decode_metadata(data: bytes, where: str) -> CheckpointMetadata:
    """The metadata in `data`.

    Args:
        data: all bytes of the file.
        where: the file, for messages.

    Raises:
        DamagedFileError: the bytes are damaged, foreign, or of a version that this program cannot read; the
            message names the first of them that is wrong, or from where to where they are.
    """
    body = _verified_body(data, where)
    version = _HEADER.unpack_from(data)[1]
    try:
        return READERS[version](body)
    except UNDECODABLE as error:
        raise DamagedFileError(
            f"{where} has good checksums, but bytes {_HEADER.size} to {len(data)} have not the structure of "
            f"format version {version}: {error}; it was written by a faulty or foreign program"
        ) from error


def _verified_body(data: bytes, where: str) -> memoryview:
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        first = next(at for at, (got, right) in enumerate(zip(data, MAGIC, strict=False)) if got != right)
        raise DamagedFileError(
            f"{where} is no checkpoint metadata: it begins with {data[:8]!r}, which differs at byte {first} "
            f"from {MAGIC!r}; likely causes: another kind of file, a tool that converted it as text, or a "
            "damaged disk block"
        )
    if len(data) < _HEADER.size:
        raise DamagedFileError(
            f"{where} is truncated: it ends at byte {len(data)}, expected at least {_HEADER.size} bytes; "
            "likely causes: an incomplete copy, or a full disk while copying"
        )
    _, version, length, crc32, sha256 = _HEADER.unpack_from(data)
    if version not in READERS:
        raise DamagedFileError(
            f"{where} has format version {version}, this program reads {_listed(READERS)}; likely causes: it "
            f"was written by a newer Headgate (upgrade this one), or {_bytes_of(1)} are damaged"
        )
    body = memoryview(data)[_HEADER.size :]
    if len(body) != length:
        kind = "is truncated" if len(body) < length else "has bytes too many"
        raise DamagedFileError(
            f"{where} {kind}: it ends at byte {len(data)}, expected {_HEADER.size + length} by its "
            f"{_bytes_of(2)}; likely causes: an incomplete copy, or a damaged header"
        )
    wrong = _bytes_that_differ(body, crc32, sha256)
    if wrong is not None:
        raise DamagedFileError(
            f"{where} is damaged: {wrong}; likely causes: a failing disk, or a copy that was changed; "
            "restore the file from a copy or use an older checkpoint"
        )
    return body


def _bytes_that_differ(body: memoryview, crc32: int, sha256: bytes) -> str | None:
    """Where the damage is: in a checksum when the other one fits, else in what both are of."""
    fits = crc32_of(body) == crc32, sha256_of(body).digest() == sha256
    if all(fits):
        return None
    if any(fits):
        return f"the checksum in {_bytes_of(4 if fits[0] else 3)} is not that of the other bytes"
    return f"bytes {_HEADER.size} to {_HEADER.size + len(body)} do not match their checksums"


def _bytes_of(field: int) -> str:
    """Where a field of the header is, counted from 0."""
    sizes = [struct.calcsize(f">{code}") for code in _FIELDS]
    start = sum(sizes[:field])
    return f"bytes {start} to {start + sizes[field]}"


def _listed(versions: dict[int, Callable[[bytes | memoryview], CheckpointMetadata]]) -> str:
    return ", ".join(map(str, sorted(versions)))
