"""Reads serializers' snapshots in their stored form, which is in `snapshot_views`.

A stored snapshot names its class. The new serializer's snapshot class is taken if that is, or was, its name;
else the class is imported by the name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from headgate.common.errors import HeadgateError, StorageError, UsageError
from headgate.common.former_names import former_names
from headgate.common.process.process_exceptions import let_pass
from headgate.common.refusals.users_frames import text_with_line
from headgate.serde.logical_names import class_named, logical_name
from headgate.serde.serializer import AnySnapshot, TypeSerializerSnapshot
from headgate.serde.snapshots.snapshot_views import FORM_VERSION, DataInputView
from headgate.serde.snapshots.snapshot_views import snapshot_to_bytes as snapshot_to_bytes
from headgate.serde.snapshots.snapshot_views import write_versioned as write_versioned

T = TypeVar("T")

SnapshotClass = type[AnySnapshot]


def snapshot_from_bytes(data: bytes, known: Collection[SnapshotClass] = ()) -> AnySnapshot:
    """Return the serializer snapshot whose stored form `data` is.

    Its class is first looked for in `known`, also under former names. UsageError if the class is missing or
    cannot be made without arguments; StorageError if the bytes are damaged.
    """
    view = DataInputView(data)
    version = view.read_int()
    if version != FORM_VERSION:
        raise StorageError(
            f"a serializer's snapshot is stored in form {version}; this Headgate reads {FORM_VERSION}"
        )
    snapshot = read_versioned(view, known)
    if view.remaining:
        raise StorageError(f"a serializer's snapshot is damaged: {view.remaining} bytes follow it")
    return snapshot


def read_versioned(view: DataInputView, known: Collection[SnapshotClass] = ()) -> AnySnapshot:
    """Return the snapshot that `write_versioned` wrote; `known` and errors as in `snapshot_from_bytes`."""
    name, version, body = view.read_utf(), view.read_int(), DataInputView(view.read_bytes())
    snapshot = _made(_class_of(name, known), name)
    if isinstance(snapshot, NestsSnapshots):
        snapshot.known = tuple(known)
    try:
        snapshot.read_snapshot(version, body)
    except HeadgateError:
        raise
    except BaseException as error:  # the user's code raises whatever it likes
        let_pass(error)
        raise StorageError(
            f"{logical_name(type(snapshot))} does not read version {version} of its layout "
            f"({text_with_line(error)})"
        ) from error
    if body.remaining:
        raise StorageError(
            f"{logical_name(type(snapshot))} left {body.remaining} bytes of version {version} of its layout "
            "unread; read all that was written in this version"
        )
    return snapshot


class NestsSnapshots:
    """Base of snapshots that read nested ones; `known` are the snapshot classes to look among first."""

    known: tuple[SnapshotClass, ...] = ()


def _class_of(name: str, known: Collection[SnapshotClass]) -> Any:
    for cls in known:
        if name in (logical_name(cls), *former_names(cls)):
            return cls
    try:
        return class_named(name)
    except UsageError as error:
        raise UsageError(
            f"the snapshot class that stored values were written with is missing: {error}; keep it, or mark "
            f"the snapshot class that takes its place with @hg.formerly({name!r})"
        ) from None


def _made(cls: Any, name: str) -> AnySnapshot:
    if not (isinstance(cls, type) and issubclass(cls, TypeSerializerSnapshot)):
        raise UsageError(f"{name} is no TypeSerializerSnapshot; keep the class that stored values name")
    try:
        return cls()
    except BaseException as error:  # the user's code raises whatever it likes
        let_pass(error)
        raise UsageError(
            f"{name} cannot be made without arguments ({text_with_line(error)}); give its arguments "
            "defaults and let read_snapshot() fill it"
        ) from error
