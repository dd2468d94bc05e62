"""Serializers as users write them: one value at a time, in batches, with a configuration, of others."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import headgate as hg
from headgate.serde.serializer import Buffer

Compatibility = hg.TypeSerializerSchemaCompatibility


class Text(hg.TypeSerializer[str]):
    """One value at a time."""

    immutable = True

    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()

    def snapshot(self) -> TextSnapshot:
        return TextSnapshot()


class TextSnapshot(hg.SimpleTypeSerializerSnapshot[str]):
    def __init__(self) -> None:
        super().__init__(Text)


class Points(hg.TypeSerializer[list[float]]):
    """Batches of pairs."""

    name = "points"

    def encode_many(self, values: Sequence[list[float]]) -> bytes:
        return b"".join(struct.pack(">2d", *value) for value in values)

    def decode_many(self, data: Buffer, count: int) -> list[list[float]]:
        return [list(pair) for pair in struct.iter_unpack(">2d", data)]

    def snapshot(self) -> PointsSnapshot:
        return PointsSnapshot()


class PointsSnapshot(hg.SimpleTypeSerializerSnapshot[list[float]]):
    def __init__(self) -> None:
        super().__init__(Points)


class Pair(hg.TypeSerializer[tuple[Any, Any]]):
    """Of two others."""

    def __init__(self, left: hg.TypeSerializer[Any], right: hg.TypeSerializer[Any]) -> None:
        self.left, self.right = left, right

    def encode(self, value: tuple[Any, Any]) -> bytes:
        left = self.left.encode(value[0])
        return struct.pack(">I", len(left)) + left + self.right.encode(value[1])

    def decode(self, data: bytes) -> tuple[Any, Any]:
        end = 4 + struct.unpack_from(">I", data)[0]
        return self.left.decode(data[4:end]), self.right.decode(data[end:])

    def snapshot(self) -> PairSnapshot:
        return PairSnapshot(self)


class PairSnapshot(hg.CompositeTypeSerializerSnapshot[tuple[Any, Any], Pair]):
    def current_outer_snapshot_version(self) -> int:
        return 1

    def nested_serializers(self, outer_serializer: Pair) -> Sequence[hg.TypeSerializer[Any]]:
        return [outer_serializer.left, outer_serializer.right]

    def create_outer_serializer(self, nested: Sequence[hg.TypeSerializer[Any]]) -> Pair:
        return Pair(*nested)


FORMATS = {2: ">h", 4: ">i"}


class Celsius(hg.TypeSerializer[float]):
    """The second version of the guide's: temperatures, rounded, in two or four bytes."""

    immutable = True

    def __init__(self, decimals: int = 2, width: int = 4) -> None:
        self.decimals, self.width = decimals, width

    def encode(self, value: float) -> bytes:
        return struct.pack(FORMATS[self.width], round(value * 10**self.decimals))

    def decode(self, data: bytes) -> float:
        number: int = struct.unpack(FORMATS[self.width], data)[0]
        return number / 10**self.decimals

    def snapshot(self) -> CelsiusSnapshot:
        return CelsiusSnapshot(self.decimals, self.width)


class CelsiusSnapshot(hg.TypeSerializerSnapshot[float]):
    def __init__(self, decimals: int = 0, width: int = 2) -> None:
        self.decimals, self.width = decimals, width

    def current_version(self) -> int:
        return 2

    def write_snapshot(self, out: hg.DataOutputView) -> None:
        out.write_int(self.decimals)
        out.write_int(self.width)

    def read_snapshot(self, read_version: int, in_: hg.DataInputView) -> None:
        self.decimals = in_.read_int()
        self.width = 2 if read_version == 1 else in_.read_int()

    def restore_serializer(self) -> Celsius:
        return Celsius(self.decimals, self.width)

    def resolve_schema_compatibility(self, old_snapshot: Any) -> Compatibility[float]:
        if not isinstance(old_snapshot, CelsiusSnapshot):
            return Compatibility.incompatible("these are no temperatures")
        if old_snapshot.decimals > self.decimals:
            return Compatibility.incompatible("stored values would be rounded")
        if (old_snapshot.decimals, old_snapshot.width) == (self.decimals, self.width):
            return Compatibility.compatible_as_is()
        return Compatibility.compatible_after_migration("wider")
