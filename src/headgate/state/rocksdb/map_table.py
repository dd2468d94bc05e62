"""A map state in RocksDB behind a cache of live entries: of a map only what is used is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

from headgate.serde.dynamic import NotPlainError
from headgate.state.heap.tables import MISSING
from headgate.state.rocksdb.database import BEYOND_ALL_KEYS, ColumnStore
from headgate.state.rocksdb.keys import key_of, storage_key, storage_keys
from headgate.state.rocksdb.map_layout import (
    NO_MAP,
    SMALL_MAX,
    MapEntries,
    StoredMap,
    behind,
    entry,
    suffix,
    values_immutable,
    whole,
)
from headgate.state.rocksdb.read_ahead import ReadAhead

RANGE_MIN: Final = 1_000
"""From so many entries on a map is deleted as a range; what is gone as a range slows later reads a little."""

WHOLE_MAX: Final = 1_000
"""A map of up to so many entries is kept whole once all of it was asked for."""

_PORTION_ENTRIES: Final = 256
_UNKNOWN: Final = object()

Change = tuple[bytes, bytes | None]


class LiveEntry:
    """An entry of a map that is in use.

    Attributes:
        place: in the order of insertion.
        key: as it was put.
        value: may be changed in place.
    """

    __slots__ = ("key", "place", "value")

    def __init__(self, place: int, key: Any, value: Any) -> None:
        self.place, self.key, self.value = place, key, value


class LiveMap:
    """What is in use of the map of one key of the stream.

    Attributes:
        stored: the bytes of the stream's key.
        count: how many entries the map has.
        next_place: of the next new entry.
        kept: how many entries lie apart in the column family, as of the last write.
        apart: whether entries lie apart, or will; else all of the map is in use.
        cleared: whether those that lie apart are to be deleted before anything is put.
        entries: by key; MISSING where it is known that there is none.
        whole: whether all entries are among them.
        changed: keys of entries that were, or may have been, changed.
    """

    __slots__ = ("apart", "changed", "cleared", "count", "entries", "kept", "next_place", "stored", "whole")

    def __init__(self, stored: bytes, found: StoredMap) -> None:
        self.stored, self.count, self.next_place = stored, found.size, found.next_place
        self.apart, self.cleared = found.whole is None, False
        self.kept = found.size if self.apart else 0
        self.entries: dict[Any, Any] = {
            key: LiveEntry(place, key, value)
            for place, (key, value) in enumerate((found.whole or {}).items())
        }
        self.whole = not self.apart
        self.changed: set[Any] = set()

    def put(self, key: Any, value: Any, before: Any) -> None:
        """Set an entry; `before` is what there is."""
        if before is MISSING:
            self.entries.pop(key, None)  # a dict would keep the old one among equal keys
            self.entries[key] = LiveEntry(self.next_place, key, value)
            self.next_place += 1
            self.count += 1
        else:
            before.value = value
        self.changed.add(key)

    def remove(self, key: Any) -> None:
        """Remove an entry that there is."""
        self.count -= 1
        if not self.count:
            self.clear()
            return
        self.entries[key] = MISSING
        self.changed.add(key)

    def clear(self) -> None:
        """Remove all entries."""
        self.cleared, self.apart = self.kept > 0, False
        self.count = self.next_place = 0
        self.entries, self.changed, self.whole = {}, set(), True

    def grow(self) -> None:
        """It has become too large to lie whole: each of its entries is to be put."""
        self.apart = True
        self.changed.update(self.entries)

    def written(self) -> None:
        """The column family has everything."""
        self.kept, self.cleared = self.count if self.apart else 0, False
        self.changed.clear()

    def in_order(self) -> list[LiveEntry]:
        """The entries in use, in order of insertion."""
        found = [each for each in self.entries.values() if each is not MISSING]
        found.sort(key=lambda each: each.place)
        return found


class RocksMapTable:
    """The maps of one state; for whole maps it has what a `RocksTable` has for values.

    Room is made when a map is asked for: until the next time, what the program gets may be changed in place.

    Args:
        store: its column family.
        layout: how its maps lie there.
        max_parallelism: number of key groups.
        cache_entries: live entries and maps that are kept, besides what one key uses.
    """

    def __init__(
        self, store: ColumnStore, layout: MapEntries, max_parallelism: int, cache_entries: int
    ) -> None:
        self._store, self.layout = store, layout
        self._max_parallelism, self._limit = max_parallelism, max(1, cache_entries // 2)
        # Two generations, as in RocksTable; `_held` counts what the younger one holds.
        self._maps: dict[Any, LiveMap] = {}
        self._older: dict[Any, LiveMap] = {}
        self._dirty: dict[Any, LiveMap] = {}
        self._held = 0
        self._ahead = ReadAhead()
        self.immutable = values_immutable(layout.versions.target.serializer)

    def attach(self, store: ColumnStore, layout: MapEntries) -> None:
        """Take over a column family that was restored, in place of an empty one."""
        self._store, self.layout = store, layout
        self.immutable = values_immutable(layout.versions.target.serializer)
        self._maps, self._older = {}, {}

    # -- what handles use

    def live(self, key: Any) -> LiveMap:
        """The map of a key of the stream, until one is asked for again."""
        self._make_room_if_full()
        found = self._maps.get(key)
        if found is None:
            found = self._older.get(key)
            if found is None or len(found.entries) > self._limit:  # it alone would fill the younger one again
                found = self._load(key)
            self._maps[key] = found
            self._held += 1 + (len(found.entries) if found.apart else 0)
        return found

    def entry(self, live: LiveMap, key: Any) -> Any:
        """The entry of a map, or MISSING.

        Raises:
            StorageError: RocksDB cannot read, or the entry is damaged.
        """
        found = live.entries.get(key, _UNKNOWN)
        if found is not _UNKNOWN:
            return found
        if live.whole:
            return MISSING
        return self._load_entry(live, key)

    def own_entry(self, live: LiveMap, key: Any) -> Any:
        """The entry, whose value the program may change in place."""
        found = self.entry(live, key)
        if found is not MISSING and not self.immutable:
            self.touch(live, key)
        return found

    def put_entry(self, live: LiveMap, key: Any, value: Any) -> None:
        """Set an entry."""
        live.put(key, value, self.entry(live, key))
        self._note(live)

    def remove_entry(self, live: LiveMap, key: Any) -> None:
        """Remove an entry, if there is one."""
        if self.entry(live, key) is not MISSING:
            live.remove(key)
            self._note(live)

    def clear(self, live: LiveMap) -> None:
        """Remove all entries of a map."""
        if live.count:
            live.clear()
            self._note(live)

    def touch(self, live: LiveMap, key: Any) -> None:
        """The value of an entry may be changed in place."""
        live.changed.add(key)
        self._note(live)

    def all_of(self, live: LiveMap) -> list[LiveEntry]:
        """All entries of a map, in order of insertion; large maps of fixed values are not kept."""
        if not live.whole and self.immutable and live.count > WHOLE_MAX:
            others = self._unused(live)
            return sorted(chain(live.in_order(), others), key=lambda each: each.place)
        if not live.whole:
            others = self._unused(live)
            live.entries.update((each.key, each) for each in others)
            self._held += len(others)
            live.whole = True
        return live.in_order()

    # -- whole maps

    @property
    def entries(self) -> RocksMapTable:
        """Itself: the part of a dict that is used of a table."""
        return self

    def get(self, key: Any, default: Any = None) -> Any:
        """A dict of the entries of `key`, or `default`."""
        live = self._maps.get(key) or self._older.get(key)
        if live is None:
            stored = storage_key(key, self._max_parallelism)
            row = next(self.layout.maps(self._store, stored, behind(stored), ahead=False), None)
            return default if row is None else row.value
        return {each.key: each.value for each in self.all_of(live)} if live.count else default

    def put(self, key: Any, value: Mapping[Any, Any]) -> None:
        """Replace the map of `key`."""
        live = self.live(key)
        self.clear(live)
        for each, content in value.items():
            self.put_entry(live, each, content)

    __setitem__ = put

    def remove(self, key: Any) -> None:
        """Remove the map of `key`, if there is one."""
        self.clear(self.live(key))

    def prefetch(self, keys: Iterable[Any], *, certain: bool = False) -> None:
        """Read how many entries the maps of these keys have; see :meth:`RocksTable.prefetch`."""
        missing = set(keys).difference(self._maps, self._older)
        if not missing or not (certain or self._ahead.wanted(len(missing))):
            return
        self._make_room_if_full()
        wanted = list(missing)[: self._limit]
        names = storage_keys(wanted, self._max_parallelism)
        for key, stored, data in zip(wanted, names, self._store.get_many(names), strict=True):
            self._maps[key] = self._made(stored, data)
        self._held += len(wanted)

    def flush(self) -> None:
        """Write back what was changed; see :meth:`RocksTable.flush`.

        Raises:
            UsageError: a value is not of the declared type.
            StorageError: RocksDB cannot write.
        """
        if not self._dirty:
            return
        dirty = list(self._dirty.values())
        parts = [part for live in dirty for part in _parts(live)]
        data = iter(self.layout.versions.encode_checked(parts))
        batch: list[Change] = []
        for live in dirty:
            if live.cleared:
                batch += self._removed(live)
            batch += self._changes(live, data)
        self._store.write(batch)
        for live in dirty:
            live.written()
        self._dirty.clear()

    def _changes(self, live: LiveMap, encoded: Iterator[bytes]) -> Iterator[Change]:
        """What is to be written of one map; `encoded` are its :func:`_parts`."""
        if not live.count:
            yield live.stored, None
        elif not live.apart:
            yield live.stored, whole(next(encoded))
        else:
            for key in live.changed:
                each = live.entries[key]
                put = None if each is MISSING else entry(each.place, next(encoded))
                yield live.stored + suffix(key), put
            yield live.stored, self.layout.head(live.count, live.next_place)

    def load(self, keys: Sequence[Any], values: Sequence[Mapping[Any, Any]]) -> None:
        """Put restored maps, past the cache."""
        for stored, value in zip(storage_keys(keys, self._max_parallelism), values, strict=True):
            self._store.write(self.layout.entries(stored, value))

    def keys(self) -> Iterator[Any]:
        """The keys that have a map; what changes meanwhile may be seen or not.

        Raises:
            StorageError: RocksDB cannot read or write, or a key is damaged.
        """
        self.flush()
        return map(key_of, self.layout.heads(self._store))

    def scan(self) -> Iterator[tuple[Any, Any]]:
        """Keys and their maps, in portions, so that files which compaction replaces are not held back.

        Raises:
            StorageError: RocksDB cannot read or write, or an entry is damaged.
        """
        self.flush()
        start = b""
        while True:
            found = 0
            for row in self.layout.maps(self._store, start, BEYOND_ALL_KEYS, ahead=False):
                yield key_of(row.stored), row.value
                start, found = behind(row.stored), found + row.weight
                if found >= _PORTION_ENTRIES:
                    break
            if found < _PORTION_ENTRIES:
                return

    def empty(self) -> bool:
        """Whether there are no entries."""
        self.flush()
        return self._store.empty()

    # -- inside

    def _make_room_if_full(self) -> None:
        if self._held > self._limit:
            self.flush()
            self._older, self._maps, self._held = self._maps, {}, 0

    def _load(self, key: Any) -> LiveMap:
        stored = storage_key(key, self._max_parallelism)
        self._ahead.reads += 1
        return self._made(stored, self._store.get(stored))

    def _made(self, stored: bytes, data: bytes | None) -> LiveMap:
        if data is None:
            return LiveMap(stored, NO_MAP)
        live = LiveMap(stored, self.layout.read_map(stored, data))
        if live.whole and self._is_older(data):
            self._dirty[stored] = live  # written back, as in RocksTable
        return live

    def _is_older(self, data: bytes) -> bool:
        return not data.startswith(self.layout.versions.prefix)

    def _load_entry(self, live: LiveMap, key: Any) -> Any:
        try:
            stored = live.stored + suffix(key)
        except NotPlainError:
            return MISSING  # no such key could have been stored
        data = self._store.get(stored)
        if data is None:
            found = MISSING
        else:
            found = LiveEntry(*self.layout.read_entries([stored], [data])[0])
            if self._is_older(data):
                self.touch(live, key)
        live.entries[key] = found
        self._held += 1
        return found

    def _unused(self, live: LiveMap) -> list[LiveEntry]:
        """The entries that lie apart and are not in use; what had to be migrated is then."""
        stored = list(islice(self._store.items(live.stored, behind(live.stored), ahead=False), 1, None))
        data = [each for _, each in stored]
        read = self.layout.read_entries([name for name, _ in stored], data)
        self.layout.in_order(live.stored, read, live.kept)
        if self.layout.versions.older:
            for found, one in zip(read, data, strict=True):
                if found[1] not in live.entries and self._is_older(one):
                    live.entries[found[1]] = LiveEntry(*found)
                    self.touch(live, found[1])
        return [LiveEntry(*found) for found in read if found[1] not in live.entries]

    def _removed(self, live: LiveMap) -> list[Change]:
        """The deletion of all that the column family has of a map but its head."""
        if live.kept >= RANGE_MIN:
            self._store.delete_range(live.stored + b"\0", behind(live.stored))
            return []
        stored = self._store.items(live.stored, behind(live.stored), ahead=False)
        return [(name, None) for name, _ in islice(stored, 1, None)]

    def _note(self, live: LiveMap) -> None:
        self._dirty[live.stored] = live


def _parts(live: LiveMap) -> list[dict[Any, Any]]:
    """What is to be encoded of a map: all of it, or each changed entry for itself."""
    if live.count and not live.apart:
        if live.count <= SMALL_MAX:
            return [{each.key: each.value for each in live.in_order()}]
        live.grow()
    changed = [live.entries[key] for key in live.changed]
    return [{each.key: each.value} for each in changed if each is not MISSING]
