"""Lists and maps over any serializers, each part encoded as one batch.

List and map states are stored so when a program declares its own serializer for their parts. All other
containers have codecs, with which msgspec encodes a value as one piece.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Sequence, Sized
from itertools import chain, islice
from typing import ClassVar, Final, TypeVar

from headgate.common.errors import StorageError
from headgate.common.plain_data import mapping_in
from headgate.serde.composite_snapshot import CompositeTypeSerializerSnapshot
from headgate.serde.described_snapshot import DescribedSnapshot
from headgate.serde.serializer import (
    AnySerializer,
    AnySnapshot,
    Buffer,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
)

E = TypeVar("E")
K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
S = TypeVar("S", bound=AnySerializer)

_COUNT_BYTES: Final = 4
_LENGTH: Final = struct.Struct(">Q")


class ListSerializer(TypeSerializer[list[E]]):
    """Serializer of lists, made for a list state whose program declares a serializer of the elements.

    A batch is the number of elements of each list (four bytes each), then the elements of all as one batch.
    """

    def __init__(self, element: TypeSerializer[E]) -> None:
        self.element = element
        self.name = f"list[{element.name}]"

    def encode_many(self, values: Sequence[list[E]]) -> bytes:
        return _counts(values) + self.element.encode_many(list(chain.from_iterable(values)))

    def decode_many(self, data: Buffer, count: int) -> list[list[E]]:
        sizes, rest = _split_counts(self.name, memoryview(data), count)
        elements = iter(self.element.decode_stored(rest, sum(sizes)))
        return [list(islice(elements, size)) for size in sizes]

    def copy(self, value: list[E]) -> list[E]:
        return value.copy() if self.element.immutable else [self.element.copy(one) for one in value]

    def snapshot(self) -> ListSerializerSnapshot[E]:
        return ListSerializerSnapshot(self)


class MapSerializer(TypeSerializer[dict[K, V]]):
    """Serializer of dicts in their order, made for a map state whose program declares a serializer of a part.

    A batch is the size of each dict (four bytes each), the length of the keys' bytes (eight bytes), the keys
    of all as one batch, then the values of all as one batch. A copy has the same key objects.
    """

    def __init__(self, key: TypeSerializer[K], value: TypeSerializer[V]) -> None:
        self.key, self.value = key, value
        self.name = f"dict[{key.name}, {value.name}]"

    def encode_many(self, values: Sequence[dict[K, V]]) -> bytes:
        keys = self.key.encode_many(list(chain.from_iterable(values)))
        entries = self.value.encode_many([entry for one in values for entry in one.values()])
        return _counts(values) + _LENGTH.pack(len(keys)) + keys + entries

    def decode_many(self, data: Buffer, count: int) -> list[dict[K, V]]:
        sizes, rest = _split_counts(self.name, memoryview(data), count)
        if len(rest) < _LENGTH.size:
            raise StorageError(f"{len(data)} bytes are no batch of {count} values of {self.name}")
        end = _LENGTH.size + _LENGTH.unpack_from(rest)[0]
        keys = iter(self.key.decode_stored(rest[_LENGTH.size : end], sum(sizes)))
        values = iter(self.value.decode_stored(rest[end:], sum(sizes)))
        made = [dict(zip(islice(keys, size), islice(values, size), strict=True)) for size in sizes]
        if any(len(one) != size for one, size in zip(made, sizes, strict=True)):
            raise StorageError(f"different keys of a {self.name} were read as equal ones")
        return made

    def copy(self, value: dict[K, V]) -> dict[K, V]:
        if self.value.immutable:
            return copy.copy(value)
        return {key: self.value.copy(entry) for key, entry in value.items()}

    def snapshot(self) -> MapSerializerSnapshot[K, V]:
        return MapSerializerSnapshot(self)


class _ContainerSnapshot(CompositeTypeSerializerSnapshot[T, S]):
    """Base of list and map snapshots, which also judge what a built-in serializer of the container wrote.

    Such a snapshot is a `DescribedSnapshot` of the same `kind`. It is judged by its `parts` (names in the
    description), and at best is compatible after migration, as the bytes are others.
    """

    kind: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]

    def current_outer_snapshot_version(self) -> int:
        return 1

    def resolve_schema_compatibility(self, old_snapshot: AnySnapshot) -> TypeSerializerSchemaCompatibility[T]:
        if not isinstance(old_snapshot, DescribedSnapshot) or old_snapshot.description["kind"] != self.kind:
            return super().resolve_schema_compatibility(old_snapshot)
        old = type(self).of_nested(
            [DescribedSnapshot(mapping_in(old_snapshot.description, part)) for part in self.parts]
        )
        judged = super().resolve_schema_compatibility(old)
        if judged.is_incompatible:
            return judged
        changes = getattr(judged.verdict, "changes", ())
        return TypeSerializerSchemaCompatibility.compatible_after_migration(*changes)


class ListSerializerSnapshot(_ContainerSnapshot[list[E], ListSerializer[E]]):
    """Serializer snapshot of a :class:`ListSerializer`, with the snapshot of the elements' serializer."""

    kind, parts = "list", ("of",)

    def nested_serializers(self, outer_serializer: ListSerializer[E]) -> Sequence[TypeSerializer[E]]:
        return (outer_serializer.element,)

    def create_outer_serializer(self, nested: Sequence[TypeSerializer[E]]) -> ListSerializer[E]:
        return ListSerializer(*nested)


class MapSerializerSnapshot(_ContainerSnapshot[dict[K, V], MapSerializer[K, V]]):
    """Serializer snapshot of a :class:`MapSerializer`, with the snapshots for its keys and for its values."""

    kind, parts = "dict", ("key", "value")

    def nested_serializers(self, outer_serializer: MapSerializer[K, V]) -> Sequence[AnySerializer]:
        return outer_serializer.key, outer_serializer.value

    def create_outer_serializer(self, nested: Sequence[AnySerializer]) -> MapSerializer[K, V]:
        return MapSerializer(*nested)


def _counts(values: Sequence[Sized]) -> bytes:
    return struct.pack(f">{len(values)}I", *map(len, values))


def _split_counts(name: str, data: memoryview, count: int) -> tuple[tuple[int, ...], memoryview]:
    end = _COUNT_BYTES * count
    if len(data) < end:
        raise StorageError(f"{len(data)} bytes are no batch of {count} values of {name}")
    return struct.unpack(f">{count}I", data[:end]), data[end:]
