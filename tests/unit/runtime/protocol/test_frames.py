"""The wire codec: what goes in comes out, however it is cut, and nothing damaged comes out at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import InternalError, ProtocolError
from headgate.runtime.protocol.frames import (
    HEADER_SIZE,
    Frame,
    FrameHeader,
    FrameKind,
    FrameReader,
    checksum,
    encode_header,
    parse_header,
    verify_payload,
)

uint32 = st.integers(0, 2**32 - 1)
frames = st.builds(
    Frame, st.sampled_from(FrameKind), uint32, uint32, uint32, st.lists(st.binary(max_size=40), max_size=4)
)


def encode(frame: Frame, generation: int = 3, attempt: int = 5) -> bytes:
    """The frame as it stands on the wire."""
    return encode_header(frame, generation, attempt) + b"".join(frame.parts)


def same(received: Frame, sent: Frame) -> bool:
    """Whether a received frame is the sent one, apart from how its payload is cut."""
    fields = (received.kind, received.edge, received.sender, received.receiver, bytes(received.payload()))
    return fields == (sent.kind, sent.edge, sent.sender, sent.receiver, b"".join(sent.parts))


SAMPLE = Frame(FrameKind.ROWS, 7, 1, 2, [b"some ", b"records"])


@given(frames, uint32, uint32)
def test_a_frame_survives_the_wire(frame: Frame, generation: int, attempt: int) -> None:
    """Every field, the fence and the payload come back as they were sent."""
    ((header, received),) = FrameReader().feed(encode(frame, generation, attempt))
    assert (header.generation, header.attempt) == (generation, attempt)
    assert same(received, frame)


def test_the_layout_is_frozen() -> None:
    """Header bytes of this version never change: old and new processes must refuse each other by version."""
    expected = (
        "48474652 01 01 0000 00000003 00000005 00000007 00000001 00000002 000000000000000c 214759d0 ab9cf0fe"
    )
    assert encode_header(SAMPLE, 3, 5) == bytes.fromhex(expected)


def test_cut_at_every_byte() -> None:
    """Where the stream is cut makes no difference."""
    sent = [
        SAMPLE,
        Frame(FrameKind.BARRIER, 1, 0, 0, []),
        Frame(FrameKind.COLUMNS, 0, 9, 9, [bytes(range(50))]),
    ]
    stream = b"".join(map(encode, sent))
    for cut in range(len(stream) + 1):
        reader = FrameReader()
        received = [frame for piece in (stream[:cut], stream[cut:]) for _, frame in reader.feed(piece)]
        assert len(received) == 3
        assert all(map(same, received, sent))
        assert not reader.inside_frame


@given(st.lists(frames, max_size=5), st.data())
def test_cut_anywhere_and_filled_in_place(sent: list[Frame], data: st.DataObject) -> None:
    """Feeding and filling in place may alternate, in pieces of any size."""
    stream, reader, received = b"".join(map(encode, sent)), FrameReader(), []
    while stream:
        space = reader.space()
        limit = len(stream) if space is None else min(len(stream), len(space))
        size = data.draw(st.integers(1, limit))
        if space is not None and data.draw(st.booleans()):
            space[:size] = stream[:size]
            received += reader.filled(size)
        else:
            received += reader.feed(stream[:size])
        stream = stream[size:]
    assert len(received) == len(sent)
    assert all(same(frame, expected) for (_, frame), expected in zip(received, sent, strict=True))


def test_every_flipped_bit_is_noticed() -> None:
    """One wrong bit anywhere in header or payload is refused."""
    stream = encode(SAMPLE)
    for bit in range(len(stream) * 8):
        damaged = bytearray(stream)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProtocolError):
            FrameReader().feed(bytes(damaged))


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_garbage_never_makes_a_frame(garbage: bytes) -> None:
    """Random bytes are refused as soon as a header's worth is there."""
    reader = FrameReader()
    if len(garbage) >= HEADER_SIZE:
        with pytest.raises(ProtocolError):
            reader.feed(garbage)
    else:
        assert reader.feed(garbage) == []


def test_truncation_yields_nothing() -> None:
    """A frame that ends early is not delivered, and the reader knows that it stands inside one."""
    stream = encode(SAMPLE)
    for size in range(1, len(stream)):
        reader = FrameReader()
        assert reader.feed(stream[:size]) == []
        assert reader.inside_frame


@pytest.mark.parametrize("length", [101, 2**32, 2**63, 2**64 - 1])
def test_oversize_is_refused_before_allocation(length: int) -> None:
    """A correctly signed header with a length beyond the limit is refused; no payload is prepared for it."""
    import struct
    import zlib

    fields = bytearray(encode_header(SAMPLE, 1, 1)[:-4])
    fields[28:36] = struct.pack("!Q", length)
    header = bytes(fields) + struct.pack("!I", zlib.crc32(fields))
    reader = FrameReader(frame_size_max=100)
    with pytest.raises(ProtocolError, match=f"announces {length} bytes, the limit is 100"):
        reader.feed(header)
    assert reader.space() is None


def test_the_limit_itself_is_allowed() -> None:
    """A payload of exactly the limit passes, one byte more does not."""
    FrameReader(100).feed(encode(Frame(FrameKind.ROWS, 0, 0, 0, [bytes(100)])))
    with pytest.raises(ProtocolError, match="frame-size-max"):
        FrameReader(100).feed(encode(Frame(FrameKind.ROWS, 0, 0, 0, [bytes(101)])))


@pytest.mark.parametrize(
    ("offset", "value", "text"),
    [(0, 0x00, "begins with"), (4, 2, "layout version 2"), (5, 0, "checksum"), (43, 0, "checksum")],
)
def test_refusals_say_what_is_wrong(offset: int, value: int, text: str) -> None:
    """A wrong magic, version or checksum is named in the refusal."""
    header = bytearray(encode_header(SAMPLE, 1, 1))
    header[offset] = value if header[offset] != value else value ^ 0xFF
    with pytest.raises(ProtocolError, match=text):
        parse_header(bytes(header), 100)


def test_an_unknown_kind_with_a_sound_checksum_is_refused() -> None:
    """A frame of a kind that this version does not know is refused although nothing was damaged."""
    strange = Frame(99, 0, 0, 0, [])  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="kind 99"):
        parse_header(encode_header(strange, 1, 1), 100)


def test_numbers_beyond_the_header_are_our_own_fault() -> None:
    """A frame that does not fit the header is an internal error, not a truncated number."""
    with pytest.raises(InternalError, match="does not fit"):
        encode_header(Frame(FrameKind.ROWS, -1, 0, 0, []), 1, 1)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 300_000, 1024 * 1024, 1024 * 1024 + 1])
def test_checksum_in_pieces_equals_the_whole(size: int) -> None:
    """Below and above the size that keeps the interpreter lock the checksum is the plain CRC-32."""
    import zlib

    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    assert checksum(data) == zlib.crc32(data)
    assert checksum(data[100:], checksum(data[:100])) == zlib.crc32(data)


def test_buffers_of_wider_items_are_counted_in_bytes() -> None:
    """Parts may be memoryviews of any item type; length and checksum are those of their bytes."""
    import array

    numbers = array.array("q", range(1000))
    frame = Frame(FrameKind.COLUMNS, 0, 0, 0, [memoryview(numbers)])
    header = parse_header(encode_header(frame, 1, 1), 10_000)
    assert header.length == frame.size == 8000
    assert same(
        verify_payload(header, numbers.tobytes()), Frame(FrameKind.COLUMNS, 0, 0, 0, [numbers.tobytes()])
    )


def test_a_payload_of_another_length_is_refused() -> None:
    """A payload must have the promised length even when its checksum were right."""
    header = FrameHeader(FrameKind.ROWS, 1, 1, 0, 0, 0, 4, checksum(b"abc"))
    with pytest.raises(ProtocolError, match="3 bytes"):
        verify_payload(header, b"abc")


def test_filling_beyond_the_payload_is_our_own_fault() -> None:
    """More bytes than the payload has room for are an internal error."""
    reader = FrameReader()
    with pytest.raises(InternalError):
        reader.filled(1)
