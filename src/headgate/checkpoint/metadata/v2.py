"""Format version 2 of the body of `_metadata`: that of a savepoint, which says what it is.

It is version 1 with the fields `kind` and `format`, and tables in place of keyed blobs. A reader of version 1
would skip these and take a savepoint for a checkpoint without state, so they are never written as version 1.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.state.snapshots import CheckpointMetadata

VERSION: Final = 2

FORMATS: Final = ("canonical", "native")

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgpack_decoder(CheckpointMetadata)


def encode(metadata: CheckpointMetadata) -> bytes:
    """The body."""
    return _encoder.encode(metadata)


def decode(body: bytes | memoryview) -> CheckpointMetadata:
    """The metadata of a body whose checksums were verified."""
    metadata = _decoder.decode(body)
    if metadata.kind != "savepoint" or metadata.format not in FORMATS:
        raise msgspec.ValidationError(
            f"it is a {metadata.kind!r} of format {metadata.format!r}; expected a savepoint, "
            f"{' or '.join(FORMATS)}"
        )
    return metadata
