"""The table and the live handle of a map state in RocksDB, which read and cache only the entries used."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from headgate.api.declared.keyed_states import MK, MV
from headgate.common.errors import UsageError
from headgate.serde.codecs.dynamic import NotPlainError
from headgate.state.backend import Items
from headgate.state.heap.handles import MISSING
from headgate.state.rocksdb.database import BEYOND_ALL_KEYS, ColumnStore
from headgate.state.rocksdb.key_bytes import key_of, storage_key, storage_keys
from headgate.state.rocksdb.live_map import LiveEntry, LiveMap, parts_of
from headgate.state.rocksdb.map_layout import (
    SMALL_MAX,
    MapEntries,
    StoredMap,
    behind,
    entry,
    suffix,
    values_immutable,
    whole,
)
from headgate.state.rocksdb.state_table import ReadAhead
from headgate.state.subscripts import Subscripts

RANGE_MIN: Final = 1_000
"""From so many entries on a map is deleted as a range; a deleted range slows later reads a little."""

WHOLE_MAX: Final = 1_000
"""A larger map, if its values are immutable, is not cached complete when all of it is asked for."""

_PORTION_ENTRIES: Final = 256
_UNKNOWN: Final = object()

Change = tuple[bytes, bytes | None]


class RocksMapTable:
    """The table of a map state in RocksDB: its live handle uses single entries, a restore or query all.

    Only :meth:`live` and `prefetch` evict maps: until then the program may change in place what it got. About
    `cache_entries` small maps and entries of large ones are cached, besides those that one key uses.
    """

    def __init__(
        self, store: ColumnStore, layout: MapEntries, max_parallelism: int, cache_entries: int
    ) -> None:
        self._store, self.layout = store, layout
        self._max_parallelism, self._limit = max_parallelism, max(1, cache_entries // 2)
        # Two generations, as in RocksTable; `_held` counts what the younger one holds.
        self._maps: dict[Hashable, LiveMap] = {}
        self._older: dict[Hashable, LiveMap] = {}
        self._dirty: dict[Hashable, LiveMap] = {}
        self._held = 0
        self._ahead = ReadAhead()
        self.immutable = values_immutable(layout.versions.target.serializer)

    def attach(self, store: ColumnStore, layout: MapEntries) -> None:
        """Use the restored column family `store`, which `layout` decodes, in place of the empty one."""
        self._store, self.layout = store, layout
        self.immutable = values_immutable(layout.versions.target.serializer)
        self._maps, self._older = {}, {}

    # -- what handles use

    def live(self, key: Hashable) -> LiveMap:
        """Return the map of stream key `key`, valid until the next call only; it may :meth:`flush` others."""
        self._make_room_if_full()
        found = self._maps.get(key)
        if found is None:
            found = self._older.get(key)
            if found is None or len(found.entries) > self._limit:  # it alone would fill the younger one again
                found = self._load(key)
            self._maps[key] = found
            self._held += 1 + len(found.entries)
        return found

    def get_entry(self, live: LiveMap, key: Hashable, default: Any) -> Any:
        """Return the value under map key `key`, or `default`; a mutable value counts as changed by this."""
        if live.small is not None:
            value = live.small.get(key, MISSING)
        else:
            found = self._entry(live, key)
            value, key = (found, key) if found is MISSING else (found.value, found.key)
        if value is MISSING:
            return default
        if not self.immutable:
            self._touch(live, key)
        return value

    def has_entry(self, live: LiveMap, key: Hashable) -> bool:
        """Return whether a map has an entry under its own key `key`."""
        if live.small is not None:
            return key in live.small
        return self._entry(live, key) is not MISSING

    def put_entry(self, live: LiveMap, key: Hashable, value: Any) -> None:
        """Set the value of a map's entry under its own key `key`."""
        small = live.small
        if small is None:
            live.put(key, value, self._entry(live, key))
        else:
            small[key] = value
            live.count = len(small)
            if live.count > SMALL_MAX:
                live.grow()
                self._held += live.count
        self._dirty[live.stored] = live

    def remove_entry(self, live: LiveMap, key: Hashable) -> None:
        """Remove the entry of a map's own key `key`, if there is one."""
        if not self.has_entry(live, key):
            return
        if live.small is None:
            live.remove(self._entry(live, key).key)
        else:
            del live.small[key]
            live.count = len(live.small)
        self._dirty[live.stored] = live

    def clear(self, live: LiveMap) -> None:
        """Remove all entries of a map."""
        if live.count or live.small:
            live.clear()
            self._dirty[live.stored] = live

    def items(self, live: LiveMap) -> list[tuple[Any, Any]]:
        """Return the entries of a map as (key, value), in order of insertion.

        The program may change the values in place.
        """
        if live.small is not None:
            found = list(live.small.items())
        else:
            found = [(each.key, each.value) for each in self._all(live)]
        if not self.immutable:
            for key, _ in found:
                self._touch(live, key)
        return found

    def keys_of(self, live: LiveMap) -> list[Hashable]:
        """Return the keys of a map, in order of insertion."""
        return list(live.small) if live.small is not None else [each.key for each in self._all(live)]

    # -- whole maps

    @property
    def entries(self) -> RocksMapTable:
        """The table itself, with the methods of a dict that users of a table call."""
        return self

    def get(self, key: Hashable, default: Any = None) -> Any:
        """Return the map of `key` as a dict, not to be changed, or `default`."""
        live = self._maps.get(key) or self._older.get(key)
        if live is None:
            stored = storage_key(key, self._max_parallelism)
            row = next(self.layout.maps(self._store, stored, behind(stored), ahead=False), None)
            return default if row is None else row.value
        return self._dict_of(live) or default

    def own(self, key: Hashable) -> Any:
        """Return the map of `key` as a dict to be changed in place and rewritten whole; MISSING: none."""
        live = self._maps.get(key) or self.live(key)
        entries = live.lend(self._dict_of(live))
        if not entries:
            return MISSING
        self._dirty[live.stored] = live
        return entries

    def put(self, key: Hashable, value: Mapping[Hashable, Any]) -> None:
        """Replace the map of `key` by a copy of `value`."""
        live = self.live(key)
        self.clear(live)
        for each, content in value.items():
            self.put_entry(live, each, content)

    __setitem__ = put

    def remove(self, key: Hashable) -> None:
        """Remove the map of `key`, if there is one."""
        self.clear(self.live(key))

    def prefetch(self, keys: Iterable[Hashable], *, certain: bool = False) -> None:
        """Read the small maps of a batch's `keys`, and heads of large ones, with one call, into the cache.

        `certain`: whether all of them will be used; else earlier batches decide whether any is read ahead.
        """
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
        """Write changed maps to RocksDB (UsageError: wrong type); do not change values got before that."""
        if not self._dirty:
            return
        dirty = list(self._dirty.values())
        parts = [part for live in dirty for part in parts_of(live)]
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
        """Yield the RocksDB writes for one changed map; `encoded`: :func:`parts_of`, encoded, in order."""
        if not live.count:
            yield live.stored, None
        elif live.small is not None:
            yield live.stored, whole(next(encoded))
        else:
            for key in live.changed:
                each = live.entries[key]
                put = None if each is MISSING else entry(each.place, next(encoded))
                yield live.stored + self._suffix(key), put
            yield live.stored, self.layout.head(live.count, live.next_place)

    def _suffix(self, key: Hashable) -> bytes:
        try:
            return suffix(key)
        except NotPlainError as error:
            raise UsageError(f"state {self.layout.versions.name!r} cannot be stored: {error}") from None

    def load(self, keys: Sequence[Hashable], values: Sequence[Mapping[Hashable, Any]]) -> None:
        """Put a restore's maps into RocksDB, past the cache, under keys that have none yet (not checked)."""
        for stored, value in zip(storage_keys(keys, self._max_parallelism), values, strict=True):
            self._store.write(self.layout.entries(stored, value))

    def keys(self) -> Iterator[Hashable]:
        """Return the stream's keys that have a map; changes made meanwhile may be seen or not."""
        self.flush()
        return map(key_of, self.layout.heads(self._store))

    def scan(self) -> Items:
        """Yield each key with its map, read in portions, so files that compaction replaces are not held."""
        self.flush()
        start = b""
        while True:
            found = 0
            # What is handed out late may be of a type that is forgotten by then.
            layout = self.layout.at_snapshot()
            for row in layout.maps(self._store, start, BEYOND_ALL_KEYS, ahead=False):
                yield key_of(row.stored), row.value
                start, found = behind(row.stored), found + row.weight
                if found >= _PORTION_ENTRIES:
                    break
            if found < _PORTION_ENTRIES:
                return

    def empty(self) -> bool:
        """Return whether the state has no maps."""
        self.flush()
        return self._store.empty()

    # -- inside

    def _make_room_if_full(self) -> None:
        if self._held > self._limit:
            self.flush()
            self._older, self._maps, self._held = self._maps, {}, 0

    def _load(self, key: Hashable) -> LiveMap:
        stored = storage_key(key, self._max_parallelism)
        self._ahead.reads += 1
        return self._made(stored, self._store.get(stored))

    def _made(self, stored: bytes, data: bytes | None) -> LiveMap:
        if data is None:
            return LiveMap(stored, StoredMap(0, 0, {}))
        live = LiveMap(stored, self.layout.read_map(stored, data))
        if live.small is not None and self._is_older(data):
            self._dirty[stored] = live  # written back, as in RocksTable
        return live

    def _is_older(self, data: bytes) -> bool:
        return not data.startswith(self.layout.versions.prefix)

    def _touch(self, live: LiveMap, key: Hashable) -> None:
        if live.small is None:
            live.changed.add(key)
        self._dirty[live.stored] = live

    def _entry(self, live: LiveMap, key: Hashable) -> Any:
        """Return the entry of a large map under its own key `key`, or MISSING."""
        found = live.entries.get(key, _UNKNOWN)
        if found is not _UNKNOWN:
            return found
        return MISSING if live.whole else self._load_entry(live, key)

    def _load_entry(self, live: LiveMap, key: Hashable) -> Any:
        try:
            stored = live.stored + suffix(key)
        except NotPlainError:
            return self._equal_entry(live, key)
        data = self._store.get(stored)
        if data is None:
            found = MISSING
        else:
            found = LiveEntry(*self.layout.read_entries([stored], [data])[0])
            if self._is_older(data):
                self._touch(live, key)
        live.entries[key] = found
        self._held += 1
        return found

    def _equal_entry(self, live: LiveMap, key: Hashable) -> Any:
        """Return the entry that a dict would find for `key`, whose class has no stored bytes; or MISSING."""
        found: Any = {each.key: each for each in self._all(live)}.get(key, MISSING)
        if found is not MISSING:
            live.entries[found.key] = found
        return found

    def _dict_of(self, live: LiveMap) -> dict[Hashable, Any]:
        if live.small is not None:
            return live.small
        return {each.key: each.value for each in self._all(live)}

    def _all(self, live: LiveMap) -> list[LiveEntry]:
        """Return all entries of a large map, in order of insertion; cache them unless many and immutable."""
        others = [] if live.whole else self._unused(live)
        found = [*live.in_use(), *others]
        if not live.whole and (live.count <= WHOLE_MAX or not self.immutable):
            live.entries.update((each.key, each) for each in others)
            self._held += len(others)
            live.whole = True
        found.sort(key=lambda each: each.place)
        return found

    def _unused(self, live: LiveMap) -> list[LiveEntry]:
        """Return a large map's stored entries that are not cached; cache and omit those of older types."""
        stored = list(islice(self._store.items(live.stored, behind(live.stored), ahead=False), 1, None))
        data = [each for _, each in stored]
        read = self.layout.read_entries([name for name, _ in stored], data)
        self.layout.in_order(live.stored, read, live.kept)
        if self.layout.versions.older:
            for found, one in zip(read, data, strict=True):
                if found[1] not in live.entries and self._is_older(one):
                    live.entries[found[1]] = LiveEntry(*found)
                    self._touch(live, found[1])
        return [LiveEntry(*found) for found in read if found[1] not in live.entries]

    def _removed(self, live: LiveMap) -> list[Change]:
        """Return deletions of a map's stored entries, except its head; if many, delete them, return none."""
        if live.kept >= RANGE_MIN:
            self._store.delete_range(live.stored + b"\0", behind(live.stored))
            return []
        stored = self._store.items(live.stored, behind(live.stored), ahead=False)
        return [(name, None) for name, _ in islice(stored, 1, None)]


class RocksMapState(Subscripts[MK, MV]):
    """The live handle of a map state in RocksDB, for one key at a time; it reads only the entries used."""

    __slots__ = ("_live", "key", "table")

    immutable: Final = False

    def __init__(self, table: RocksMapTable) -> None:
        self.table = table
        self.key: Hashable = None
        self._live: LiveMap | None = None

    def bind(self, key: Hashable) -> None:
        """Make `key`, of the stream, the current key, whose map is read and changed from now on."""
        self.key, self._live = key, None

    load = bind

    def store(self) -> None:
        """Do nothing: changes are made in the table at once."""

    def clear(self) -> None:
        """Remove all entries of the current key's map."""
        self.table.clear(self._map())

    def get(self, key: MK, default: MV | None = None) -> MV | None:
        """Return the value under the map's own key `key`, or `default`."""
        value: MV | None = self.table.get_entry(self._map(), key, default)
        return value

    def put(self, key: MK, value: MV) -> None:
        """Set the value under the map's own key `key`."""
        self.table.put_entry(self._map(), key, value)

    def remove(self, key: MK) -> None:
        """Remove the entry of the map's own key `key`; an absent one is no error."""
        self.table.remove_entry(self._map(), key)

    def __contains__(self, key: MK) -> bool:
        return self.table.has_entry(self._map(), key)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.table.keys_of(self._map()))

    def __len__(self) -> int:
        live = self._map()
        return live.count if live.small is None else len(live.small)

    def items(self) -> Iterable[tuple[MK, MV]]:
        """Return a list of the entries of now, in order of insertion; their values are not copied."""
        return self.table.items(self._map())

    def _map(self) -> LiveMap:
        if self._live is None:
            self._live = self.table.live(self.key)
        return self._live
