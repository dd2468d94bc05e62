"""The binary streams to which serializers' snapshots are written, and from which they are read.

Numbers are big-endian. Reads are bounded by the bytes that are left: a damaged length is noticed before
memory of that size is taken. A stored snapshot is the version of its form and a versioned snapshot: the
logical name of its class, the version of its layout, the length of its body, and the body.
"""

from __future__ import annotations

import re
import struct
from typing import Final, Protocol

from headgate.common.errors import HeadgateError, StorageError, UsageError
from headgate.common.process.process_exceptions import let_pass
from headgate.common.refusals.users_frames import text_with_line
from headgate.serde.logical_names import logical_name

_BOOLEAN: Final = struct.Struct(">?")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_DOUBLE: Final = struct.Struct(">d")
_SHORT: Final = struct.Struct(">H")
_SIZE: Final = struct.Struct(">I")

FORM_VERSION: Final = 2
_PICKLE_HEAD: Final = re.compile(rb"\x80[\x02-\x05]")


class DataOutputView:
    """Output stream of a serializer's snapshot: takes its parts one after the other.

    Example:
        >>> out = DataOutputView()
        >>> out.write_int(3)
        >>> out.write_utf("cm")
        >>> out.to_bytes().hex()
        '000000030002636d'
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write_boolean(self, value: bool) -> None:
        """Write a value's truth as one byte."""
        self._pack(_BOOLEAN, value)

    def write_int(self, value: int) -> None:
        """Write an integer in four bytes, with sign.

        Raises:
            UsageError: the value does not fit 32 bits, or is no integer.
        """
        self._pack(_INT, value)

    def write_long(self, value: int) -> None:
        """Write an integer in eight bytes, with sign.

        Raises:
            UsageError: the value does not fit 64 bits, or is no integer.
        """
        self._pack(_LONG, value)

    def write_double(self, value: float) -> None:
        """Write a float in eight bytes.

        Raises:
            UsageError: the value is no number.
        """
        self._pack(_DOUBLE, value)

    def write_utf(self, text: str) -> None:
        """Write text: two bytes of length and UTF-8.

        Raises:
            UsageError: the text has more than 65,535 bytes, or cannot be encoded.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"write_utf() got text that UTF-8 cannot hold ({error})") from None
        self._pack(_SHORT, len(data))
        self._parts.append(data)

    def write_bytes(self, data: bytes) -> None:
        """Write bytes with four bytes of their length before them.

        Raises:
            UsageError: they are 4 GiB or more.
        """
        self._pack(_SIZE, len(data))
        self._parts.append(bytes(data))

    def to_bytes(self) -> bytes:
        """Return the bytes written so far."""
        return b"".join(self._parts)

    def _pack(self, layout: struct.Struct, value: float) -> None:
        try:
            self._parts.append(layout.pack(value))
        except struct.error as error:
            raise UsageError(
                f"a serializer's snapshot writes {value!r:.80}, which does not fit ({error}); use a "
                "wider form"
            ) from None


class DataInputView:
    """Input stream of a serializer's snapshot: gives its parts in the order in which they were written.

    Args:
        data: the bytes that a :class:`DataOutputView` has collected.

    Example:
        >>> view = DataInputView(bytes.fromhex("000000030002636d"))
        >>> view.read_int(), view.read_utf(), view.remaining
        (3, 'cm', 0)
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self._data, self._at = memoryview(data), 0

    @property
    def remaining(self) -> int:
        """The number of bytes that were not read yet."""
        return len(self._data) - self._at

    def read_boolean(self) -> bool:
        """Read a boolean: one byte, 0 or 1.

        Raises:
            StorageError: the byte is another one, or no byte is left.
        """
        byte = self._take(1)[0]
        if byte > 1:
            raise StorageError(f"a serializer's snapshot is damaged: a boolean is {byte}, expected 0 or 1")
        return byte == 1

    def read_int(self) -> int:
        """Read an integer of four bytes that :meth:`DataOutputView.write_int` wrote.

        Raises:
            StorageError: fewer bytes are left.
        """
        return int(self._unpack(_INT))

    def read_long(self) -> int:
        """Read an integer of eight bytes that :meth:`DataOutputView.write_long` wrote.

        Raises:
            StorageError: fewer bytes are left.
        """
        return int(self._unpack(_LONG))

    def read_double(self) -> float:
        """Read a float that :meth:`DataOutputView.write_double` wrote.

        Raises:
            StorageError: fewer bytes are left.
        """
        return float(self._unpack(_DOUBLE))

    def read_utf(self) -> str:
        """Read text that :meth:`DataOutputView.write_utf` wrote.

        Raises:
            StorageError: less is left than its length says, or it is no UTF-8.
        """
        try:
            return str(self._take(int(self._unpack(_SHORT))), "utf-8")
        except UnicodeDecodeError as error:
            raise StorageError(
                f"a serializer's snapshot is damaged: text does not decode ({error})"
            ) from None

    def read_bytes(self) -> bytes:
        """Read bytes that :meth:`DataOutputView.write_bytes` wrote.

        Raises:
            StorageError: less is left than their length says.
        """
        return bytes(self._take(int(self._unpack(_SIZE))))

    def _unpack(self, layout: struct.Struct) -> float:
        value: float = layout.unpack(self._take(layout.size))[0]
        return value

    def _take(self, length: int) -> memoryview:
        if length > self.remaining:
            raise StorageError(
                f"a serializer's snapshot is damaged or was written in another layout: {length} bytes are "
                f"asked for, {self.remaining} are left"
            )
        start, self._at = self._at, self._at + length
        return self._data[start : self._at]


class WritesItself(Protocol):
    """The methods of a `serializer.TypeSerializerSnapshot` that are called to store it."""

    def current_version(self) -> int:
        """Return the version of the layout that :meth:`write_snapshot` writes."""

    def write_snapshot(self, out: DataOutputView) -> None:
        """Write what determines the serializer's format."""


def snapshot_to_bytes(snapshot: WritesItself) -> bytes:
    """Return a snapshot's stored form: form version, class name, layout version, body; else UsageError."""
    out = DataOutputView()
    out.write_int(FORM_VERSION)
    write_versioned(out, snapshot)
    return out.to_bytes()


def write_versioned(out: DataOutputView, snapshot: WritesItself) -> None:
    """Write a snapshot's class name, layout version and body; UsageError if that fails or holds a pickle."""
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
    return any(_is_pickle(data[found.start() :]) for found in _PICKLE_HEAD.finditer(data))


def _is_pickle(data: bytes) -> bool:
    from pickletools import genops  # only reads operations; hardly ever needed

    try:
        operations = [operation.name for operation, _, _ in genops(data)]
    except (ValueError, IndexError, UnicodeDecodeError):
        return False
    return len(operations) > 2
