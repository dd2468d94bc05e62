"""The layout of map states in RocksDB, and the table of all layouts by their numbers in checkpoints.

Small maps are stored in one entry, large ones entry by entry. Under the bytes of the stream's key is the map
itself, or a head: how many entries there are, and the place of the next one. Each entry follows under the
same bytes and those of the map's own key: its place in the order of insertion, and a map of it alone, so that
what reads older types of a map reads those of its entries.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Hashable, Iterator, Sequence
from numbers import Number
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from headgate.api.declared.keyed_states import StateKind
from headgate.common.errors import StorageError, UsageError
from headgate.common.plain_data import Description, mappings_in
from headgate.serde.codecs.dynamic import encode_tagged
from headgate.serde.codecs.type_codec import FormSerializer
from headgate.serde.composites import MapSerializer
from headgate.serde.serializer import TypeSerializer
from headgate.state.rocksdb.chunk_layout import COLUMN_CHUNKS, ColumnChunks
from headgate.state.rocksdb.key_bytes import groups_range, one_form, prefix_length, whole_number
from headgate.state.rocksdb.value_layout import (
    PLAIN_VALUES,
    VERSIONED_VALUES,
    PlainValues,
    Row,
    Stored,
    VersionedValues,
    where,
)
from headgate.state.rocksdb.value_versions import Versions, decoded
from headgate.state.stored.entry_store import EntryStore
from headgate.state.stored.value_readers import Target
from headgate.state.targets import DeclaredSerializer

V = TypeVar("V")

MAP_ENTRIES: Final = 3

SMALL_MAX: Final = 32
"""A map of up to so many entries begins as one: one read and one write are cheaper than two of each."""

_HEAD: Final = struct.Struct(">QQ")
_PLACE: Final = struct.Struct(">Q")
_ENTRY: Final = 1 + _PLACE.size
_APART, _WHOLE = b"\0", b"\1"
"""Second byte of what is stored under the stream's key: a head, or the map itself."""
_SKIPPED_MIN: Final = 16
"""Reading over so many entries costs more than a seek to the key after them."""

_AS_THEY_ARE: Final = frozenset(
    {type(None), bool, int, float, str, bytes, dt.date, dt.datetime, dt.timedelta, UUID}
)
"""Most keys are of these classes, or tuples."""
_KEYS: Final = frozenset({"none", "bool", "int", "str", "bytes", "date", "datetime", "timedelta", "uuid"})
_OF_KEYS: Final = frozenset({"tuple", "tuple_of", "union", "literal"})


class StoredMap(NamedTuple):
    """What RocksDB holds under a stream's key for one map: the complete map if it is small, else its head."""

    size: int
    next_place: int  # of the next new entry
    whole: dict[Hashable, Any] | None  # the map itself; None: each entry is stored by itself


Found = tuple[int, Hashable, Any]
"""An entry of a map: its place in the order of insertion, its key and its value."""


class MapEntries(VersionedValues):
    """The layout of map states, format 3: a small map is one RocksDB entry, a large one head and entries."""

    format = MAP_ENTRIES

    def rows(self, store: EntryStore, groups: tuple[int, int]) -> Iterator[Row]:
        low, high = groups_range(*groups)
        yield from self.maps(store, low, high)

    def maps(self, store: EntryStore, start: bytes, stop: bytes, *, ahead: bool = True) -> Iterator[Row]:
        """Yield the stream's keys whose bytes are from `start` to before `stop`, each with its complete map.
        `ahead`: so much is wanted that the disk should read ahead; a Row's weight: the map's entries.
        """
        head, names, data = b"", list[bytes](), list[bytes]()
        found = StoredMap(0, 0, {})
        for stored, each in store.items(start, stop, ahead=ahead):
            if len(stored) != prefix_length(stored):
                names.append(stored)
                data.append(each)
                continue
            if head:
                yield self._row(head, found, names, data)
            head, names, data = stored, [], []
            found = self.read_map(stored, each)
        if head:
            yield self._row(head, found, names, data)

    def heads(self, store: EntryStore) -> Iterator[bytes]:
        start = b""
        while True:
            for stored, data in store.items(start, ahead=False):
                if len(stored) == prefix_length(stored):
                    yield stored
                    if data[1:2] == _APART and self.read_map(stored, data).size >= _SKIPPED_MIN:
                        start = behind(stored)
                        break
            else:
                return

    def entries(self, stored: bytes, value: Any) -> Stored:
        # one, or a head and one for each entry of the map
        if len(value) <= SMALL_MAX:
            yield stored, whole(self.versions.encode([value])[0])
            return
        yield stored, self.head(len(value), len(value))
        encoded = self.versions.encode([{key: each} for key, each in value.items()])
        for place, (key, data) in enumerate(zip(value, encoded, strict=True)):
            yield stored + suffix(key), entry(place, data)

    def migrated(self, stored: bytes, data: bytes) -> bytes:
        # the RocksDB entry is a map, a head or an entry of a map
        encode = self.versions.encode
        if len(stored) != prefix_length(stored):
            ((place, key, value),) = self.read_entries([stored], [data])
            return entry(place, encode([{key: value}])[0])
        found = self.read_map(stored, data)
        return (
            self.head(found.size, found.next_place)
            if found.whole is None
            else whole(encode([found.whole])[0])
        )

    def head(self, count: int, next_place: int) -> bytes:
        return self.versions.prefix + _APART + _HEAD.pack(count, next_place)

    def read_map(self, stored: bytes, data: bytes) -> StoredMap:
        """Return the small map, or large map's head, in `data` under key `stored`; StorageError: damaged."""
        kind = data[1:2]
        if kind == _WHOLE:
            value = decoded(self.versions, where(stored), data[:1] + data[2:])
            return StoredMap(len(value), len(value), value)
        if kind != _APART or len(data) != 2 + _HEAD.size:
            raise self._damaged(stored, f"what lies under its key has {len(data)} bytes and is no map")
        size, next_place = _HEAD.unpack_from(data, 2)
        return StoredMap(size, next_place, None)

    def read_entries(self, names: Sequence[bytes], data: Sequence[bytes]) -> list[Found]:
        """Return a large map's entries, whose RocksDB keys and values are `names` and `data`, in the given
        order: each as (place in the order of insertion, key, value). StorageError: one of them is damaged.
        """
        batches = [each[:1] + each[_ENTRY:] for each in data]
        try:
            maps = self.versions.decode(batches)
        except (StorageError, UsageError):
            for name, batch in zip(names, batches, strict=True):
                decoded(self.versions, where(name), batch)  # names the entry
            raise
        if not all(len(each) >= _ENTRY for each in data) or not all(len(one) == 1 for one in maps):
            raise self._damaged(names[0], "one of its entries is none")
        places = [_PLACE.unpack_from(each, 1)[0] for each in data]
        items = [item for one in maps for item in one.items()]
        return [(place, key, value) for place, (key, value) in zip(places, items, strict=True)]

    def in_order(self, stored: bytes, found: Sequence[Found], count: int) -> list[Found]:
        """Return `found`, all entries read of one map, in order of insertion.

        Raises StorageError unless they are `count` entries at distinct places; its text names key `stored`.
        """
        if len({place for place, _, _ in found}) != count or len(found) != count:
            raise self._damaged(stored, f"it has {len(found)} entries, and its head says {count}")
        return sorted(found, key=lambda each: each[0])

    def _row(self, stored: bytes, head: StoredMap, names: list[bytes], data: list[bytes]) -> Row:
        if head.whole is not None and not names:
            return Row(stored, head.whole, max(1, head.size))
        found = self.in_order(stored, self.read_entries(names, data), 0 if head.whole else head.size)
        return Row(stored, {key: value for _, key, value in found}, head.size)

    def _damaged(self, stored: bytes, why: str) -> StorageError:
        return StorageError(f"state {self.versions.name!r}, {where(stored)}: a map is damaged: {why}")


def entry(place: int, encoded: bytes) -> bytes:
    """Return the RocksDB value of a map's entry; `encoded`: its type's number, then a map of it alone."""
    return encoded[:1] + _PLACE.pack(place) + encoded[1:]


def whole(encoded: bytes) -> bytes:
    """Return the RocksDB value of a small map; `encoded`: the map as :meth:`Versions.encode` gives it."""
    return encoded[:1] + _WHOLE + encoded[1:]


def suffix(key: Hashable) -> bytes:
    """Return the bytes of a map's own key, the same for equal keys; NotPlainError: its class has none.

    Example:
        >>> suffix(7).hex(), suffix(True) == suffix(1), suffix("a").hex()
        ('07', True, 'a161')
        >>> from enum import IntEnum
        >>> suffix(("a", IntEnum("Colour", "RED").RED)) == suffix(("a", 1))
        True
    """
    kind = type(key)
    if kind not in _AS_THEY_ARE and not (
        kind is tuple and _AS_THEY_ARE.issuperset(map(type, key))  # type: ignore[call-overload]
    ):
        key = _plain(key)
    return encode_tagged(one_form(key))


def _plain(key: Hashable) -> Hashable:
    if type(key) in _AS_THEY_ARE:
        return key
    if isinstance(key, tuple):
        parts: tuple[Hashable, ...] = key
        return tuple(_plain(part) for part in parts)
    if isinstance(key, str | bytes):
        return key[:]
    if isinstance(key, Number):  # those of NumPy are such
        whole = whole_number(key)
        return key if whole is None else whole
    return key


def behind(stored: bytes) -> bytes:
    """Return the least bytes that sort after all stored keys that begin with `stored`, a stream's key.

    Example:
        >>> behind(bytes([1, 2])).hex(), behind(bytes([1, 255])).hex()
        ('0103', '02')
    """
    start = stored.rstrip(b"\xff")
    return start[:-1] + bytes((start[-1] + 1,))


def has_entries_apart(target: Target) -> bool:
    """Return whether a state is a map state in which map keys that are equal always have equal bytes."""
    schema = target.schema
    return schema["kind"] == StateKind.MAP and _one_form_each(mappings_in(schema, "of")[0])


def _one_form_each(description: Description) -> bool:
    kind = description["kind"]
    if kind not in _OF_KEYS:
        return kind in _KEYS
    of = description["of"]
    return all(map(_one_form_each, of if isinstance(of, list) else [of]))


def values_immutable(serializer: TypeSerializer[V]) -> bool:
    """Return whether no value of a map's entries can change in place; `serializer`: that of the map."""
    current = serializer.current if isinstance(serializer, DeclaredSerializer) else serializer
    if isinstance(current, FormSerializer):
        return current.form.inner[1].immutable
    return isinstance(current, MapSerializer) and current.value.immutable


LAYOUTS: Final[dict[int, Callable[[Versions], VersionedValues]]] = {
    PLAIN_VALUES: PlainValues,
    VERSIONED_VALUES: VersionedValues,
    MAP_ENTRIES: MapEntries,
    COLUMN_CHUNKS: ColumnChunks,
}
"""Number of a format in checkpoints -> the layout that reads it; all formats that this Headgate reads."""


def layout_of(name: str, target: Target, *, map_entries: bool = True) -> VersionedValues:
    """Return the layout in which a backend in RocksDB keeps a declared state. `map_entries`: False keeps each
    map as one RocksDB entry; True those of more than 32 entries in parts, where :func:`has_entries_apart`.
    """
    apart = map_entries and has_entries_apart(target)
    return (MapEntries if apart else VersionedValues)(Versions(name, target))


def transferred(
    theirs: VersionedValues, store: EntryStore, mine: VersionedValues, groups: tuple[int, int]
) -> Stored:
    """Yield the RocksDB keys and values that a restore copies into a new database, for one state. `theirs`:
    layout of `store`, an earlier subtask's column family; `mine`: the new one's, to which types of older
    values are added; `groups`: first and last key group to take. StorageError: damaged.
    """
    if (theirs.format == MAP_ENTRIES) != (mine.format == MAP_ENTRIES):
        for row in theirs.rows(store, groups):
            yield from mine.entries(row.stored, row.value)
        return
    numbers = mine.versions.renumbered(theirs.versions)
    for stored, data in store.items(*groups_range(*groups)):
        numbered = theirs.numbered(data)
        number = numbers.get(numbered[:1])
        if number is None:
            raise theirs.versions.unknown(numbered[:1])
        yield stored, number + numbered[1:]
