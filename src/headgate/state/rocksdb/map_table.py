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
    """The table of one map state in RocksDB: its live handle reads and changes single entries, a restore
    whole maps.

    Only the operator's thread uses it. About `cache_entries` small maps and entries of large ones are cached,
    in two generations, besides those of the key in use. Only :meth:`live` and `prefetch` evict maps, so until
    the next call of one of the two the program may change in place what it got.
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
        self._store, self.layout = store, layout
        self.immutable = values_immutable(layout.versions.target.serializer)
        self._maps, self._older = {}, {}

    # -- what handles use

    def live(self, key: Hashable) -> LiveMap:
        """Return the map of the stream's key `key`, from the cache or RocksDB; an empty one if it has none.
        It is valid until the next call, or a `prefetch`: these may write changes and evict. UsageError: a
        changed value has a wrong type.
        """
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
        """Return the value that `live`, a map of :meth:`live`, has under its own key `key`, or `default`. If
        values can be changed in place, the entry counts as changed by this, and is written by the next
        :meth:`flush`.
        """
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
        if live.small is not None:
            return key in live.small
        return self._entry(live, key) is not MISSING

    def put_entry(self, live: LiveMap, key: Hashable, value: Any) -> None:
        """Set the value of `live`, a map of :meth:`live`, under its own key `key`. An entry that is there
        keeps its place in the order of insertion and, as in a dict, the key as it was put first. Written by
        :meth:`flush`.
        """
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
        """Remove the entry that `live`, a map of :meth:`live`, has under its own key `key`; an absent one is
        no error.
        """
        if not self.has_entry(live, key):
            return
        if live.small is None:
            live.remove(self._entry(live, key).key)
        else:
            del live.small[key]
            live.count = len(live.small)
        self._dirty[live.stored] = live

    def clear(self, live: LiveMap) -> None:
        if live.count or live.small:
            live.clear()
            self._dirty[live.stored] = live

    def items(self, live: LiveMap) -> list[tuple[Any, Any]]:
        """Return all entries of `live`, a map of :meth:`live`, as (key, value), in order of insertion. The
        program may change the values in place: if they are of such a type, all of them count as changed.
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
        return list(live.small) if live.small is not None else [each.key for each in self._all(live)]

    # -- whole maps

    @property
    def entries(self) -> RocksMapTable:
        return self

    def get(self, key: Hashable, default: Any = None) -> Any:
        live = self._maps.get(key) or self._older.get(key)
        if live is None:
            stored = storage_key(key, self._max_parallelism)
            row = next(self.layout.maps(self._store, stored, behind(stored), ahead=False), None)
            return default if row is None else row.value
        return self._dict_of(live) or default

    def own(self, key: Hashable) -> Any:
        """Return the complete map of the stream's key `key` as a dict that the caller may change in place
        until the table is used again, or MISSING. It counts as changed, and :meth:`flush` writes all of its
        entries.
        """
        live = self._maps.get(key) or self.live(key)
        entries = live.lend(self._dict_of(live))
        if not entries:
            return MISSING
        self._dirty[live.stored] = live
        return entries

    def put(self, key: Hashable, value: Mapping[Hashable, Any]) -> None:
        """Replace the map of the stream's key `key` by a copy of the mapping `value`; an empty one removes
        the map.
        """
        live = self.live(key)
        self.clear(live)
        for each, content in value.items():
            self.put_entry(live, each, content)

    __setitem__ = put

    def remove(self, key: Hashable) -> None:
        self.clear(self.live(key))

    def prefetch(self, keys: Iterable[Hashable], *, certain: bool = False) -> None:
        """Read the maps of `keys`, which a batch is about to need, with one database call: small maps, heads
        of large. At most half of the cache is filled; other keys are read when they are used. `certain`:
        whether all will be used; else :class:`ReadAhead` decides by the use of earlier batches whether any is
        read ahead.
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
        """Write all changed maps, of large ones only the changed entries, to RocksDB. UsageError, with the
        state's name: a key or value is of a wrong type. Ask for a value anew before it is changed again.
        """
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
        # past the cache
        for stored, value in zip(storage_keys(keys, self._max_parallelism), values, strict=True):
            self._store.write(self.layout.entries(stored, value))

    def keys(self) -> Iterator[Hashable]:
        self.flush()
        return map(key_of, self.layout.heads(self._store))

    def scan(self) -> Items:
        # in portions, so that files that compaction replaces are not held
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
        # as a dict would find it: keys of such a class have no stored bytes
        found: Any = {each.key: each for each in self._all(live)}.get(key, MISSING)
        if found is not MISSING:
            live.entries[found.key] = found
        return found

    def _dict_of(self, live: LiveMap) -> dict[Hashable, Any]:
        if live.small is not None:
            return live.small
        return {each.key: each.value for each in self._all(live)}

    def _all(self, live: LiveMap) -> list[LiveEntry]:
        others = [] if live.whole else self._unused(live)
        found = [*live.in_use(), *others]
        if not live.whole and (live.count <= WHOLE_MAX or not self.immutable):
            live.entries.update((each.key, each) for each in others)
            self._held += len(others)
            live.whole = True
        found.sort(key=lambda each: each.place)
        return found

    def _unused(self, live: LiveMap) -> list[LiveEntry]:
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
        self.key, self._live = key, None

    load = bind

    def store(self) -> None:
        """Do nothing: changes are made in the table at once."""

    def clear(self) -> None:
        self.table.clear(self._map())

    def get(self, key: MK, default: MV | None = None) -> MV | None:
        value: MV | None = self.table.get_entry(self._map(), key, default)
        return value

    def put(self, key: MK, value: MV) -> None:
        self.table.put_entry(self._map(), key, value)

    def remove(self, key: MK) -> None:
        self.table.remove_entry(self._map(), key)

    def __contains__(self, key: MK) -> bool:
        return self.table.has_entry(self._map(), key)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.table.keys_of(self._map()))

    def __len__(self) -> int:
        live = self._map()
        return live.count if live.small is None else len(live.small)

    def items(self) -> Iterable[tuple[MK, MV]]:
        return self.table.items(self._map())

    def _map(self) -> LiveMap:
        if self._live is None:
            self._live = self.table.live(self.key)
        return self._live
