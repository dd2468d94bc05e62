"""Envelopes: the stored bytes of every kind, and what is refused of them by which words."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from hashlib import sha256
from zlib import crc32

import pytest

from headgate.checkpoint import ownership
from headgate.checkpoint.metadata import metadata_bytes as registry
from headgate.checkpoint.store import entries
from headgate.common.errors import DamagedFileError
from headgate.common.files.envelope import Envelope, open_line, seal_line
from headgate.state import operator_state as operator_blob
from headgate.state.stored import blob_format as blob

BODY = b"what is stored"


def metadata(body: bytes) -> bytes:
    """As the layout of `_metadata` says, packed here by hand."""
    fields = b"\x89HGMETA\n", 1, len(body), crc32(body), sha256(body).digest()
    return struct.pack(">8sHQI32s", *fields) + body


def entry(body: bytes) -> bytes:
    """Likewise of an entry of the log."""
    return struct.pack(">6sHII", b"HGLOG\n", 1, len(body), crc32(body)) + body


def deed(body: bytes) -> bytes:
    """Likewise of a deed."""
    return struct.pack(">6sHII", b"HGDEED", 1, len(body), crc32(body)) + body


def keyed(body: bytes) -> bytes:
    """Likewise of the header of a blob of keyed state."""
    return struct.pack("<8sIQI", b"HGKEYED\n", 1, len(body), crc32(body)) + body


def operator_state(body: bytes) -> bytes:
    """Likewise of operator state, whose checksum is of the fields before it, too."""
    head = struct.pack("<8sIQ", b"HGOPSTA\n", 1, len(body))
    return head + struct.pack("<I", crc32(body, crc32(head))) + body


KINDS = [
    pytest.param(registry._ENVELOPE, metadata(BODY), id="metadata"),
    pytest.param(entries._ENVELOPE, entry(BODY), id="log"),
    pytest.param(ownership._ENVELOPE, deed(BODY), id="deed"),
    pytest.param(blob._ENVELOPE, keyed(BODY), id="keyed state"),
    pytest.param(operator_blob._ENVELOPE, operator_state(BODY), id="operator state"),
]
every_kind = pytest.mark.parametrize(("envelope", "stored"), KINDS)


@every_kind
def test_stored_bytes_are_frozen(envelope: Envelope, stored: bytes) -> None:
    """What was written by hand is what is written, in however many parts, and it is read."""
    assert b"".join(envelope.seal(1, [BODY])) == stored
    assert b"".join(envelope.seal(1, [BODY[:3], memoryview(BODY)[3:], b""])) == stored
    version, body = envelope.open(stored, "file", [1])
    assert (version, bytes(body)) == (1, BODY)
    assert len(stored) == envelope.size + len(BODY)


def flipped(data: bytes) -> Iterator[bytes]:
    """Each bit flipped once."""
    for at in range(len(data) * 8):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        yield bytes(changed)


@every_kind
def test_every_bit_and_every_length_is_refused(envelope: Envelope, stored: bytes) -> None:
    """And every sentence names the file."""
    cut = [stored[:length] for length in range(len(stored))]
    for damaged in (*flipped(stored), *cut, stored + b"\0"):
        with pytest.raises(DamagedFileError, match=r"^file:///x "):
            envelope.open(damaged, "file:///x", [1])


@every_kind
def test_the_bytes_that_a_refusal_names_hold_the_damage(envelope: Envelope, stored: bytes) -> None:
    """Whichever byte it is, also one of a checksum."""
    for at in range(len(stored)):
        damaged = stored[:at] + bytes((stored[at] ^ 0x10,)) + stored[at + 1 :]
        with pytest.raises(DamagedFileError) as caught:
            envelope.open(damaged, "file", [1])
        text = str(caught.value)
        ranges = [(int(a), int(b)) for a, b in re.findall(r"bytes (\d+) to (\d+)", text)]
        single = [int(found) for found in re.findall(r"byte (\d+)", text)]
        assert at in single or any(first <= at < stop for first, stop in ranges), text


@every_kind
def test_the_refusal_says_which_bytes_are_wrong(envelope: Envelope, stored: bytes) -> None:
    """Of the magic, the version, the length, a checksum, the body; counted from where the envelope begins."""
    end = len(envelope.magic)
    version, length = struct.calcsize("<" + envelope.numbers[1]), struct.calcsize("<" + envelope.numbers[2])
    starts = {
        3: rf"is no {envelope.name}: .*differs at byte 103 ",
        end: rf"has format version .*bytes {100 + end} to {100 + end + version} are damaged",
        end + version: rf"by its bytes {100 + end + version} to {100 + end + version + length};",
        len(stored) - 1: rf"bytes {100 + envelope.size} to {100 + len(stored)}( do not match|;)",
    }
    for place, words in starts.items():
        damaged = stored[:place] + bytes((stored[place] ^ 0x80,)) + stored[place + 1 :]
        with pytest.raises(DamagedFileError, match=words):
            envelope.check(
                envelope.head(damaged, "file", [1], begins=100), damaged[envelope.size :], "file", begins=100
            )


def test_of_two_checksums_the_one_that_fits_tells_where_the_damage_is() -> None:
    """A body that fits one of them is whole; the other one is wrong."""
    data = metadata(BODY)
    for place, wrong in ((18, "bytes 18 to 22"), (22, "bytes 22 to 54")):
        damaged = data[:place] + bytes((data[place] ^ 1,)) + data[place + 1 :]
        with pytest.raises(DamagedFileError, match=rf"the checksum in {wrong} is not that of the other"):
            registry._ENVELOPE.open(damaged, "file", [1])


def test_a_decoder_that_refuses_a_body_is_told_with_file_and_version() -> None:
    """Its checksums are right, so a program is at fault and no disk."""
    with pytest.raises(DamagedFileError, match=r"file has good checksums, .* structure of format version 1"):
        entries._ENVELOPE.decode(entry(BODY), "file", {1: lambda body: int(bytes(body))})


@pytest.mark.parametrize("body", [b"", b"{}", b'{"a": "b c"}'])
def test_a_line_with_its_checksum(body: bytes) -> None:
    """It is text; what is changed of it is refused."""
    line = seal_line(body)
    assert line == b"%08x %s\n" % (crc32(body), body)
    assert open_line(line) == body
    with pytest.raises(ValueError, match=r"CRC-32|literal"):
        open_line(line.replace(b" ", b" x", 1))
