"""Schema evolution of values under a program's own serializer, which its serializer snapshot judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import headgate.serde.resolve  # noqa: F401 - registers the rules that described snapshots ask for
from headgate.common.errors import HeadgateError, StorageError, UsageError
from headgate.common.plain_data import Description, mapping_in, text_in
from headgate.common.process.process_exceptions import let_pass
from headgate.common.refusals.users_frames import text_with_line
from headgate.serde.composite_snapshot import CompositeTypeSerializerSnapshot
from headgate.serde.composites import ListSerializerSnapshot, MapSerializerSnapshot
from headgate.serde.described_snapshot import DescribedSnapshot
from headgate.serde.evolution.older_shapes import Reader, holds_custom
from headgate.serde.logical_names import logical_name
from headgate.serde.serializer import (
    AnySnapshot,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from headgate.serde.snapshots.snapshot_wire import SnapshotClass, snapshot_from_bytes
from headgate.serde.verdicts import Incompatible

T = TypeVar("T")

UNNAMED: Final = "the one before"  # the serializer that wrote stored values, if its name is unknown

_VERSION: Final = 1


def judge_stored(stored: Description, current: TypeSerializer[T]) -> TypeSerializerSchemaCompatibility[T]:
    """Return the verdict of `current`, the program's serializer, on stored values; UsageError: code fails."""
    return judge_snapshot(stored_snapshot(stored, current), current, writer_of(stored))


def judge_snapshot(
    old_snapshot: TypeSerializerSnapshot[T], current: TypeSerializer[T], writer: str = UNNAMED
) -> TypeSerializerSchemaCompatibility[T]:
    """Return the verdict of `current`, the new serializer, on an old snapshot; "incompatible" names both.

    `writer` is the name of the serializer that wrote the values. UsageError if the snapshot's code fails.
    """
    new_snapshot = current.snapshot()
    name = logical_name(type(new_snapshot))
    try:
        judged = new_snapshot.resolve_schema_compatibility(old_snapshot)
    except HeadgateError:
        raise
    except BaseException as error:  # the user's code raises whatever it likes
        let_pass(error)
        raise UsageError(
            f"{name} cannot judge what {logical_name(type(old_snapshot))} was stored with "
            f"({text_with_line(error)})"
        ) from error
    if not isinstance(judged, TypeSerializerSchemaCompatibility):
        raise UsageError(
            f"{name}.resolve_schema_compatibility() gave {judged!r:.80}; expected a "
            "TypeSerializerSchemaCompatibility"
        )
    verdict = judged.verdict
    if not isinstance(verdict, Incompatible):
        return judged
    return TypeSerializerSchemaCompatibility.incompatible(
        f"serializer {current.name} cannot take the place of {writer}, which wrote the values: {verdict.why}"
    )


def stored_snapshot(stored: Description, current: TypeSerializer[T]) -> AnySnapshot:
    """Return the serializer snapshot that a stored description holds; for built-in types, make one of it.

    Its class is one of the snapshots of `current`, else imported; UsageError: missing, StorageError: damaged.
    """
    if stored["kind"] == "custom":
        if stored.get("version") != _VERSION:
            raise UsageError(
                f"was stored in version {stored.get('version')} of its format; this Headgate reads {_VERSION}"
            )
        data = stored.get("snapshot")
        if not isinstance(data, bytes):
            raise StorageError("the description of a serializer holds no snapshot; it is damaged")
        return snapshot_from_bytes(data, snapshot_classes(current.snapshot()))
    if not holds_custom(stored):
        return DescribedSnapshot(stored)
    make, parts = _CONTAINERS[text_in(stored, "kind")]
    return make([stored_snapshot(mapping_in(stored, part), current) for part in parts])


def snapshot_classes(snapshot: TypeSerializerSnapshot[T]) -> tuple[SnapshotClass, ...]:
    return tuple(dict.fromkeys(map(type, _with_nested(snapshot))))


def reader_of_stored(stored: Description, current: TypeSerializer[T]) -> Reader:
    """Return a function (bytes, count) that decodes stored batches as values that `current` can write.
    UsageError if the verdict is "incompatible".
    """
    old_snapshot = stored_snapshot(stored, current)
    judged = judge_snapshot(old_snapshot, current, writer_of(stored))
    if isinstance(judged.verdict, Incompatible):
        raise UsageError(judged.verdict.why)
    return reading(judged, old_snapshot, current).decode_stored


def reading(
    judged: TypeSerializerSchemaCompatibility[T],
    old_snapshot: TypeSerializerSnapshot[T],
    current: TypeSerializer[T],
) -> TypeSerializer[T]:
    """Return the serializer to read old bytes for `current` by verdict `judged`, which must be compatible."""
    if judged.is_compatible_as_is:
        return current
    if judged.is_compatible_with_reconfigured_serializer:
        return judged.reconfigured_serializer
    return old_snapshot.restore_serializer_for(current)


def _with_nested(snapshot: TypeSerializerSnapshot[T]) -> Iterator[TypeSerializerSnapshot[T]]:
    yield snapshot
    if isinstance(snapshot, CompositeTypeSerializerSnapshot):
        for nested in snapshot.nested_snapshots:
            yield from _with_nested(nested)


def writer_of(stored: Description) -> str:
    return _name_of(stored) if holds_custom(stored) else f"the built-in one of {_name_of(stored)}"


def _name_of(stored: Description) -> str:
    kind = text_in(stored, "kind")
    if kind == "custom":
        return text_in(stored, "name")
    parts = _CONTAINERS[kind][1] if kind in _CONTAINERS else ()
    inner = ", ".join(_name_of(mapping_in(stored, part)) for part in parts)
    return f"{kind}[{inner}]" if inner else kind


_CONTAINERS: Final[dict[str, tuple[Callable[[list[AnySnapshot]], AnySnapshot], tuple[str, ...]]]] = {
    "list": (ListSerializerSnapshot.of_nested, ("of",)),
    "dict": (MapSerializerSnapshot.of_nested, ("key", "value")),
}
