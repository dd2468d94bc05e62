"""Entries of the log of completed checkpoints, and their bytes.

::

    magic 6 | version u16 | length of body u32 | crc32 of body u32 | body (msgpack)

Every entry carries the digest of the one before it. So a reader recognises an entry that a replaced job
master created in a place from which newer ones had been trimmed: it is not part of the log.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.common.files.durable import sha256 as sha256_of
from headgate.common.files.envelope import Envelope


class Claim(msgspec.Struct, frozen=True, tag="claim"):
    """The log entry by which a job master takes the job over, fills a doubtful place, or closes the log.

    `token` identifies the job master by random digits, so no two claimants write the same bytes. It is empty
    in logs from before there were tokens; a reader of that time skips it.
    """

    generation: int
    previous: str  # digest of the entry before; empty for the first
    token: str = ""


class Completed(msgspec.Struct, frozen=True, tag="completed"):
    """The log entry of a completed checkpoint: id, name (of a savepoint: URI) and digest of its metadata."""

    generation: int
    previous: str  # digest of the entry before
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
    """Return the SHA-256 of `data` in hex, by which entries name the entry before and metadata files."""
    return sha256_of(data).hexdigest()


def encode_entry(entry: Entry) -> bytes:
    return b"".join(_ENVELOPE.seal(VERSION, [_encoder.encode(entry)]))


def decode_entry(data: bytes, where: str) -> Entry:
    """Return the log entry in `data`, the bytes of file `where` (for messages); else DamagedFileError."""
    return _ENVELOPE.decode(data, where, {VERSION: _decoder.decode})
