"""The format of a blob of keyed state, which is read by key group, every byte of it verified.

Layout: magic, version, header length, header checksum; the header (msgpack); then chunks. A section
is one state, or one kind of timers; a chunk is what one section holds for one key group: the length
of the keys, the keys and the values, each as one batch. The header lists the chunks of every
section by key group, with offset, length and checksum. Nothing is decoded before its checksum is.
"""

from __future__ import annotations

import struct
from typing import Annotated, Final

import msgspec

from headgate.common.decoders import UNDECODABLE, msgpack_decoder
from headgate.common.errors import StorageError
from headgate.common.files.durable import crc32
from headgate.common.files.envelope import Envelope
from headgate.common.plain_data import Description
from headgate.serde.codecs.dynamic import DynamicSerializer
from headgate.state.backend import BlobReader

MAGIC: Final = b"HGKEYED\n"
VERSION: Final = 1
WITH_COLUMNS: Final = 2
"""The version of a blob of which a section has columns; programs that know none refuse it."""
_ENVELOPE: Final = Envelope("keyed state blob", MAGIC, "<IQ")
"""The envelope of a blob; the body is the header, with the checksum of every chunk after it."""
KEY_SERIALIZER: Final = DynamicSerializer()  # of the keys in every chunk
_KEYS_LENGTH: Final = struct.Struct("<Q")


_Size = Annotated[int, msgspec.Meta(ge=0)]


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """Where one section's entries of one key group, or some of them, are in a blob: part of its header.
    `offset`, in bytes, counts from the header's end; `count`: number of entries.
    """

    group: int
    offset: _Size
    length: _Size
    count: _Size
    crc32: int


class ColumnLayout(msgspec.Struct, frozen=True):
    """How the chunks of a section hold entries of a map state as Arrow columns, a row for each entry."""

    schema: bytes  # Arrow's schema message
    keys: int  # number of columns of the key
    numbered: bool  # whether the keys of a map's entries are the next column and a number


class Section(msgspec.Struct, frozen=True, omit_defaults=True):
    """One state or one kind of timers in a blob's header: name, description and chunks.

    Chunks ascend by key group; groups without entries are left out, large ones may take several. `columns`:
    chunks hold columns; None: keys and values.
    """

    name: str  # of timers "timers:event" or "timers:processing"
    schema: Description  # kind and description of the serializers
    chunks: list[Chunk]
    columns: ColumnLayout | None = None


class Header(msgspec.Struct, frozen=True):
    """Table of contents of a blob of keyed state: key groups, type of the keys, place of each section."""

    max_parallelism: int
    first_group: int
    last_group: int
    key_schema: Description
    sections: list[Section]
    body_length: int


_headers: Final = msgpack_decoder(Header)


class BytesBlob:
    """A `BlobReader` of a blob in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


def place_in(blob: BlobReader, start: int, stop: int) -> str:
    where, begins = _source_of(blob)
    return f"bytes {begins + start} to {begins + stop} of {where}"


def _source_of(blob: BlobReader) -> tuple[str, int]:
    return getattr(blob, "where", "a keyed state blob"), getattr(blob, "begins", 0)


def preamble_and_header(header: Header) -> bytes:
    columns = any(section.columns is not None for section in header.sections)
    version = WITH_COLUMNS if columns else VERSION
    return b"".join(_ENVELOPE.seal(version, [msgspec.msgpack.encode(header)]))


def chunk_bytes(keys: bytes, values: bytes) -> bytes:
    return _KEYS_LENGTH.pack(len(keys)) + keys + values


def split_chunk(chunk: memoryview) -> tuple[memoryview, memoryview]:
    """Return the encoded keys and the encoded values of a verified chunk; StorageError: it is too short."""
    if len(chunk) < _KEYS_LENGTH.size:
        raise StorageError(f"a chunk has {len(chunk)} bytes; expected {_KEYS_LENGTH.size} or more")
    (length,) = _KEYS_LENGTH.unpack_from(chunk)
    start = _KEYS_LENGTH.size
    return chunk[start : start + length], chunk[start + length :]


def read_header(blob: BlobReader) -> tuple[Header, int]:
    """Return the verified header of a blob, and the offset in bytes of its first chunk. StorageError: it is
    damaged, of another version, or the blob has another length than it says.
    """
    where, begins = _source_of(blob)
    head = _ENVELOPE.head(blob.read(0, _ENVELOPE.size), where, (VERSION, WITH_COLUMNS), begins)
    body = _ENVELOPE.size + head.length
    data = blob.read(_ENVELOPE.size, min(head.length, blob.size))
    _ENVELOPE.check(head, data, where, begins)
    try:
        header = _headers.decode(data)
    except UNDECODABLE as error:
        raise StorageError(
            f"the header of a keyed state blob ({place_in(blob, _ENVELOPE.size, body)}) does not decode "
            f"({error})"
        ) from None
    if blob.size != body + header.body_length:
        raise StorageError(
            f"a keyed state blob has {blob.size} bytes ({place_in(blob, 0, blob.size)}); its header says "
            f"{body + header.body_length}"
        )
    return header, body


def read_chunks(blob: BlobReader, body: int, section: Section, chunks: list[Chunk]) -> list[memoryview]:
    """Return the verified bytes of each of `chunks`, which are adjacent ones of one section; they are read at
    once. `body`: offset of the blob's first chunk. StorageError: one is damaged.
    """
    if not chunks:
        return []
    start = chunks[0].offset
    data = memoryview(blob.read(body + start, chunks[-1].offset + chunks[-1].length - start))
    parts = [data[chunk.offset - start : chunk.offset - start + chunk.length] for chunk in chunks]
    for chunk, part in zip(chunks, parts, strict=True):
        if len(part) != chunk.length or crc32(part) != chunk.crc32:
            at = body + chunk.offset
            raise StorageError(
                f"section {section.name!r} of a keyed state blob is damaged in key group {chunk.group}: the "
                f"checksum of {place_in(blob, at, at + chunk.length)} does not fit; restore an older "
                "checkpoint"
            )
    return parts
