"""Entries of the log of completed checkpoints, and their bytes.

::

    magic 6 | version u16 | length of body u32 | crc32 of body u32 | body (msgpack)

Every entry carries the digest of the one before it. So a stray entry, created by a replaced job
master in a place from which newer ones had been trimmed, is told from a member of the log.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.common.files.durable import sha256 as sha256_of
from headgate.common.files.envelope import Envelope


class Claim(msgspec.Struct, frozen=True, tag="claim"):
    """A job master took over.

    Attributes:
        previous: digest of the entry before; empty for the first.
        token: whose it is, in random digits: no two claimants write the same bytes. Empty in logs from before
            there were tokens; a reader of that time passes over it.
    """

    generation: int
    previous: str
    token: str = ""


class Completed(msgspec.Struct, frozen=True, tag="completed"):
    """A checkpoint completed.

    Attributes:
        previous: digest of the entry before.
    """

    generation: int
    previous: str
    checkpoint: int
    metadata: str
    sha256: str


Entry = Claim | Completed

MAGIC: Final = b"HGLOG\n"
VERSION: Final = 1
_ENVELOPE: Final = Envelope("log entry", MAGIC, ">HI")
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Entry]] = msgpack_decoder(Claim | Completed)


def digest(data: bytes) -> str:
    """What the next entry says of this one, and the log of a metadata file."""
    return sha256_of(data).hexdigest()


def encode_entry(entry: Entry) -> bytes:
    """The bytes of an entry's file."""
    return b"".join(_ENVELOPE.seal(VERSION, [_encoder.encode(entry)]))


def decode_entry(data: bytes, where: str) -> Entry:
    """The entry in `data`."""
    return _ENVELOPE.decode(data, where, {VERSION: _decoder.decode})
