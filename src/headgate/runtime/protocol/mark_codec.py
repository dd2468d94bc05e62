"""Marks as payloads of frames: msgpack of the epoch, whether it is lost, and (source, split, rows) for each
split that moved.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.core.marks import Mark

_FORM: Final[msgspec.msgpack.Decoder[tuple[int, bool, list[tuple[str, str, int]]]]] = msgpack_decoder(
    tuple[int, bool, list[tuple[str, str, int]]]
)


def encode_mark(mark: Mark) -> bytes:
    moved = [(source, split, rows) for (source, split), rows in mark.rows.items()]
    return msgspec.msgpack.encode((mark.epoch, mark.lost, moved))


def decode_mark(payload: memoryview) -> Mark:
    """Return the mark of a payload; msgspec's errors: it is none."""
    epoch, lost, moved = _FORM.decode(payload)
    return Mark(epoch, {(source, split): rows for source, split, rows in moved}, lost)
