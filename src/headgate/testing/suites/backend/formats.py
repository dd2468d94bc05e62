"""A test serializer of several formats, whose snapshot gives any verdict. Stored bytes name this file."""

from __future__ import annotations

from typing import Any

from headgate.api.declared import keyed_states as declared
from headgate.serde.serializer import (
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from headgate.serde.snapshots.snapshot_views import DataInputView, DataOutputView

Value = tuple[str, int]
Compatibility = TypeSerializerSchemaCompatibility[Value]


class VersionedSerializer(TypeSerializer[Value]):
    """Stores a (text, number) joined by a bar: odd versions of the format write the text first, even ones the
    number.

    On restored values it gives the verdict "as is" for its own version, "after migration" for `migrates`,
    "reconfigured" for `reconfigures`, and "incompatible" for all others.
    """

    immutable = True

    def __init__(
        self, version: int, migrates: tuple[int, ...] = (), reconfigures: tuple[int, ...] = ()
    ) -> None:
        self.version, self.migrates, self.reconfigures = version, migrates, reconfigures

    def encode(self, value: Value) -> bytes:
        text, number = value
        return "|".join((text, str(number)) if self.version % 2 else (str(number), text)).encode()

    def decode(self, data: bytes) -> Value:
        first, second = data.decode().split("|")
        return (first, int(second)) if self.version % 2 else (second, int(first))

    def snapshot(self) -> VersionedSnapshot:
        return VersionedSnapshot(self)


class VersionedSnapshot(TypeSerializerSnapshot[Value]):
    """Serializer snapshot that stores the version of the serializer which wrote the values."""

    def __init__(self, serializer: VersionedSerializer | None = None) -> None:
        self.serializer = serializer or VersionedSerializer(0)

    def current_version(self) -> int:
        return 1

    def write_snapshot(self, out: DataOutputView) -> None:
        out.write_int(self.serializer.version)

    def read_snapshot(self, read_version: int, in_: DataInputView) -> None:
        self.serializer = VersionedSerializer(in_.read_int())

    def restore_serializer(self) -> VersionedSerializer:
        return self.serializer

    def resolve_schema_compatibility(self, old_snapshot: TypeSerializerSnapshot[Value]) -> Compatibility:
        if not isinstance(old_snapshot, VersionedSnapshot):
            return TypeSerializerSchemaCompatibility.incompatible("these values had no version")
        old, new = old_snapshot.serializer.version, self.serializer
        if old == new.version:
            return TypeSerializerSchemaCompatibility.compatible_as_is()
        if old in new.migrates:
            return TypeSerializerSchemaCompatibility.compatible_after_migration("the order changed")
        if old in new.reconfigures:
            return TypeSerializerSchemaCompatibility.compatible_with_reconfigured_serializer(
                VersionedSerializer(old)
            )
        return TypeSerializerSchemaCompatibility.incompatible(f"version {old} is not known")


class _Last(declared.AggregateFunction[Value, Value, Value]):
    def create_accumulator(self) -> Value:
        return "", 0

    def add(self, value: Value, accumulator: Value) -> Value:
        return value

    def get_result(self, accumulator: Value) -> Value:
        return accumulator


KINDS = ["one", "many", "named", "keyed", "most", "last"]
"""Kinds of states for :func:`versioned`; "keyed" has the serializer for the keys of a map."""


def versioned(kind: str, serializer: VersionedSerializer) -> dict[str, declared.StateDescriptor]:
    """Return the declaration, {kind: descriptor}, of one state of a kind in :data:`KINDS`. `serializer` is
    for its values, for "keyed" for the keys of the map.
    """

    class Program:
        one: declared.ValueState[Value] = declared.value_state(serializer=serializer)
        many: declared.ListState[Value] = declared.list_state(serializer=serializer)
        named: declared.MapState[str, Value] = declared.map_state(serializer=serializer)
        keyed: declared.MapState[Value, int] = declared.map_state(key_serializer=serializer)
        most: declared.ReducingState[Value] = declared.reducing_state(max, serializer=serializer)
        last: declared.AggregatingState[Value, Value] = declared.aggregating_state(
            _Last(), serializer=serializer
        )

    return {kind: declared.declared_state(Program())[kind]}


def put(kind: str, handle: Any, value: Value) -> None:
    """Put a value into the state of `kind` behind `handle`, for the key that its backend is bound to. A list
    or map state keeps its other values; a reducing or aggregating state folds the value in.
    """
    if kind == "one":
        handle.value = value
    elif kind == "named":
        handle.put(value[0], value)
    elif kind == "keyed":
        handle.put(value, value[1])
    else:
        handle.add(value)


def held(kind: str, handle: Any) -> list[Value]:
    """Return the values that the state of `kind` behind `handle` holds for the key that its backend is bound
    to; of reducing and aggregating state the result.
    """
    if kind == "many":
        found: list[Value] = handle.get()
        return found
    if kind in ("named", "keyed"):
        return [entry[0] if kind == "keyed" else entry[1] for entry in handle.items()]
    return [handle.value if kind == "one" else handle.get()]
