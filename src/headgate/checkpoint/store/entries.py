"""Entries of the log of completed checkpoints, and their bytes.

::

    magic 6 | version u16 | length of body u32 | crc32 of body u32 | body (msgpack)

Every entry carries the digest of the one before it. So a stray entry, created by a replaced job
master in a place from which newer ones had been trimmed, is told from a member of the log.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.common.durable import crc32 as crc32_of
from headgate.common.durable import sha256 as sha256_of
from headgate.common.errors import DamagedFileError
from headgate.serde.undecodable import UNDECODABLE


class Claim(msgspec.Struct, frozen=True, tag="claim"):
    """A job master took over.

    Attributes:
        generation: its number, one above the last.
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
        generation: of the job master that completed it.
        previous: digest of the entry before.
        checkpoint: its id.
        metadata: name of its `_metadata`, relative to the storage root.
        sha256: digest of that file, hexadecimal.
    """

    generation: int
    previous: str
    checkpoint: int
    metadata: str
    sha256: str


Entry = Claim | Completed

MAGIC: Final = b"HGLOG\n"
VERSION: Final = 1
_HEADER: Final = struct.Struct(">6sHII")
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Entry]] = msgpack_decoder(Claim | Completed)


def digest(data: bytes) -> str:
    """What the next entry says of this one, and the log of a metadata file."""
    return sha256_of(data).hexdigest()


def encode_entry(entry: Entry) -> bytes:
    """The bytes of an entry's file."""
    body = _encoder.encode(entry)
    return _HEADER.pack(MAGIC, VERSION, len(body), crc32_of(body)) + body


def decode_entry(data: bytes, where: str) -> Entry:
    """The entry in `data`.

    Raises:
        DamagedFileError: the bytes are damaged or of another version; the message names the file and where
            in it that shows.
    """
    if len(data) < _HEADER.size:
        raise DamagedFileError(
            f"log entry {where} is truncated: it ends at byte {len(data)}, expected at least "
            f"{_HEADER.size} bytes"
        )
    magic, version, length, crc32 = _HEADER.unpack_from(data)
    body = memoryview(data)[_HEADER.size :]
    if magic != MAGIC:
        raise DamagedFileError(
            f"{where} is no log entry: bytes 0 to {len(MAGIC)} are {magic!r}, expected {MAGIC!r}"
        )
    if version != VERSION:
        raise DamagedFileError(
            f"log entry {where} has format version {version} in bytes {len(MAGIC)} to {len(MAGIC) + 2}, this "
            f"program reads {VERSION}; it was written by a newer Headgate or is damaged"
        )
    if len(body) != length:
        raise DamagedFileError(
            f"log entry {where} is damaged: it ends at byte {len(data)}, expected {_HEADER.size + length} by "
            f"its bytes {len(MAGIC) + 2} to {len(MAGIC) + 6}"
        )
    if crc32_of(body) != crc32:
        raise DamagedFileError(
            f"log entry {where} is damaged: the checksum in bytes {_HEADER.size - 4} to {_HEADER.size} is "
            f"not that of bytes {_HEADER.size} to {len(data)}"
        )
    try:
        return _decoder.decode(body)
    except UNDECODABLE as error:
        raise DamagedFileError(
            f"log entry {where} has a good checksum, but bytes {_HEADER.size} to {len(data)} have no known "
            f"structure: {error}"
        ) from error
