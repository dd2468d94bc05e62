"""The table of one state in RocksDB with a cache of live values, used like the heap backend's table.

A key's value is read once and then lives as a Python object until the cache is full; what was changed, or may
have been changed in place, is written back in one batch. So a batch costs a read and a write per key.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, Self

from typing_extensions import TypeVar

from headgate.common.errors import StorageError, UsageError
from headgate.state.backend import Items
from headgate.state.heap.handles import MISSING
from headgate.state.rocksdb.database import ColumnStore
from headgate.state.rocksdb.key_bytes import key_of, storage_key, storage_keys
from headgate.state.rocksdb.value_layout import VersionedValues
from headgate.state.rocksdb.value_versions import decoded

V = TypeVar("V", default=Any)

_UNKNOWN: Final[Any] = object()
_PORTION_ENTRIES: Final = 256

PROBED_EVERY: Final = 32
"""One batch in so many is not read ahead, and shows by its own reads whether the state is in use."""


class ReadAhead:
    """Decides, for one RocksDB state, whether the values of a batch's keys are read ahead with one call.

    Reading ahead costs a look into files per key, which is lost on a state that few records use. So one batch
    in `PROBED_EVERY` is not read ahead: its table counts in `reads` the keys that it reads one by one, and if
    these are at least half of the batch's uncached keys, later batches are read ahead.
    """

    __slots__ = ("_batch", "_shown", "_used", "reads")

    def __init__(self) -> None:
        self.reads = self._batch = self._shown = 0
        self._used = False

    def wanted(self, keys: int) -> bool:
        if self._shown:
            self._used = 2 * self.reads >= self._shown
            self._shown = 0
        self._batch += 1
        if self._batch % PROBED_EVERY == 1:
            self._shown, self.reads = keys, 0
            return False
        return self._used


class RocksTable(Generic[V]):
    """The table of one state in RocksDB, with a cache of at most `cache_entries` keys' live values.

    A RocksKeyedBackend has one per state; only the operator's thread uses it. `layout` encodes and decodes.
    """

    __slots__ = (
        "_ahead",
        "_bytes",
        "_cache",
        "_changed",
        "_limit",
        "_max_parallelism",
        "_older",
        "_store",
        "_versions",
        "layout",
    )

    def __init__(
        self, store: ColumnStore, layout: VersionedValues, max_parallelism: int, cache_entries: int
    ) -> None:
        self.layout: VersionedValues = layout
        self._store, self._versions = store, layout.versions
        self._max_parallelism, self._limit = max_parallelism, max(1, cache_entries // 2)
        # Key -> live value; MISSING where it is known that there is none. Two generations: what is
        # used moves to the younger one, and when that is full it becomes the older one. So keys in
        # constant use stay, and no access pays for an order of use.
        self._cache: dict[Hashable, V] = {}
        self._older: dict[Hashable, V] = {}
        self._changed: set[Hashable] = set()
        # The bytes of keys that were read or written since the younger generation began.
        self._bytes: dict[Hashable, bytes] = {}
        self._ahead = ReadAhead()

    def attach(self, store: ColumnStore, layout: VersionedValues) -> None:
        # after a restore has built the database
        self.layout, self._store, self._versions = layout, store, layout.versions
        self._cache, self._older, self._bytes = {}, {}, {}

    @property
    def entries(self) -> Self:
        # it has the methods of a dict that handles and generated loops use
        return self

    def get(self, key: Hashable, default: V | None = None) -> V | None:
        # the value is not to be changed in place
        value = self._cache.get(key, _UNKNOWN)
        if value is _UNKNOWN:
            value = self._load(key)
        return default if value is MISSING else value

    def __setitem__(self, key: Hashable, value: V) -> None:
        if key not in self._cache and len(self._cache) >= self._limit:
            self._make_room()
        self._cache[key] = value
        self._changed.add(key)

    put = __setitem__

    def pop(self, key: Hashable, default: V | None = None) -> None:
        """Remove the entry of `key`, if there is one; unlike a dict, return nothing."""
        # unlike a dict's, it returns nothing
        if self._cache.get(key) is not MISSING:  # else a timer of an empty key would leave a tombstone
            self[key] = MISSING

    remove = pop

    def own(self, key: Hashable) -> V:
        value: V = self._cache.get(key, _UNKNOWN)
        if value is _UNKNOWN:
            value = self._load(key)
        if value is not MISSING:
            self._changed.add(key)
        return value

    def prefetch(self, keys: Iterable[Hashable], *, certain: bool = False) -> None:
        """Read the uncached values of `keys`, which a batch of records is about to need, with one database
        call. Keys beyond half the cache are left out and read when they are used. `certain`: whether all of
        them will be read; else :class:`ReadAhead` decides by the use of earlier batches whether any is read
        ahead.
        """
        needed = set(keys)
        missing = needed.difference(self._cache, self._older)
        if not missing or not (certain or self._ahead.wanted(len(missing))):
            return
        if len(self._cache) + len(missing) > self._limit:
            self._make_room()  # drops the older generation
            missing = needed.difference(self._older)
        wanted = self._in_order(list(missing)[: self._limit])
        stored = self._store.get_many([self._bytes[key] for key in wanted])
        self._cache.update(zip(wanted, self._all_decoded(wanted, stored), strict=True))
        if self._versions.older:
            prefix = self._versions.prefix
            self._changed.update(
                key
                for key, data in zip(wanted, stored, strict=True)
                if data is not None and not data.startswith(prefix)
            )

    def flush(self) -> None:
        """Write all changed values to RocksDB in one batch; what was got before must not be changed any more.
        UsageError, with the state's name: a value is not of the declared type, and nothing is written.
        """
        if not self._changed:
            return
        keys = self._in_order(list(self._changed))
        encoded = self._encoded([self._cache[key] for key in keys])
        self._store.write(zip([self._bytes[key] for key in keys], encoded, strict=True))
        self._changed.clear()

    def load(self, keys: Sequence[Hashable], values: Sequence[V]) -> None:
        # past the cache
        self._store.write(
            zip(storage_keys(keys, self._max_parallelism), self._versions.encode(values), strict=True)
        )

    def keys(self) -> Iterator[Hashable]:
        self.flush()
        for stored, _ in self._store.items():
            yield key_of(stored)

    def scan(self) -> Items:
        # in portions, so that files that compaction replaces are not held
        self.flush()
        part = self._store.portion(None, _PORTION_ENTRIES)
        while part:
            # What is handed out late may be of a type that is forgotten by then.
            versions = self._versions.at_snapshot()
            for stored, data in part:
                key = key_of(stored)
                yield key, decoded(versions, f"key {key!r}", data)
            part = self._store.portion(part[-1][0], _PORTION_ENTRIES)

    def empty(self) -> bool:
        self.flush()
        return self._store.empty()

    def _load(self, key: Hashable) -> V:
        value = self._older.get(key, _UNKNOWN)
        if value is _UNKNOWN:
            data = self._store.get(storage_key(key, self._max_parallelism))
            self._ahead.reads += 1
            value = MISSING if data is None else self._decoded(key, data)
            if data is not None and not data.startswith(self._versions.prefix):
                return self._hold(key, value, migrated=True)
        return self._hold(key, value)

    def _hold(self, key: Hashable, value: V, migrated: bool = False) -> V:
        if len(self._cache) >= self._limit:
            self._make_room()
        self._cache[key] = value
        if migrated:  # written back, or a default that is made anew each time would change with every read
            self._changed.add(key)
        return value

    def _make_room(self) -> None:
        self.flush()
        self._older, self._cache, self._bytes = self._cache, {}, {}

    def _in_order(self, keys: Sequence[Hashable]) -> list[Hashable]:
        # of their bytes: RocksDB reads and writes many of them sooner so
        known = self._bytes
        new = [key for key in keys if key not in known]
        if new:
            known.update(zip(new, storage_keys(new, self._max_parallelism), strict=True))
        return sorted(keys, key=known.__getitem__)

    def _encoded(self, values: list[V]) -> list[bytes | None]:
        present = [value for value in values if value is not MISSING]
        # The only point where a wrong type can still be reported.
        encoded = self._versions.encode_checked(present)
        if len(present) == len(values):
            return list(encoded)
        rest = iter(encoded)
        return [None if value is MISSING else next(rest) for value in values]

    def _all_decoded(self, keys: Sequence[Hashable], stored: Sequence[bytes | None]) -> list[V]:
        present = [data for data in stored if data is not None]
        try:
            values = self._versions.decode(present)
        except (StorageError, UsageError):
            values = [
                self._decoded(key, data) for key, data in zip(keys, stored, strict=True) if data is not None
            ]
        if len(present) == len(stored):
            return values
        rest = iter(values)
        return [MISSING if data is None else next(rest) for data in stored]

    def _decoded(self, key: Hashable, data: bytes) -> V:
        value: V = decoded(self._versions, f"key {key!r}", data)
        return value
