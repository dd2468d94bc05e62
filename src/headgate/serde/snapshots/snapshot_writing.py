"""Writes snapshots of serializers in their stored form; `snapshot_wire` reads it.

A stored snapshot is the version of this form and a versioned snapshot. That is the logical name of its
class, the version of its layout, the length of its body, and the body.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from headgate.common.errors import HeadgateError, UsageError
from headgate.common.process.interruptions import let_pass
from headgate.common.refusals.users_frames import text_with_line
from headgate.serde.logical_names import logical_name
from headgate.serde.snapshots.snapshot_views import DataOutputView

FORM_VERSION: Final = 2

_PICKLE_HEAD: Final = re.compile(rb"\x80[\x02-\x05]")


class WritesItself(Protocol):
    """What of `serializer.TypeSerializerSnapshot` is needed to write one."""

    def current_version(self) -> int:
        """The version of the layout that :meth:`write_snapshot` writes."""

    def write_snapshot(self, out: DataOutputView) -> None:
        """Write what makes up the format."""


def snapshot_to_bytes(snapshot: WritesItself) -> bytes:
    """The stored form of a snapshot."""
    out = DataOutputView()
    out.write_int(FORM_VERSION)
    write_versioned(out, snapshot)
    return out.to_bytes()


def write_versioned(out: DataOutputView, snapshot: WritesItself) -> None:
    """Write name, version and body of a snapshot."""
    name = logical_name(type(snapshot))
    body = DataOutputView()
    try:
        version = snapshot.current_version()
        snapshot.write_snapshot(body)
    except HeadgateError:
        raise
    except BaseException as error:  # the user's code raises whatever it likes
        let_pass(error)
        raise UsageError(f"{name} cannot be written ({text_with_line(error)})") from error
    data = body.to_bytes()
    if _holds_pickle(data):
        raise UsageError(
            f"{name} writes a pickled object, which becomes unreadable when its class changes; write names, "
            "numbers and texts, and look the class up by its name when reading"
        )
    out.write_utf(name)
    out.write_int(version)
    out.write_bytes(data)


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
