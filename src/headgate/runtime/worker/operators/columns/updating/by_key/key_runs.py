"""For each key a list of integers, replaced as a whole, a batch of keys at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from headgate.runtime.worker.operators.columns.updating.by_key.growing import Growing

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

_SPARE: Final = 1 << 12
"""So many replaced integers more than there are in lists are kept before all lists are written anew."""


class Lists(NamedTuple):
    """Lists one after the other: how many integers each has, and these."""

    counts: Int64s
    values: Int64s


class KeyRuns:
    """Lists by the numbers of their keys (see `KeyNumbers`), empty ones to begin with."""

    def __init__(self) -> None:
        self._firsts, self._counts = np.zeros(1 << 10, np.int64), np.zeros(1 << 10, np.int64)
        self._values, self.count = Growing(1), 0

    def counts(self, numbers: Int64s) -> Int64s:
        """Return how long the lists of keys are."""
        self._make_room(numbers)
        found: Int64s = self._counts[numbers]
        return found

    def of(self, numbers: Int64s) -> Lists:
        """Return the lists of keys."""
        counts = self.counts(numbers)
        return Lists(counts, self._values.columns[0][ranges(self._firsts[numbers], counts)])

    def at(self, numbers: Int64s, index: int) -> Int64s:
        """Return of each key's list the integer at `index`; all are longer."""
        found: Int64s = self._values.columns[0][self._firsts[numbers] + index]
        return found

    def put(self, numbers: Int64s, lists: Lists) -> None:
        """Replace the lists of keys, all different."""
        self._make_room(numbers)
        self.count += len(lists.values) - int(self._counts[numbers].sum())
        self._firsts[numbers] = self._values.count + np.cumsum(lists.counts) - lists.counts
        self._counts[numbers] = lists.counts
        self._values.extend([lists.values])
        if self._values.count > 2 * self.count + _SPARE:
            whole, self._values = self.all(), Growing(1)
            self._values.extend([whole.values])
            self._firsts = np.cumsum(whole.counts) - whole.counts

    def all(self) -> Lists:
        """Return a copy of all lists, in the order of the keys' numbers; some at the end are of no key."""
        return Lists(self._counts.copy(), self._values.columns[0][ranges(self._firsts, self._counts)])

    def _make_room(self, numbers: Int64s) -> None:
        size = len(self._counts)
        if len(numbers) and (needed := int(numbers.max()) + 1) > size:
            more = np.zeros(max(needed, 2 * size) - size, np.int64)
            self._firsts, self._counts = (
                np.concatenate([each, more]) for each in (self._firsts, self._counts)
            )


def ranges(firsts: Int64s, counts: Int64s) -> Int64s:
    """Return the integers of ranges one after the other, each from its first one on."""
    return np.arange(int(counts.sum())) + np.repeat(firsts - np.cumsum(counts) + counts, counts)
