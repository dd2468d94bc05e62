"""Format version 1 of the body of `_metadata`: msgpack of :class:`CheckpointMetadata`, fields by name."""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.state.snapshots import CheckpointMetadata

VERSION: Final = 1

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgpack_decoder(CheckpointMetadata)


def encode(metadata: CheckpointMetadata) -> bytes:
    """The body."""
    return _encoder.encode(metadata)


def decode(body: bytes | memoryview) -> CheckpointMetadata:
    """The metadata of a body whose checksums were verified."""
    return _decoder.decode(body)
