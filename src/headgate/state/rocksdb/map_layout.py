"""A map state in RocksDB: an entry for each entry of a map, and one that says how many there are.

Under the bytes of the stream's key lies the head: how many entries there are, and the place of the next one.
Behind the same bytes and those of the map's own key lies an entry: its place in the order of insertion, then
a map of it alone, so that what reads older types of a map reads those of its entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

from headgate.api.state import StateKind
from headgate.common.errors import StorageError
from headgate.serde.composites import MapSerializer
from headgate.serde.dynamic import NotPlainError, encode_tagged
from headgate.serde.forms import FormSerializer
from headgate.serde.serializer import TypeSerializer
from headgate.state.heap.restore import Target
from headgate.state.rocksdb.database import ColumnStore
from headgate.state.rocksdb.keys import groups_range, one_form, prefix_length
from headgate.state.rocksdb.layout import Entries, Row, VersionedValues, where
from headgate.state.rocksdb.versions import decoded
from headgate.state.targets import DeclaredSerializer

MAP_ENTRIES: Final = 3

_HEAD: Final = struct.Struct(">QQ")
_PLACE: Final = struct.Struct(">Q")
_ENTRY: Final = 1 + _PLACE.size
_SKIPPED_MIN: Final = 16
"""To pass over so many entries costs more than to look for what lies behind them."""

_KEYS: Final = frozenset({"none", "bool", "int", "str", "bytes", "date", "datetime", "timedelta", "uuid"})
_OF_KEYS: Final = frozenset({"tuple", "tuple_of", "union", "literal"})


class MapEntries(VersionedValues):
    """Format 3: see the module. The number of the type stands first in entries and heads alike."""

    format = MAP_ENTRIES

    def rows(self, store: ColumnStore, groups: tuple[int, int]) -> Iterator[Row]:
        """See :class:`~headgate.state.rocksdb.layout.Layout`."""
        low, high = groups_range(*groups)
        yield from self.maps(store, low, high)

    def maps(self, store: ColumnStore, start: bytes, stop: bytes, *, ahead: bool = True) -> Iterator[Row]:
        """The maps of a range of keys' bytes.

        Raises:
            StorageError: an entry is damaged.
            UsageError: a value of an older type cannot become one of the declared type.
        """
        found: dict[int, tuple[Any, Any]] = {}
        head, count = b"", 0
        for stored, data in store.items(start, stop, ahead=ahead):
            if len(stored) == prefix_length(stored):
                if head:
                    yield _row(head, count, found)
                head, count, found = stored, self.read_head(stored, data)[0], {}
            else:
                place, key, value = self.read_entry(stored, data)
                found[place] = key, value
        if head:
            yield _row(head, count, found)

    def heads(self, store: ColumnStore) -> Iterator[bytes]:
        """The bytes of the stream's keys that have a map; large maps are not gone through."""
        start = b""
        while True:
            for stored, data in store.items(start, ahead=False):
                if len(stored) == prefix_length(stored):
                    yield stored
                    if self.read_head(stored, data)[0] >= _SKIPPED_MIN:
                        start = behind(stored)
                        break
            else:
                return

    def entries(self, stored: bytes, value: Any) -> Entries:
        """See :class:`~headgate.state.rocksdb.layout.Layout`."""
        yield stored, self.head(len(value), len(value))
        encoded = self.versions.encode([{key: each} for key, each in value.items()])
        for place, (key, data) in enumerate(zip(value, encoded, strict=True)):
            yield stored + suffix(key), entry(place, data)

    def migrated(self, stored: bytes, data: bytes) -> bytes:
        """See :class:`~headgate.state.rocksdb.layout.Layout`."""
        if len(stored) == prefix_length(stored):
            return self.versions.prefix + data[1:]
        place, key, value = self.read_entry(stored, data)
        return entry(place, self.versions.encode([{key: value}])[0])

    def head(self, count: int, next_place: int) -> bytes:
        """What lies under a stream's key."""
        return self.versions.prefix + _HEAD.pack(count, next_place)

    def read_head(self, stored: bytes, data: bytes) -> tuple[int, int]:
        """How many entries there are, and the place of the next one.

        Raises:
            StorageError: it is no head.
        """
        if len(data) != 1 + _HEAD.size:
            raise StorageError(
                f"state {self.versions.name!r}, {where(stored)}: the head of a map has {len(data)} bytes, "
                f"expected {1 + _HEAD.size}; it is damaged"
            )
        count, next_place = _HEAD.unpack_from(data, 1)
        return count, next_place

    def read_entry(self, stored: bytes, data: bytes) -> tuple[int, Any, Any]:
        """Place, key and value of an entry of a map.

        Raises:
            StorageError: the entry is damaged.
            UsageError: a value of an older type cannot become one of the declared type.
        """
        if len(data) < _ENTRY:
            raise StorageError(
                f"state {self.versions.name!r}, {where(stored)}: an entry of a map has {len(data)} bytes, "
                f"expected {_ENTRY} or more; it is damaged"
            )
        one = decoded(self.versions, where(stored), data[:1] + data[_ENTRY:])
        if len(one) != 1:
            raise StorageError(
                f"state {self.versions.name!r}, {where(stored)}: an entry of a map holds {len(one)}; "
                "it is damaged"
            )
        ((key, value),) = one.items()
        return _PLACE.unpack_from(data, 1)[0], key, value


def entry(place: int, encoded: bytes) -> bytes:
    """What lies under a map's key: `encoded` is its map of one, with the number of its type in front."""
    return encoded[:1] + _PLACE.pack(place) + encoded[1:]


def suffix(key: Any) -> bytes:
    """The bytes of a map's own key, the same for keys that a dict takes for one.

    Raises:
        NotPlainError: it is no plain value, and none in another class.

    Example:
        >>> suffix(7).hex(), suffix(True) == suffix(1), suffix("a").hex()
        ('07', True, 'a161')
    """
    try:
        return encode_tagged(one_form(key))
    except NotPlainError:
        if isinstance(key, int):
            return encode_tagged(int.__index__(key))
        if isinstance(key, str | bytes):
            return encode_tagged(key[:])
        raise


def behind(stored: bytes) -> bytes:
    """The least bytes behind all that begin with those of a stream's key.

    Example:
        >>> behind(bytes([1, 2])).hex(), behind(bytes([1, 255])).hex()
        ('0103', '02')
    """
    start = stored.rstrip(b"\xff")
    return start[:-1] + bytes((start[-1] + 1,))


def has_entries_apart(target: Target) -> bool:
    """Whether a state is a map whose keys have one form each, so that bytes tell its entries apart."""
    return target.schema["kind"] == StateKind.MAP and _one_form_each(target.schema["of"][0])


def _one_form_each(description: Mapping[str, Any]) -> bool:
    kind = description["kind"]
    if kind not in _OF_KEYS:
        return kind in _KEYS
    of = description["of"]
    return all(map(_one_form_each, of if isinstance(of, list) else [of]))


def values_immutable(serializer: TypeSerializer[Any]) -> bool:
    """Whether values of a map can never be changed in place."""
    current = serializer.current if isinstance(serializer, DeclaredSerializer) else serializer
    if isinstance(current, FormSerializer):
        return current.form.inner[1].immutable
    return isinstance(current, MapSerializer) and current.value.immutable


def _row(stored: bytes, count: int, found: dict[int, tuple[Any, Any]]) -> Row:
    if len(found) != count:
        raise StorageError(
            f"a map in RocksDB, {where(stored)}, has {len(found)} entries, and its head says {count}; "
            "it is damaged"
        )
    return Row(stored, dict(found[place] for place in sorted(found)), max(1, count))
