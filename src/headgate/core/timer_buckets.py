"""Sets of keys of one timestamp's timers, which can change while a snapshot holds them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from itertools import chain, filterfalse
from typing import Final, Generic, TypeAlias, TypeVar

K = TypeVar("K", bound=Hashable)

COPIED_MAX: Final = 1_024  # a bucket of at most so many keys is copied completely: some microseconds
DEPTH_MAX: Final = 4  # snapshots that one bucket may be in at the same time before it is copied after all


class LargeBucket(Generic[K]):
    """An ordered set of one timestamp's timer keys, changed without touching its base, held by snapshots.

    It offers what :class:`headgate.core.timers.TimerQueue` does with a bucket, and keeps its order: first the
    base's keys less the removed ones, then those added since. The base is not changed before :meth:`settle`;
    `depth` is the number of layers above each other.

    Example:
        >>> held = dict.fromkeys("abc")
        >>> bucket = LargeBucket(held)
        >>> bucket["d"] = None
        >>> del bucket["a"]
        >>> bucket["a"] = None
        >>> list(held), list(bucket), len(bucket)
        (['a', 'b', 'c'], ['b', 'c', 'd', 'a'], 4)
        >>> bucket.settle(100), list(bucket.base)
        (True, ['b', 'c', 'd', 'a'])
    """

    __slots__ = ("_added", "_left", "_removed", "base", "depth")

    def __init__(self, base: Bucket[K]) -> None:
        self.base: Bucket[K] = base
        self.depth: int = base.depth + 1 if isinstance(base, LargeBucket) else 1
        self._removed: set[K] = set()
        self._added: OrderedDict[K, None] = OrderedDict()
        self._left = 0

    def __len__(self) -> int:
        return len(self.base) - len(self._removed) + len(self._added)

    def __contains__(self, key: K) -> bool:
        return key in self._added or (key in self.base and key not in self._removed)

    def __iter__(self) -> Iterator[K]:
        return chain(
            filterfalse(self._removed.__contains__, self.base) if self._removed else self.base, self._added
        )

    def __setitem__(self, key: K, nothing: None) -> None:
        self._added[key] = nothing

    def __delitem__(self, key: K) -> None:
        if key in self._added:
            del self._added[key]
        else:
            self._removed.add(key)

    def settle(self, budget: int) -> bool:
        """Apply about `budget` changes to the base; return True when none is left: then `base` has all keys.

        Call it only while no snapshot is being written. Changes since the last call are applied as well, so
        it comes to an end however fast timers are set.
        """
        if isinstance(self.base, LargeBucket):
            if not self.base.settle(budget):
                return False
            self.base = self.base.base
        pending = len(self._removed) + len(self._added)
        budget += max(0, pending - self._left)
        # Removals first: a key that was added again would still be found at its old place.
        for _ in range(min(budget, len(self._removed))):
            del self.base[self._removed.pop()]
            budget -= 1
        for _ in range(min(budget, len(self._added))):
            self.base[self._added.popitem(last=False)[0]] = None
        self._left = len(self._removed) + len(self._added)
        return not self._left


Bucket: TypeAlias = dict[K, None] | LargeBucket[K]
"""The keys of one timestamp, in their order."""


def copied(bucket: Bucket[K]) -> Bucket[K]:
    """Return a bucket to change instead of `bucket`, which a snapshot holds: a copy, or a layer above it."""
    if len(bucket) <= COPIED_MAX or (isinstance(bucket, LargeBucket) and bucket.depth >= DEPTH_MAX):
        return dict.fromkeys(bucket)
    return LargeBucket(bucket)
