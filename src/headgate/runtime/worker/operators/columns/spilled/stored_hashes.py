"""Which keys may have something in chunks on disk, by their hashes in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

from headgate.runtime.worker.operators.columns.sorting import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint32]

_APART: Final = 8
"""So many arrays of hashes of a group become one."""


class StoredHashes:
    """The hashes of keys that are stored, by key group, while they take up to `limit` bytes together.

    What is too much is forgotten: of such a group, as of a restored one, any key may be stored. Four bytes
    for each save reading and decoding a whole group where nothing of a few keys is there.

    Example:
        >>> stored = StoredHashes(1_000)
        >>> stored.replaced(3, np.array([4, 7], dtype=np.uint32))
        >>> stored.found(3, np.array([5, 7], dtype=np.uint32)).tolist()
        [7]
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._known: dict[int, list[Hashes]] = {}
        self._unknown: set[int] = set()

    def forget(self, groups: Iterable[int]) -> None:
        """Note that any keys of these groups may be stored."""
        for group in groups:
            self._held -= sum(each.nbytes for each in self._known.pop(group, ()))
            self._unknown.add(group)

    def added(self, group: int, hashes: Hashes) -> None:
        """Note that keys with these hashes (ascending) are stored beside those that were before."""
        if group in self._unknown or not len(hashes):
            return
        known = self._known.setdefault(group, [])
        known.append(hashes)
        self._held += hashes.nbytes
        if len(known) >= _APART:
            self._held -= sum(each.nbytes for each in known)
            known[:] = [distinct(np.concatenate(known))]
            self._held += known[0].nbytes
        if self._held > self._limit:
            self.forget([group])

    def replaced(self, group: int, hashes: Hashes) -> None:
        """Note that the keys with these hashes (ascending) are all that are stored of the group."""
        self.forget([group])
        self._unknown.remove(group)
        self.added(group, hashes)

    def found(self, group: int, hashes: Hashes) -> Hashes:
        """Return those of the hashes whose keys may be stored."""
        if group in self._unknown:
            return hashes
        there = np.zeros(len(hashes), dtype=np.bool_)
        for each in self._known.get(group, ()):
            place = np.searchsorted(each, hashes)
            there |= each[np.minimum(place, len(each) - 1)] == hashes
        return hashes[there]
