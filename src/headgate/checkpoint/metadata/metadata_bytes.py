"""The format of a snapshot's file `_metadata`: its bytes, and a reader for each format version.

::

    magic 8 | version u16 | length of body u64 | crc32 of body u32 | sha256 of body 32 | body

All numbers are big-endian. The body is msgpack of :class:`CheckpointMetadata`, fields by name.

Checkpoints are written as version 1. Savepoints are written as version 2, which has the fields `kind` and
`format`, and tables in place of keyed blobs: a reader of version 1 would skip these and take a savepoint for
a checkpoint without state. A version is raised only for what its readers would get wrong; all are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.common.errors import StorageError
from headgate.common.files.envelope import Envelope
from headgate.common.ports import Disk
from headgate.state.snapshots import CheckpointMetadata

MAGIC: Final = b"\x89HGMETA\n"  # not text, so that a tool which rewrites line ends or encodings is noticed
OF_CHECKPOINTS: Final = 1
OF_SAVEPOINTS: Final = 2

_VERSIONS: Final = {"checkpoint": OF_CHECKPOINTS, "savepoint": OF_SAVEPOINTS}
_FORMATS: Final = ("canonical", "native")
_ENVELOPE: Final = Envelope("checkpoint metadata", MAGIC, ">HQ", sha256=True)
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgpack_decoder(CheckpointMetadata)


def _decode_savepoint(body: bytes | memoryview) -> CheckpointMetadata:
    metadata = _decoder.decode(body)
    if metadata.kind != "savepoint" or metadata.format not in _FORMATS:
        raise msgspec.ValidationError(
            f"it is a {metadata.kind!r} of format {metadata.format!r}; expected a savepoint, "
            f"{' or '.join(_FORMATS)}"
        )
    return metadata


READERS: Final[dict[int, Callable[[bytes | memoryview], CheckpointMetadata]]] = {
    OF_CHECKPOINTS: _decoder.decode,
    OF_SAVEPOINTS: _decode_savepoint,
}


def encode_metadata(metadata: CheckpointMetadata) -> bytes:
    """Return `metadata` as the bytes of a `_metadata` file; StorageError if a value cannot be stored."""
    try:
        body = _encoder.encode(metadata)
    except (TypeError, OverflowError, ValueError, RecursionError) as error:
        raise StorageError(
            f"{metadata.kind} {metadata.checkpoint} holds a value that metadata cannot store: {error}; "
            "sources and sinks may put only None, bool, int of 64 bits, float, str, bytes, and lists and "
            "dicts of these into a checkpoint"
        ) from error
    return b"".join(_ENVELOPE.seal(_VERSIONS[metadata.kind], [body]))


def decode_metadata(data: bytes, where: str) -> CheckpointMetadata:
    """Return the metadata in the bytes of file `where`; DamagedFileError if damaged or of unknown version."""
    return _ENVELOPE.decode(data, where, READERS)


def read_metadata(disk: Disk, name: str) -> CheckpointMetadata:
    """Return the metadata in file `name`; FileNotFoundError without it, DamagedFileError if it is damaged."""
    return decode_metadata(disk.read(name), disk.describe(name))
