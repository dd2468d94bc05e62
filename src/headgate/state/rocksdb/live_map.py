"""The cached map of one key, in memory: all entries of a small map, the used ones of a large map."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from headgate.state.heap.handles import MISSING
from headgate.state.rocksdb.map_layout import SMALL_MAX, StoredMap


class LiveEntry:
    """A cached entry of a large map: its place in order of insertion, its key as it was put, its value."""

    __slots__ = ("key", "place", "value")

    def __init__(self, place: int, key: Hashable, value: Any) -> None:
        self.place, self.key, self.value = place, key, value


class LiveMap:
    """One key's map in a RocksMapTable's cache: all entries of a small map, the used ones of a large map."""

    __slots__ = ("changed", "cleared", "count", "entries", "kept", "next_place", "small", "stored", "whole")

    def __init__(self, stored: bytes, found: StoredMap) -> None:
        # The bytes of the stream's key, the number of entries, and the place of the next new one.
        self.stored, self.count, self.next_place = stored, found.size, found.next_place
        # The map, as long as it is stored as one; else None.
        self.small: dict[Hashable, Any] | None = found.whole
        # How many entries of a large map the column family has, as of the last write.
        self.kept = found.size if found.whole is None else 0
        # Whether these are to be deleted before anything is put; whether `entries` has all entries.
        self.cleared = self.whole = False
        # Of a large map, by key; MISSING where it is known that there is none.
        self.entries: dict[Hashable, Any] = {}
        # Keys of entries of a large map that were, or may have been, changed.
        self.changed: set[Hashable] = set()

    def grow(self) -> None:
        small, self.small, self.whole = self.small or {}, None, True
        self.entries = {key: LiveEntry(place, key, small[key]) for place, key in enumerate(small)}
        self.count = self.next_place = len(small)
        self.changed = set(small)

    def lend(self, entries: dict[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the map as a dict that the program may change in place; all of it is written anew
        afterwards. `entries`: all entries of a large map, in order of insertion; ignored for a small one.
        """
        if self.small is None:
            self.small, self.cleared = entries, self.kept > 0
            self.entries, self.changed, self.whole = {}, set(), False
        return self.small

    def take_back(self) -> None:
        # the lent dict may have changed
        if self.small is not None:
            self.count = len(self.small)
            if self.count > SMALL_MAX:
                self.grow()

    def put(self, key: Hashable, value: Any, before: Any) -> None:
        """Set a large map's entry. `before`: its LiveEntry, which keeps key and place; MISSING: it is new."""
        if before is MISSING:
            self.entries.pop(key, None)  # a dict would keep the old one among equal keys
            self.entries[key] = LiveEntry(self.next_place, key, value)
            self.next_place += 1
            self.count += 1
        else:
            before.value, key = value, before.key
        self.changed.add(key)

    def remove(self, key: Hashable) -> None:
        self.count -= 1
        if not self.count:
            self.clear()
            return
        self.entries[key] = MISSING
        self.changed.add(key)

    def clear(self) -> None:
        self.small, self.cleared = {}, self.kept > 0
        self.count = self.next_place = 0
        self.entries, self.changed, self.whole = {}, set(), False

    def written(self) -> None:
        self.kept, self.cleared = self.count if self.small is None else 0, False
        self.changed.clear()

    def in_use(self) -> list[LiveEntry]:
        return [each for each in self.entries.values() if each is not MISSING]


def parts_of(live: LiveMap) -> list[dict[Hashable, Any]]:
    """Return the dicts to encode to write a changed map: a small map (none if empty), else one for each
    changed entry that is there. A small map that became too large grows first.
    """
    live.take_back()
    if live.small is not None:
        return [live.small] if live.count else []
    changed = [live.entries[key] for key in live.changed]
    return [{each.key: each.value} for each in changed if each is not MISSING]
