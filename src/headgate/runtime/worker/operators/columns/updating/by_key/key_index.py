"""Numbers keys: an open-addressing table over numpy arrays, looked up a whole batch at a time.

Each place of the table holds the number of a key and a part of its hash, so most places are judged without a
look at their keys; the owner has these, and decides which are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

    Hashes = NDArray[np.uint32]
    Same = Callable[[Int64s, Int64s], NDArray[np.bool_]]

ABSENT: Final = -1
"""The number of a key that is not there."""

_SMALLEST: Final = 1 << 10
_ENTERED_TOGETHER: Final = 1 << 14
"""Keys whose places are found at once as the table grows: their arrays stay in the cache."""

_NUMBER_BITS: Final = 32
_NUMBER: Final = (1 << _NUMBER_BITS) - 1
_TAG: Final = np.uint32(0x7FFFFFFF)  # one bit less, so that no entry is ABSENT
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)  # odd: neighbouring hashes land far apart


class KeyIndex:
    """Numbers of keys, by their hashes. `same(rows, numbers)` says for rows of the batch that is looked up,
    each with the number of a key of the same hash, which of them are that key.
    """

    def __init__(self) -> None:
        self._table = np.full(_SMALLEST, ABSENT, np.int64)
        self.count = 0

    def find(self, hashes: Hashes, same: Same) -> Int64s:
        """Return the number of each row's key; ABSENT where there is none."""
        found = np.full(len(hashes), ABSENT, np.int64)
        tags = _tags_of(hashes)
        rows, places = np.arange(len(hashes)), self._places(tags)
        while len(rows):
            entries = self._table[places]
            left = _others(entries, tags, rows, same, found)
            rows, tags, places = rows[left], tags[left], (places[left] + 1) & self._mask
        return found

    def find_or_add(self, hashes: Hashes, same: Same, append: Callable[[Int64s], None]) -> Int64s:
        """Return the number of each row's key; new keys get one. `append(rows)` is told which rows have the
        keys of the next numbers, and `same` is asked for these from then on.
        """
        self._grow(self.count + len(hashes))
        found = np.empty(len(hashes), np.int64)
        tags = _tags_of(hashes)
        rows, places = np.arange(len(hashes)), self._places(tags)
        while len(rows):
            entries = self._table[places]
            free = np.flatnonzero(entries < 0)
            if len(free):
                added = self._claimed(free, tags, places)
                found[rows[added]] = np.arange(self.count - len(added), self.count)
                append(rows[added])
                entries[free] = self._table[places[free]]
                entries[added] = ABSENT
            left = _others(entries, tags, rows, same, found)
            rows, tags, places = rows[left], tags[left], (places[left] + 1) & self._mask
        return found

    def _claimed(self, free: Int64s, tags: Int64s, places: Int64s) -> Int64s:
        # Of several rows that want one place the first gets it: it is written last.
        wanted = places[free]
        self._table[wanted[::-1]] = free[::-1]
        added: Int64s = free[self._table[wanted] == free]
        numbers = np.arange(self.count, self.count + len(added))
        self._table[places[added]] = (tags[added] << _NUMBER_BITS) | numbers
        self.count += len(added)
        return added

    def add(self, hashes: Hashes) -> Int64s:
        """Number new keys, all different and none of them there yet; return their numbers."""
        numbers = np.arange(self.count, self.count + len(hashes))
        self._grow(self.count + len(hashes))
        self.count += len(hashes)
        self._enter((_tags_of(hashes) << _NUMBER_BITS) | numbers)
        return numbers

    def _grow(self, count: int) -> None:
        size = len(self._table)
        while count * 2 > size:
            size *= 2
        if size > len(self._table):
            before = self._table[self._table != ABSENT]
            self._table = np.full(size, ABSENT, np.int64)
            # Neighbours in the old table are near each other in the new one.
            for start in range(0, len(before), _ENTERED_TOGETHER):
                self._enter(before[start : start + _ENTERED_TOGETHER])

    def _enter(self, entries: Int64s) -> None:
        places = self._places(entries >> _NUMBER_BITS)
        while len(entries):
            free = np.flatnonzero(self._table[places] == ABSENT)
            # Of several that want one place the last is written; the others try the next.
            self._table[places[free]] = entries[free]
            left = np.flatnonzero(self._table[places] != entries)
            entries, places = entries[left], (places[left] + 1) & self._mask

    @property
    def _mask(self) -> int:
        return len(self._table) - 1

    def _places(self, tags: Int64s) -> Int64s:
        shift = np.uint64(64 - (len(self._table).bit_length() - 1))
        return ((tags.view(np.uint64) * _SPREAD) >> shift).view(np.int64)


def _tags_of(hashes: Hashes) -> Int64s:
    return (hashes & _TAG).astype(np.int64)


def _others(entries: Int64s, tags: Int64s, rows: Int64s, same: Same, found: Int64s) -> Int64s:
    """Note in `found` the numbers of `rows` whose entry is of their key; return the indices of those that
    have met another key.
    """
    others = entries >= 0
    alike = np.flatnonzero((entries >> _NUMBER_BITS) == tags)
    if len(alike):
        numbers = entries[alike] & _NUMBER
        is_it = same(rows[alike], numbers)
        found[rows[alike[is_it]]] = numbers[is_it]
        others[alike[is_it]] = False
    return np.flatnonzero(others)
