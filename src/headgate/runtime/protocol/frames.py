"""The wire codec of frames: bytes to frames and back, without any I/O.

A frame is a fixed header and a payload of known length::

    offset size
         0    4  magic "HGFR"
         4    1  version of this layout
         5    1  kind
         6    2  zero
         8    4  generation of the job master
        12    4  attempt
        16    4  edge
        20    4  sender subtask
        24    4  receiver subtask
        28    8  length of the payload
        36    4  CRC-32 of the payload
        40    4  CRC-32 of the 40 bytes before
        44       payload

All integers of the header are big-endian; those in the payload of a batch are not, see `element_codec.py`.
The header has a checksum of its own, so that a damaged length is noticed before memory is allocated for it.
Frames are read only after the handshake, which authenticates the peer and binds the connection to a job.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import pyarrow as pa

from headgate.common.errors import InternalError, ProtocolError
from headgate.common.files.durable import crc32

Part = bytes | bytearray | memoryview
"""A piece of a payload; its bytes must not change once it was handed over for sending."""


class FrameKind(IntEnum):
    """The kind of a frame's payload. The numbers are on the wire: never reuse one."""

    ROWS = 1  # records, encoded without pickle
    COLUMNS = 2  # records as an Arrow IPC message
    PICKLED_ROWS = 3  # records of undeclared types; decoded only after the handshake
    WATERMARK = 4
    IDLE = 5
    BARRIER = 6
    CANCEL = 7
    END_OF_DATA = 8
    CREDIT = 9  # frames that the receiver consumed; travels against the stream
    CONTROL = 10  # a message between job master and worker
    MARK = 11
    TRACE = 12


@dataclass(slots=True)
class Frame:
    """One frame: a batch, event or credit on one channel between two subtasks, or a control message."""

    kind: FrameKind
    edge: int  # the exchange, as in `ChannelId`
    sender: int  # sending subtask of the channel (also when the frame travels backwards, as credit does)
    receiver: int  # receiving subtask of the channel
    # the payload in pieces, so that large buffers need not be joined before sending; one if it was received
    parts: Sequence[Part]

    @property
    def size(self) -> int:
        return sum(memoryview(part).nbytes for part in self.parts)

    def payload(self) -> Part:
        """Return the payload in one piece; copied only if it is in several pieces.

        Example:
            >>> bytes(Frame(FrameKind.ROWS, 0, 0, 0, [b"ab", b"c"]).payload())
            b'abc'
        """
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


class FrameHeader(NamedTuple):
    """A frame's header whose checksum was verified."""

    kind: FrameKind
    generation: int
    attempt: int
    edge: int
    sender: int
    receiver: int
    length: int
    payload_crc: int


MAGIC: Final = b"HGFR"
VERSION: Final = 1
_FIELDS: Final = struct.Struct("!4sBBHIIIIIQI")
_CRC: Final = struct.Struct("!I")
HEADER_SIZE: Final = _FIELDS.size + _CRC.size
FRAME_SIZE_MAX_DEFAULT: Final = 64 * 1024 * 1024
"""Bytes of the largest payload unless configured otherwise."""

_KINDS: Final = {int(kind): kind for kind in FrameKind}
_HOLD_GIL_BYTES: Final = 4 * 1024
_RELEASE_GIL_BYTES: Final = 1024 * 1024


def checksum(data: Part, crc: int = 0) -> int:
    """Return the CRC-32 of `data`, continuing from `crc`, the checksum of the bytes before (0: none).

    `crc32` releases the interpreter lock above 5 KiB, and in a process whose loop is busy, getting it back
    can take a switch interval (5 ms). Below a MiB, some 60 µs of work, that costs more than it gains, so such
    data is checksummed in pieces small enough to keep the lock (docs/decisions/0052 and 0252).

    Example:
        >>> checksum(b"123456789") == 0xCBF43926
        True
    """
    view = memoryview(data).cast("B")
    size = view.nbytes
    if size <= _HOLD_GIL_BYTES or size > _RELEASE_GIL_BYTES:
        return crc32(view, crc)
    for start in range(0, size, _HOLD_GIL_BYTES):
        crc = crc32(view[start : start + _HOLD_GIL_BYTES], crc)
    return crc


def encode_header(frame: Frame, generation: int, attempt: int) -> bytes:
    """Return the header that precedes the frame's parts, with the payload's checksum.
    Raises InternalError if a number does not fit the header.
    """
    length, crc = 0, 0
    for part in frame.parts:
        length += memoryview(part).nbytes
        crc = checksum(part, crc)
    try:
        address = frame.edge, frame.sender, frame.receiver
        fields = _FIELDS.pack(MAGIC, VERSION, frame.kind, 0, generation, attempt, *address, length, crc)
    except struct.error as error:
        raise InternalError(
            f"frame {frame.kind!r} on edge {frame.edge} from {frame.sender} to {frame.receiver}, generation"
            f" {generation}, attempt {attempt} does not fit the header: {error}"
        ) from error
    return fields + _CRC.pack(crc32(fields))


def parse_header(data: Part, frame_size_max: int) -> FrameHeader:
    """Return the verified header in the first `HEADER_SIZE` bytes of `data`; allocates no payload.

    Raises ProtocolError: wrong magic, version, kind or checksum, or a payload larger than `frame_size_max`.
    """
    magic, version, kind, zero, generation, attempt, edge, sender, receiver, length, payload_crc = (
        _FIELDS.unpack_from(data)
    )
    if magic != MAGIC:
        raise ProtocolError(
            f"a frame begins with {bytes(magic)!r}, expected {MAGIC!r}:"
            " what connected here is no Headgate worker"
        )
    if version != VERSION:
        raise ProtocolError(
            f"a frame has layout version {version}, expected {VERSION}:"
            " run the same Headgate version on driver and workers"
        )
    (header_crc,) = _CRC.unpack_from(data, _FIELDS.size)
    if header_crc != crc32(memoryview(data)[: _FIELDS.size]):
        raise ProtocolError("a frame's header does not match its checksum: bytes were damaged on the way")
    if kind not in _KINDS or zero != 0:
        raise ProtocolError(
            f"a frame has kind {kind} and filler {zero}, expected a kind of 1 to {max(_KINDS)} and 0:"
            " run the same Headgate version on driver and workers"
        )
    if length > frame_size_max:
        raise ProtocolError(
            f"a frame on edge {edge} announces {length} bytes, the limit is {frame_size_max}:"
            " raise taskmanager.network.frame-size-max or send smaller records"
        )
    return FrameHeader(_KINDS[kind], generation, attempt, edge, sender, receiver, length, payload_crc)


def verify_payload(header: FrameHeader, payload: Part) -> Frame:
    """Return the frame of a header and payload; raise ProtocolError if length or checksum differ."""
    size, crc = memoryview(payload).nbytes, checksum(payload)
    if size != header.length or crc != header.payload_crc:
        raise ProtocolError(
            f"a frame of kind {header.kind.name} on edge {header.edge} from subtask {header.sender} has"
            f" {size} bytes with checksum {crc:08x}, expected {header.length} with {header.payload_crc:08x}:"
            " bytes were damaged on the way"
        )
    return Frame(header.kind, header.edge, header.sender, header.receiver, (payload,))


class FrameReader:
    """Parses a stream of bytes, received in pieces of any size, into verified frames.

    Bytes can come in two ways, in any mixture: :meth:`feed` takes received bytes; :meth:`space` returns
    memory for the rest of a payload, so that a large one is received in place, and :meth:`filled` takes the
    size received. After an error the reader is unusable, because the stream has lost its frame boundaries.

    Example:
        >>> frame = Frame(FrameKind.ROWS, 1, 0, 2, [b"records"])
        >>> reader = FrameReader()
        >>> [(header.attempt, f.receiver, bytes(f.payload()))
        ...     for header, f in reader.feed(encode_header(frame, 1, 7) + b"records")]
        [(7, 2, b'records')]
    """

    __slots__ = ("_filled", "_head", "_header", "_payload", "frame_size_max")

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX_DEFAULT) -> None:
        self.frame_size_max = frame_size_max
        self._head = b""
        self._header: FrameHeader | None = None
        self._payload = memoryview(b"")
        self._filled = 0

    @property
    def inside_frame(self) -> bool:
        """Whether a part of a frame has been received, so that an end of the stream would cut it off."""
        return self._header is not None or self._head != b""

    def feed(self, data: bytes | memoryview) -> list[tuple[FrameHeader, Frame]]:
        """Return the frames completed by `data`, each with its header. `data` may be reused afterwards.

        Raises ProtocolError if the bytes are not a sequence of valid frames.
        """
        frames: list[tuple[FrameHeader, Frame]] = []
        view, position = memoryview(data), 0
        while position < len(view):
            if self._header is not None:
                piece = view[position : position + self._header.length - self._filled]
                self._payload[self._filled : self._filled + len(piece)] = piece
                position += len(piece)
                frames += self.filled(len(piece))
                continue
            missing = HEADER_SIZE - len(self._head)
            self._head += view[position : position + missing]
            position += missing
            if len(self._head) < HEADER_SIZE:
                break
            header, self._head = parse_header(self._head, self.frame_size_max), b""
            if len(view) - position >= header.length:
                payload = bytes(view[position : position + header.length])
                position += header.length
                frames.append((header, verify_payload(header, payload)))
            else:
                self._header, self._payload, self._filled = header, _memory_of(header.length), 0
        return frames

    def space(self) -> memoryview | None:
        """Return memory for the rest of the payload that is being received; None between two payloads."""
        return None if self._header is None else self._payload[self._filled :]

    def filled(self, size: int) -> list[tuple[FrameHeader, Frame]]:
        """Note that `size` bytes were received into :meth:`space`; return the frame if that completes one.
        The list is else empty. Raises ProtocolError: wrong checksum; InternalError: `size` exceeds the space.
        """
        header = self._header
        if header is None or self._filled + size > header.length:
            raise InternalError(f"{size} bytes were filled in where no frame has room for them")
        self._filled += size
        if self._filled < header.length:
            return []
        payload, self._payload, self._header = self._payload, memoryview(b""), None
        return [(header, verify_payload(header, payload))]


def _memory_of(size: int) -> memoryview:
    # Arrow's allocator has pages at hand that it has used before; those of the system's one are often new.
    return memoryview(pa.allocate_buffer(size)).cast("B")
