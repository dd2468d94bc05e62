"""What is in use of the map of one key, in memory: all of a small one, entries of a large one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from headgate.state.heap.handles import MISSING
from headgate.state.rocksdb.map_layout import SMALL_MAX, StoredMap


class LiveEntry:
    """An entry of a map that is in use, its place in the order of insertion, and its key as it was put."""

    __slots__ = ("key", "place", "value")

    def __init__(self, place: int, key: Hashable, value: Any) -> None:
        self.place, self.key, self.value = place, key, value


class LiveMap:
    """What is in use of the map of one key of the stream: all of a small map, entries of a large one."""

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
        """It is too large to lie whole: each of its entries is to be put."""
        small, self.small, self.whole = self.small or {}, None, True
        self.entries = {key: LiveEntry(place, key, small[key]) for place, key in enumerate(small)}
        self.count = self.next_place = len(small)
        self.changed = set(small)

    def lend(self, entries: dict[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the map as a dict that may be changed; entries that lay apart are written anew."""
        if self.small is None:
            self.small, self.cleared = entries, self.kept > 0
            self.entries, self.changed, self.whole = {}, set(), False
        return self.small

    def take_back(self) -> None:
        """Look what became of a dict that was lent."""
        if self.small is not None:
            self.count = len(self.small)
            if self.count > SMALL_MAX:
                self.grow()

    def put(self, key: Hashable, value: Any, before: Any) -> None:
        """Set an entry of a large map; `before` is what there is."""
        if before is MISSING:
            self.entries.pop(key, None)  # a dict would keep the old one among equal keys
            self.entries[key] = LiveEntry(self.next_place, key, value)
            self.next_place += 1
            self.count += 1
        else:
            before.value, key = value, before.key
        self.changed.add(key)

    def remove(self, key: Hashable) -> None:
        """Remove an entry of a large map that has it."""
        self.count -= 1
        if not self.count:
            self.clear()
            return
        self.entries[key] = MISSING
        self.changed.add(key)

    def clear(self) -> None:
        """Remove all entries; what comes then is a small map."""
        self.small, self.cleared = {}, self.kept > 0
        self.count = self.next_place = 0
        self.entries, self.changed, self.whole = {}, set(), False

    def written(self) -> None:
        """The column family has everything."""
        self.kept, self.cleared = self.count if self.small is None else 0, False
        self.changed.clear()

    def in_use(self) -> list[LiveEntry]:
        """Return the entries in use of a large map."""
        return [each for each in self.entries.values() if each is not MISSING]


def parts_of(live: LiveMap) -> list[dict[Hashable, Any]]:
    """Return the dicts to be encoded of a map: all of it, or each changed entry for itself."""
    live.take_back()
    if live.small is not None:
        return [live.small] if live.count else []
    changed = [live.entries[key] for key in live.changed]
    return [{each.key: each.value} for each in changed if each is not MISSING]
