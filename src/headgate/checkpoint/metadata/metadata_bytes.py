"""The bytes of `_metadata`, and which reader serves which format version.

::

    magic 8 | version u16 | length of body u64 | crc32 of body u32 | sha256 of body 32 | body

All numbers are big-endian.
Every version listed in `READERS` is read. What is written is version 1 for checkpoints and version 2 for
savepoints: a version is raised only for what its readers would get wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.checkpoint.metadata import v1, v2
from headgate.common.errors import StorageError
from headgate.common.files.envelope import Envelope
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

_ENVELOPE: Final = Envelope("checkpoint metadata", MAGIC, ">HQ", sha256=True)


def encode_metadata(metadata: CheckpointMetadata) -> bytes:
    """The bytes of `_metadata`."""
    version, encode = _WRITERS[metadata.kind]
    try:
        body = encode(metadata)
    except (TypeError, OverflowError, ValueError, RecursionError) as error:
        raise StorageError(
            f"{metadata.kind} {metadata.checkpoint} holds a value that metadata cannot store: {error}; "
            "sources and sinks may put only None, bool, int of 64 bits, float, str, bytes, and lists and "
            "dicts of these into a checkpoint"
        ) from error
    return b"".join(_ENVELOPE.seal(version, [body]))


def decode_metadata(data: bytes, where: str) -> CheckpointMetadata:
    """The metadata in `data`."""
    return _ENVELOPE.decode(data, where, READERS)
