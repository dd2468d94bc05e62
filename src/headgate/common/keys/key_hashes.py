"""A key's 32-bit hash, which is part of the stored bytes: the same on every platform and version for ever.

Keys that are equal in Python hash equal, because a dict holds them as one key: ``1``, ``1.0`` and
``True`` are one key, so are ``0.0`` and ``-0.0``, and so are two aware datetimes of one instant.
"""

from __future__ import annotations

import datetime as dt
import enum
import struct
import uuid
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeAlias

from headgate.common.errors import UsageError
from headgate.common.files.durable import crc32

Key: TypeAlias = "int | str | bytes | float | dt.datetime | dt.date | uuid.UUID | tuple[Key, ...]"
"""The types of keys; a bool is an int."""

ALLOWED_KEYS: Final = "int, str, bytes, bool, float, datetime, date, UUID, or a tuple of these"

_MASK: Final = 0xFFFFFFFF
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - wall clocks are subtracted from it
_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_MICROSECOND: Final = dt.timedelta(microseconds=1)


def key_hash(key: Hashable) -> int:
    """Return the stable hash of a key, as an unsigned 32-bit number.

    Args:
        key: int, str, bytes, bool, float, datetime, date, UUID, or a tuple of these. Subclasses are refused,
            as they would not come back from a checkpoint as what they were; so are None and NaN (UsageError).

    Example:
        >>> key_hash(42), key_hash(42.0), key_hash("flink"), key_hash((1, 2))
        (42, 42, 3350737693, 994)
    """
    hasher = _HASHERS.get(type(key))
    if hasher is None:
        raise UsageError(
            f"a key is {shortened(key)} of type {type_name(key)}; expected {ALLOWED_KEYS}{_plain_form(key)}"
        )
    return hasher(key)


def combine(total: int, element: int) -> int:
    """Return the hash of a tuple's first elements, from `total`, the hash of all but the last of them.

    `total` is 1 if there are none; `element` is the :func:`key_hash` of the last. All have 32 bits, unsigned.
    """
    return (31 * total + element) & _MASK


def shortened(key: object, limit: int = 60) -> str:
    text = repr(key)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def type_name(value: object) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _plain_form(key: object) -> str:
    if key is None:
        return "; fill or filter records without a key before key_by"
    if isinstance(key, enum.Enum):
        return "; make the key selector give the member's value"
    return "; make the key selector give tuple(...) of it" if isinstance(key, tuple) else ""


def _hash_int(key: int) -> int:
    if -0x80000000 <= key <= 0x7FFFFFFF:
        return key & _MASK
    if -0x8000000000000000 <= key <= 0x7FFFFFFFFFFFFFFF:
        return (key ^ (key >> 32)) & _MASK
    return crc32(key.to_bytes(key.bit_length() // 8 + 1, "big", signed=True))


def _hash_float(key: float) -> int:
    if key.is_integer():
        return _hash_int(int(key))
    if key != key:
        raise UsageError("a key is NaN, which equals nothing, not even itself; drop or replace such records")
    bits: int = struct.unpack("<Q", struct.pack("<d", key))[0]
    return (bits ^ (bits >> 32)) & _MASK


def _hash_tuple(key: tuple[Key, ...]) -> int:
    total = 1
    for element in key:
        total = combine(total, key_hash(element))
    return total


def _hash_datetime(key: dt.datetime) -> int:
    micros = (key.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    if key.tzinfo is not None:
        # Equality within one zone looks at the wall clock alone, so both folds must give one hash.
        # On integers, as an instant near year 1 or 9999 may have no UTC datetime.
        micros -= (key.replace(fold=0).utcoffset() or dt.timedelta()) // _MICROSECOND
    return _hash_int(micros)


_HASHERS: Final[dict[type, Callable[[Any], int]]] = {
    int: _hash_int,
    bool: _hash_int,
    str: lambda key: crc32(key.encode("utf-8", "surrogatepass")),
    bytes: crc32,
    float: _hash_float,
    tuple: _hash_tuple,
    dt.datetime: _hash_datetime,
    dt.date: lambda key: (key.toordinal() - _EPOCH_DAY) & _MASK,
    uuid.UUID: lambda key: crc32(key.bytes),
}
