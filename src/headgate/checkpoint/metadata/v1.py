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
    """The body.

    Raises:
        TypeError: it holds something that is no plain value.
        OverflowError: it holds an integer beyond 64 bits.
        ValueError: it holds text that is not Unicode.
    """
    return _encoder.encode(metadata)


def decode(body: bytes | memoryview) -> CheckpointMetadata:
    """The metadata of a body whose checksums were verified.

    Raises:
        msgspec.DecodeError: it does not have this version's structure.
    """
    return _decoder.decode(body)
