"""The stored form of serializers' snapshots, and how their classes are found again.

A stored snapshot is the version of this form and a versioned snapshot. That is the logical name of its
class, the version of its layout, the length of its body, and the body. Its class is the one of the new
serializer, if that has or had the name, else what the name imports.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from headgate.common.errors import HeadgateError, StorageError, UsageError
from headgate.common.former_names import former_names
from headgate.common.interruptions import let_pass
from headgate.common.users_frames import told_with_line
from headgate.serde.logical_names import class_named, logical_name
from headgate.serde.snapshot import TypeSerializerSnapshot
from headgate.serde.snapshot_views import DataInputView, DataOutputView

FORM_VERSION: Final = 2

_PICKLE_HEAD: Final = re.compile(rb"\x80[\x02-\x05]")

SnapshotClass = type[TypeSerializerSnapshot[Any]]


def snapshot_to_bytes(snapshot: TypeSerializerSnapshot[Any]) -> bytes:
    """The stored form of a snapshot.

    Raises:
        UsageError: it cannot be written, or writes pickled objects.
    """
    out = DataOutputView()
    out.write_int(FORM_VERSION)
    write_versioned(out, snapshot)
    return out.to_bytes()


def snapshot_from_bytes(data: bytes, known: Collection[SnapshotClass] = ()) -> TypeSerializerSnapshot[Any]:
    """The snapshot of a stored form.

    Args:
        data: the stored form.
        known: classes that are looked at first, also under their former names.

    Raises:
        StorageError: the bytes are damaged, or of a version that is not read.
        UsageError: the class cannot be found, or is no snapshot class.
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


def write_versioned(out: DataOutputView, snapshot: TypeSerializerSnapshot[Any]) -> None:
    """Write name, version and body of a snapshot.

    Raises:
        UsageError: it cannot be written, or writes pickled objects.
    """
    name = logical_name(type(snapshot))
    body = DataOutputView()
    try:
        version = snapshot.current_version()
        snapshot.write_snapshot(body)
    except HeadgateError:
        raise
    except BaseException as error:  # the user's code raises whatever it likes
        let_pass(error)
        raise UsageError(f"{name} cannot be written ({told_with_line(error)})") from error
    data = body.to_bytes()
    if _holds_pickle(data):
        raise UsageError(
            f"{name} writes a pickled object, which becomes unreadable when its class changes; write names, "
            "numbers and texts, and look the class up by its name when reading"
        )
    out.write_utf(name)
    out.write_int(version)
    out.write_bytes(data)


def read_versioned(view: DataInputView, known: Collection[SnapshotClass] = ()) -> TypeSerializerSnapshot[Any]:
    """Read one snapshot; see :func:`snapshot_from_bytes`.

    Raises:
        StorageError: the bytes are damaged, or of a version that is not read.
        UsageError: the class cannot be found, or is no snapshot class.
    """
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
            f"({told_with_line(error)})"
        ) from error
    if body.remaining:
        raise StorageError(
            f"{logical_name(type(snapshot))} left {body.remaining} bytes of version {version} of its layout "
            "unread; read all that was written in this version"
        )
    return snapshot


class NestsSnapshots:
    """The part of a snapshot that reads further ones.

    Attributes:
        known: classes that are looked at first when they are read.
    """

    known: tuple[SnapshotClass, ...] = ()


def _class_of(name: str, known: Collection[SnapshotClass]) -> Any:
    for cls in known:
        if name in (logical_name(cls), *former_names(cls)):
            return cls
    try:
        return class_named(name)
    except UsageError as error:
        raise UsageError(
            f"the snapshot class that stored values were written with is gone: {error}; keep it, or mark the "
            f"snapshot class that takes its place with @hg.formerly({name!r})"
        ) from None


def _made(cls: Any, name: str) -> TypeSerializerSnapshot[Any]:
    if not (isinstance(cls, type) and issubclass(cls, TypeSerializerSnapshot)):
        raise UsageError(f"{name} is no TypeSerializerSnapshot; keep the class that stored values name")
    try:
        return cls()
    except BaseException as error:  # the user's code raises whatever it likes
        let_pass(error)
        raise UsageError(
            f"{name} cannot be made without arguments ({told_with_line(error)}); give its arguments "
            "defaults and let read_snapshot() fill it"
        ) from error


def _holds_pickle(data: bytes) -> bool:
    """Whether a complete pickle of protocol 2 to 5 lies anywhere in the bytes."""
    return any(_is_pickle(data[found.start() :]) for found in _PICKLE_HEAD.finditer(data))


def _is_pickle(data: bytes) -> bool:
    from pickletools import genops  # only reads operations; hardly ever needed

    try:
        operations = [operation.name for operation, _, _ in genops(data)]
    except (ValueError, IndexError, UnicodeDecodeError):
        return False
    return len(operations) > 2
