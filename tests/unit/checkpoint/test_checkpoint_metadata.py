"""The bytes of `_metadata`: round trip, and every kind of damage refused by name."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Any

import msgspec
import pytest

from headgate.checkpoint.metadata.metadata_bytes import MAGIC, decode_metadata, encode_metadata
from headgate.common.errors import StorageError
from headgate.common.format_config import fingerprint
from headgate.state.snapshots import (
    CheckpointMetadata,
    FileRange,
    InFlightPart,
    InFlightStream,
    Inline,
    KeyedStateHandle,
    OperatorSubtaskState,
)

WHERE = "file:///cp/job/chk-7/_metadata"


def example(**changes: Any) -> CheckpointMetadata:
    """Metadata with every kind of field filled."""
    metadata = CheckpointMetadata(
        job="job",
        job_name="Streaks",
        checkpoint=7,
        generation=2,
        attempt=3,
        trigger_ms=1_700_000_000_000,
        max_parallelism=128,
        format_fingerprint=fingerprint(),
        parallelism={"streaks": 2},
        operators={
            "streaks": [
                OperatorSubtaskState(
                    "streaks",
                    KeyedStateHandle(0, 63, FileRange("job/chk-7/g2-a3-v1-s0", 0, 10, 99), 10),
                    watermark=-5,
                ),
                OperatorSubtaskState("streaks", KeyedStateHandle(64, 127, Inline(b"\x00\xff"), 2)),
            ],
            "out": [OperatorSubtaskState("out", committables=[{"file": "x", "n": 1}, b"y", None, 1.5])],
        },
        enumerators={"in": {"remaining": ["a", "b"], "done": True}},
        state_types={"streaks": {"count": {"kind": "int", "version": 1}}},
    )
    return msgspec.structs.replace(metadata, **changes)


IN_FLIGHT = InFlightStream(
    receiver="streaks",
    sender="parse",
    tag="late",
    sender_subtask=1,
    receiver_subtask=0,
    level=2,
    from_output=True,
    keyed=True,
    parts=[
        InFlightPart(FileRange("job/chk-7/g2-a3-v1-s0-f1", 3, 10, 99), 10, 4),
        InFlightPart(Inline(b"\x00\xff"), 2, 0),
    ],
    watermark=-(2**63),
    idle=True,
    record_type={"kind": "dataclass", "version": 1, "fields": {"x": {"kind": "int", "version": 1}}},
)


def packed(body: bytes, version: int = 1) -> bytes:
    """The envelope, packed here independently."""
    digest = hashlib.sha256(body).digest()
    return struct.pack(">8sHQI32s", MAGIC, version, len(body), zlib.crc32(body), digest) + body


def test_round_trip() -> None:
    """What is written is read back equal, with the same bytes for the same metadata."""
    data = encode_metadata(example())
    assert decode_metadata(data, WHERE) == example()
    assert encode_metadata(example()) == data


def test_records_in_flight_and_finished_subtasks_round_trip() -> None:
    """Every field of a stream in flight, set or left at its default."""
    bare = InFlightStream("streaks", "parse", None, 0, 1)
    metadata = example(in_flight=[IN_FLIGHT, bare], finished={"in": [0, 1]})
    back = decode_metadata(encode_metadata(metadata), WHERE)
    assert back == metadata
    assert list(back.in_flight[0].record_type) == ["kind", "version", "fields"]


def test_metadata_from_before_records_in_flight_is_read() -> None:
    """Fields that were added since are absent in older bodies of the same version."""
    fields = msgspec.to_builtins(example(), builtin_types=(bytes,))
    for name in ("in_flight", "finished"):
        del fields[name]
    for subtasks in fields["operators"].values():
        for state in subtasks:
            del state["firing_to"]
    assert decode_metadata(packed(msgspec.msgpack.encode(fields)), WHERE) == example()


def test_layout_is_frozen() -> None:
    """The envelope of version 1 never changes: an independent packing gives the same bytes."""
    assert encode_metadata(example()) == packed(msgspec.msgpack.encode(example()))


def test_every_flipped_bit_is_refused() -> None:
    """No single flipped bit anywhere in the file goes unnoticed, and the error names the file."""
    data = encode_metadata(example())
    for position in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(StorageError, match=WHERE):
            decode_metadata(bytes(damaged), WHERE)


def test_every_truncation_is_refused() -> None:
    """A file cut off anywhere, or with bytes appended, is refused."""
    data = encode_metadata(example())
    for length in range(len(data)):
        with pytest.raises(StorageError, match="is truncated"):
            decode_metadata(data[:length], WHERE)
    with pytest.raises(StorageError, match="has bytes too many"):
        decode_metadata(data + b"\0", WHERE)


def test_wrong_magic_lists_causes() -> None:
    """A file of another kind is told from a damaged one, with the likely causes."""
    with pytest.raises(StorageError, match=r"is no checkpoint metadata: .*another kind of file"):
        decode_metadata(b"PAR1" + bytes(100), WHERE)


def test_newer_version_names_both() -> None:
    """A newer format is refused with both versions, and never read as best it can."""
    with pytest.raises(
        StorageError, match=r"has format version 9, this program reads 1, 2; .*newer Headgate"
    ):
        decode_metadata(packed(b"anything", version=9), WHERE)


@pytest.mark.parametrize("body", [b"\x80", b"\x93\x01\x02\x03", msgspec.msgpack.encode({"job": 1})])
def test_good_checksums_of_a_foreign_structure(body: bytes) -> None:
    """Bytes with right checksums but another structure are refused by the typed decoder."""
    with pytest.raises(StorageError, match="not the structure of format version 1"):
        decode_metadata(packed(body), WHERE)


@pytest.mark.parametrize("value", [object(), 2**64, "\ud800"])
def test_values_that_are_not_plain_are_refused(value: object) -> None:
    """What metadata cannot store is refused when it is written, saying what may stand there."""
    with pytest.raises(StorageError, match="checkpoint 7 holds a value that metadata cannot store"):
        encode_metadata(example(enumerators={"in": value}))
