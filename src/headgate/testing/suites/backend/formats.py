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
    """Stores a text and a number: odd versions of the format write the text first, even ones the number.

    It migrates values of the versions `migrates`, and continues with the format of those in `reconfigures`.
    """

    immutable = True

    def __init__(
        self, version: int, migrates: tuple[int, ...] = (), reconfigures: tuple[int, ...] = ()
    ) -> None:
        self.version, self.migrates, self.reconfigures = version, migrates, reconfigures

    def encode(self, value: Value) -> bytes:
        """Return text and number joined by a bar, in the order of this version."""
        text, number = value
        return "|".join((text, str(number)) if self.version % 2 else (str(number), text)).encode()

    def decode(self, data: bytes) -> Value:
        """Return the (text, number) that this version's `encode` wrote."""
        first, second = data.decode().split("|")
        return (first, int(second)) if self.version % 2 else (second, int(first))

    def snapshot(self) -> VersionedSnapshot:
        """Return a snapshot that holds this serializer's version."""
        return VersionedSnapshot(self)


class VersionedSnapshot(TypeSerializerSnapshot[Value]):
    """Serializer snapshot that stores the version of the serializer which wrote the values."""

    def __init__(self, serializer: VersionedSerializer | None = None) -> None:
        self.serializer = serializer or VersionedSerializer(0)

    def current_version(self) -> int:
        """Return 1, the only version of the snapshot's own format."""
        return 1

    def write_snapshot(self, out: DataOutputView) -> None:
        """Write the version of the serializer."""
        out.write_int(self.serializer.version)

    def read_snapshot(self, read_version: int, in_: DataInputView) -> None:
        """Read the stored version, and make the serializer that :meth:`restore_serializer` returns."""
        self.serializer = VersionedSerializer(in_.read_int())

    def restore_serializer(self) -> VersionedSerializer:
        """Return a serializer of the stored version."""
        return self.serializer

    def resolve_schema_compatibility(self, old_snapshot: TypeSerializerSnapshot[Value]) -> Compatibility:
        """Return the verdict on values of the old snapshot's version: as is, migrate, reconfigure, refuse."""
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
    """Return the declaration of one state of a kind (see KINDS), whose values, or keys, have `serializer`."""

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
    """Put a value into the state behind `handle`; a state of several values keeps those that it has."""
    if kind == "one":
        handle.value = value
    elif kind == "named":
        handle.put(value[0], value)
    elif kind == "keyed":
        handle.put(value, value[1])
    else:
        handle.add(value)


def held(kind: str, handle: Any) -> list[Value]:
    """Return the values that the state behind `handle` holds for the current key."""
    if kind == "many":
        found: list[Value] = handle.get()
        return found
    if kind in ("named", "keyed"):
        return [entry[0] if kind == "keyed" else entry[1] for entry in handle.items()]
    return [handle.value if kind == "one" else handle.get()]
