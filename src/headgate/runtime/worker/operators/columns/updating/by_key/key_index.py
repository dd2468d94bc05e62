"""Numbers keys: an open-addressing table over numpy arrays, looked up a whole batch at a time.

A key's number is its place in the order in which keys came, so columns of values can be kept beside it. The
table holds hashes; equality is decided by the keys themselves, which the owner compares.
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
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)  # odd: neighbouring hashes land far apart


class KeyIndex:
    """Numbers of keys, by their hashes. `same(rows, numbers)` says for rows of the batch that is looked up,
    each with the number of a key of the same hash, which of them are that key.
    """

    def __init__(self) -> None:
        self._table = np.full(_SMALLEST, ABSENT, np.int64)
        self._hashes = np.zeros(_SMALLEST // 2, np.uint32)
        self.count = 0

    def find(self, hashes: Hashes, same: Same) -> Int64s:
        """Return the number of each row's key; ABSENT where there is none."""
        found = np.full(len(hashes), ABSENT, np.int64)
        rows, places = np.arange(len(hashes)), self._places(hashes)
        while len(rows):
            numbers = self._table[places]
            there = numbers != ABSENT
            rows, places, numbers = rows[there], places[there], numbers[there]
            alike = np.flatnonzero(self._hashes[numbers] == hashes[rows])
            if len(alike):
                is_it = np.zeros(len(rows), np.bool_)
                is_it[alike] = same(rows[alike], numbers[alike])
                found[rows[is_it]] = numbers[is_it]
                rows, places = rows[~is_it], places[~is_it]
            places = (places + 1) & self._mask
        return found

    def add(self, hashes: Hashes) -> Int64s:
        """Number new keys, all different and none of them there yet; return their numbers."""
        numbers = np.arange(self.count, self.count + len(hashes))
        self._grow(self.count + len(hashes))
        self._hashes[numbers] = hashes
        self.count += len(hashes)
        self._enter(numbers)
        return numbers

    def _grow(self, count: int) -> None:
        if count > len(self._hashes):
            larger = np.zeros(max(count, 2 * len(self._hashes)), np.uint32)
            larger[: self.count] = self._hashes[: self.count]
            self._hashes = larger
        size = len(self._table)
        while count * 2 > size:
            size *= 2
        if size > len(self._table):
            self._table = np.full(size, ABSENT, np.int64)
            self._enter(np.arange(self.count))

    def _enter(self, numbers: Int64s) -> None:
        places = self._places(self._hashes[numbers])
        while len(numbers):
            free = self._table[places] == ABSENT
            # Of several that want one place the last is written; the others try the next.
            self._table[places[free]] = numbers[free]
            left = self._table[places] != numbers
            numbers, places = numbers[left], (places[left] + 1) & self._mask

    @property
    def _mask(self) -> int:
        return len(self._table) - 1

    def _places(self, hashes: Hashes) -> Int64s:
        shift = np.uint64(64 - (len(self._table).bit_length() - 1))
        return ((hashes.astype(np.uint64) * _SPREAD) >> shift).astype(np.int64)
