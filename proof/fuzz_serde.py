"""Targets of the fuzzing: what turns stored bytes into values, and what judges how they are to be read.

The first bytes of an input say which serializer reads the rest and how many values are expected.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from zlib import crc32

import msgspec

import headgate as hg
from headgate.common.decoders import UNDECODABLE
from headgate.common.errors import StorageError, UsageError
from headgate.serde.arrow.stored_values import open_batch
from headgate.serde.composites import ListSerializer, MapSerializer
from headgate.serde.evolution.judging_types import judge, reader_for
from headgate.serde.evolution.older_shapes import Reader
from headgate.serde.resolve import serializer_for
from headgate.serde.serializer import TypeSerializer
from headgate.serde.snapshots.snapshot_views import DataInputView
from headgate.serde.snapshots.snapshot_wire import snapshot_from_bytes, snapshot_to_bytes
from proof.fuzz_samples import CHANGED, Celsius, CelsiusSnapshot, serializers
from proof.fuzz_target import Target

_PACKED_PAIR = msgspec.msgpack.Decoder(list[tuple[int, bytes]])


def _picked(data: bytes, choices: int) -> tuple[int, int, memoryview]:
    """Which choice, how many values, and their bytes."""
    head, body = data[:2].ljust(2, b"\0"), memoryview(data)[2:]
    return head[0] % choices, head[1], body


def _headed(place: int, count: int, body: bytes) -> bytes:
    return bytes((place, count)) + body


# -- batches of values


def _batches() -> list[bytes]:
    return [
        _headed(place, len(values), serializer.encode_many(values))
        for place, (serializer, values) in enumerate(serializers())
    ]


def _decode(data: bytes) -> Any:
    known = serializers()
    place, count, body = _picked(data, len(known))
    serializer = known[place][0]
    return serializer.decode_many(_with_checksums(serializer, body), count)


def _with_checksums(serializer: TypeSerializer[Any], body: memoryview) -> bytes | memoryview:
    """Arrow reads what has the right checksum only; here it gets everything."""
    if not serializer.name.startswith("pyarrow.") or bytes(body[:1]) != b"\0":
        return body
    try:
        pairs = _PACKED_PAIR.decode(body[1:])
    except UNDECODABLE:
        return body
    return b"\0" + msgspec.msgpack.encode([(crc32(columns), columns) for _, columns in pairs])


def _open(data: bytes) -> Any:
    known = serializers()[:-1]
    place, count, body = _picked(data, len(known))
    return open_batch(known[place][0].describe(), body, count)


# -- values of another shape


@lru_cache(maxsize=1)
def _changed() -> list[tuple[Reader, bytes, int]]:
    found = []
    for old, new, values in CHANGED:
        stored = serializer_for(old)
        reader = reader_for(stored.describe(), serializer_for(new))
        found.append((reader, stored.encode_many(values), len(values)))
    return found


def _evolve(data: bytes) -> Any:
    place, count, body = _picked(data, len(_changed()))
    return _changed()[place][0](body, count)


def _evolving() -> list[bytes]:
    return [_headed(place, count, body) for place, (_, body, count) in enumerate(_changed())]


# -- descriptions, which stand in checkpoints beside the values


def _descriptions() -> list[bytes]:
    return [
        _headed(place, 0, msgspec.msgpack.encode(serializer.describe()))
        for place, (serializer, _) in enumerate(serializers())
    ] + [
        _headed(place, 1, msgspec.msgpack.encode(serializer_for(old).describe()))
        for place, (old, _, _) in enumerate(CHANGED)
    ]


def _judge(data: bytes) -> Any:
    place, changed, body = _picked(data, 256)
    known = serializers()
    current = (
        serializer_for(CHANGED[place % len(CHANGED)][1]) if changed % 2 else known[place % len(known)][0]
    )
    try:
        stored = msgspec.msgpack.decode(body, type=dict[str, Any])
    except UNDECODABLE as error:
        raise StorageError(str(error)) from None  # this is what stands around a description
    judge(stored, current)
    return reader_for(stored, current)


# -- snapshots of serializers


def _snapshots() -> list[bytes]:
    made: list[TypeSerializer[Any]] = [
        Celsius(),
        ListSerializer(Celsius()),
        MapSerializer(serializer_for(str), ListSerializer(Celsius())),
        serializer_for(dict[str, list[int | None]]),
    ]
    return [snapshot_to_bytes(serializer.snapshot()) for serializer in made]


def _snapshot(data: bytes) -> Any:
    return snapshot_from_bytes(data, (CelsiusSnapshot,))


_READS = ("boolean", "int", "long", "double", "utf", "bytes")


def _views() -> list[bytes]:
    out = hg.DataOutputView()
    for kind, value in zip(_READS, (True, -2, 2**40, 0.5, "æ🚪", b"\x00\xff"), strict=True):
        getattr(out, f"write_{kind}")(value)
    return [bytes((len(_READS), *range(len(_READS)))) + out.to_bytes()]


def _view(data: bytes) -> Any:
    """The first bytes say how many reads of which kind follow."""
    reads, view = data[1 : 1 + data[0]] if data else b"", DataInputView(data[1 + data[0] :] if data else b"")
    return [getattr(view, f"read_{_READS[kind % len(_READS)]}")() for kind in reads]


TARGETS = [
    Target("batches of every serializer", (StorageError,), _batches, _decode),
    Target("batches taken apart", (StorageError,), lambda: _batches()[:-1], _open),
    # A set whose elements become equal is refused as a change of the type.
    Target("batches of an older type", (StorageError, UsageError), _evolving, _evolve),
    Target("descriptions", (StorageError, UsageError), _descriptions, _judge),
    Target("serializers' snapshots", (StorageError, UsageError), _snapshots, _snapshot),
    Target("parts of snapshots", (StorageError,), _views, _view),
]
