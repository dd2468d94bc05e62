"""The bytes under which RocksDB holds a key: key group, then the encoded key with its length.

Keys that are equal in Python are one key, as in a dict: ``1``, ``1.0`` and ``True``, both zeros, two
aware datetimes of one instant. RocksDB compares bytes, so a key is brought to one form first. What
comes back from the bytes is that form; it equals every key that was put in.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import Any, Final

from headgate.common.decoders import UNDECODABLE
from headgate.common.errors import StorageError
from headgate.common.keys.keygroups import key_group, key_groups_of_keys
from headgate.serde.codecs.dynamic import decode_tagged, encode_tagged, encode_tagged_each

_HEAD: Final = struct.Struct(">HI")
_pack: Final = _HEAD.pack
_ALMOST_A_DAY: Final = dt.timedelta(days=1) - dt.timedelta(microseconds=1)
_ZONES: Final = (dt.UTC, dt.timezone(_ALMOST_A_DAY), dt.timezone(-_ALMOST_A_DAY))
"""One of these can hold any instant that a datetime can be of; the first that can is used."""


def storage_key(key: Hashable, max_parallelism: int) -> bytes:
    """Return the bytes of one key: two of its key group and four of its length, big-endian, and the key.

    Key groups are in order, so each is one range. What follows the key is free for a namespace; the
    length keeps one key's range apart from that of a longer key with the same beginning.

    Example:
        >>> storage_key(42, 128).hex(), storage_key(42.0, 128) == storage_key(42, 128)
        ('001d000000012a', True)
    """
    group = key_group(key, max_parallelism)
    encoded = encode_tagged(one_form(key))
    return _pack(group, len(encoded)) + encoded


def storage_keys(keys: Sequence[Hashable], max_parallelism: int) -> list[bytes]:
    """Return the bytes of a batch of keys; see :func:`storage_key`."""
    if not keys:
        return []
    groups = key_groups_of_keys(keys, max_parallelism).tolist()
    encoded = encode_tagged_each(_one_forms(keys))
    return [_pack(group, len(data)) + data for group, data in zip(groups, encoded, strict=True)]


def groups_range(first: int, last: int) -> tuple[bytes, bytes]:
    """Return from which bytes (inclusive) to which (exclusive) stored keys of groups `first` to `last` lie.

    Example:
        >>> [edge.hex() for edge in groups_range(64, 127)]
        ['0040', '0080']
    """
    return first.to_bytes(2, "big"), (last + 1).to_bytes(2, "big")


def group_of(stored: bytes) -> int:
    return int.from_bytes(stored[:2], "big")


def prefix_length(stored: bytes) -> int:
    """Return how many of the bytes `stored` are the stream's key as :func:`storage_key` gives it; a map's own
    key may follow. StorageError: `stored` is shorter than that.
    """
    length = _HEAD.size + int.from_bytes(stored[2:6], "big")
    if len(stored) < length:
        raise StorageError(
            f"a key stored in RocksDB has {len(stored)} bytes, expected {length} or more; it is damaged"
        )
    return length


def key_of(stored: bytes) -> Hashable:
    """Return the stream's key in `stored` bytes: an equal one to what was put in; StorageError: damaged."""
    try:
        _, length = _HEAD.unpack_from(stored)
        if len(stored) != _HEAD.size + length:
            raise ValueError(f"{len(stored)} bytes for a key of {length}")
        key: Hashable = decode_tagged(stored[_HEAD.size :])
        return key
    except UNDECODABLE as error:
        raise StorageError(f"a key stored in RocksDB does not decode ({error}); it is damaged") from None


def one_form(key: Hashable) -> Hashable:
    # the same one for all keys that are equal
    change = _CHANGES.get(type(key))
    return key if change is None else change(key)


def whole_number(key: Hashable) -> int | None:
    """Return the int that equals a number of any class, as a dict finds it; None when there is none.

    Example:
        >>> from decimal import Decimal
        >>> whole_number(Decimal("2.0")), whole_number(2.5), whole_number("2")
        (2, None, None)
    """
    try:
        whole = int(key)  # type: ignore[call-overload]  # of whatever class it is
    except (TypeError, ValueError, OverflowError):
        return None
    return whole if whole == key else None


def _one_forms(keys: Sequence[Hashable]) -> Sequence[Hashable]:
    kinds = set(map(type, keys))
    if kinds == {tuple}:
        kinds = set(map(type, chain.from_iterable(keys)))  # type: ignore[arg-type]
    return keys if kinds.isdisjoint(_CHANGES) else [one_form(key) for key in keys]


def _of_datetime(key: dt.datetime) -> dt.datetime:
    plain = key.replace(fold=0) if key.fold else key
    offset = plain.utcoffset()
    if offset is None:
        return plain.replace(tzinfo=None)
    if plain.replace(fold=1).utcoffset() != offset:
        # Where the fold matters, Python compares within the zone and finds nothing equal outside it.
        return plain
    wall = plain.replace(tzinfo=None)
    for zone in _ZONES:
        try:
            # By arithmetic, as `astimezone` goes through UTC in any case.
            return (wall + (zone.utcoffset(None) - offset)).replace(tzinfo=zone)
        except OverflowError:  # an instant near year 1 or 9999 may have no UTC datetime
            continue
    return plain


_CHANGES: Final[dict[type, Callable[[Any], Hashable]]] = {
    bool: int,
    float: lambda key: int(key) if key.is_integer() else key,
    tuple: lambda key: tuple(map(one_form, key)),
    dt.datetime: _of_datetime,
}
