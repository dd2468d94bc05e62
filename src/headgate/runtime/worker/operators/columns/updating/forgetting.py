"""Forgets keys for which no row has come for a time: the state is made anew of the keys that are left.

When a key had its last row is known by the clock of the subtask and not stored: after a restore the time of
each key begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.updating.by_key.key_numbers import KeyNumbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.updating.kept_for_good import KeptForGood

_PARTS: Final = 4
"""State is looked through so many times in a time to live: a key is forgotten at most a quarter of it
late.
"""


class KeyAges:
    """When the last row of each key came, in ms of the clock, for keys in the columns of `keys`."""

    def __init__(self, keys: pa.Schema, ttl_ms: int, now_ms: int) -> None:
        self._of_keys, self._ttl = keys, ttl_ms
        self._keys, self._came = KeyNumbers(keys), np.zeros(1 << 10, np.int64)
        self._looked_at = now_ms

    @property
    def count(self) -> int:
        """How many keys are known."""
        return self._keys.count

    def touch(self, rows: pa.Table, now_ms: int) -> None:
        """Note that rows came."""
        numbers = self._keys.of(rows)
        if self._keys.count > len(self._came):
            grown = np.zeros(max(self._keys.count, 2 * len(self._came)), np.int64)
            grown[: len(self._came)] = self._came
            self._came = grown
        self._came[numbers] = now_ms

    def is_due(self, now_ms: int) -> bool:
        """Return whether keys should be looked through."""
        self._looked_at = min(self._looked_at, now_ms)  # the clock may be set back
        return now_ms - self._looked_at >= max(self._ttl // _PARTS, 1)

    def without_old(self, kept: KeptForGood, new: Callable[[], KeptForGood], now_ms: int) -> KeptForGood:
        """Return `kept`, or `new()` filled with its rows of keys that are young enough, and forget the
        others.
        """
        self._looked_at = now_ms
        young = self._came[: self._keys.count] > now_ms - self._ttl
        if young.all():
            return kept
        fresh = new()
        fresh.ahead = kept.ahead
        for table in kept.view()():
            fresh.restore(table.filter(pa.array(young[self._keys.known(table)])))
        numbers = np.flatnonzero(young)
        self._keep(numbers)
        return fresh

    def _keep(self, numbers: Int64s) -> None:
        keys, came = self._keys.keys(numbers), self._came[numbers]
        self._keys, self._came = KeyNumbers(self._of_keys), np.zeros(max(1 << 10, len(came)), np.int64)
        self._came[self._keys.of(keys)] = came
