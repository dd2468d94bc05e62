"""The keys of which a row was sent, and until which event time later rows of them are duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.panes import with_pane
from headgate.runtime.worker.operators.columns.updating.by_key.appended_rows import taken
from headgate.runtime.worker.operators.columns.updating.by_key.key_numbers import KeyNumbers
from headgate.runtime.worker.operators.columns.updating.kept_for_good import SETTLED, KeptForGood, newest

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

UNTIL: Final = "until"
"""Name of the column with the event time (ms) from which on a row of the key is no duplicate."""

FOREVER: Final = 2**62
_NEVER_SEEN: Final = -(2**62)
_SMALLEST: Final = 1 << 10
"""Keys that are not looked through for expired ones."""


class SeenKeys(KeptForGood):
    """Keys of one subtask, in memory, in the columns of `keys`. A row is a duplicate of one that was sent for
    `within_ms` of event time; None: for ever.
    """

    def __init__(self, keys: pa.Schema, within_ms: int | None) -> None:
        super().__init__()
        self._of_keys, self._within = keys, within_ms
        self._keys, self._until = KeyNumbers(keys), np.full(_SMALLEST, _NEVER_SEEN, np.int64)
        self._forgotten_at = _NEVER_SEEN
        self._log: list[pa.Table] = []

    @property
    def count(self) -> int:
        """How many keys are kept, the expired ones among them that were not looked for yet."""
        return self._keys.count

    def first(self, rows: pa.Table, times: Int64s | None) -> Int64s:
        """Return the indices of the rows that are no duplicates, ascending; `times` are event times (ms),
        needed if duplicates are so `within_ms`.
        """
        numbers = self._numbers(rows)
        if self._within is None or times is None:
            fresh = np.flatnonzero(self._until[numbers] == _NEVER_SEEN)
            found: Int64s = fresh[np.sort(np.unique(numbers[fresh], return_index=True)[1])]
            self._until[numbers[found]] = FOREVER
            self._note(rows, found, numbers)
            return found
        left, sent = np.arange(len(numbers)), [np.zeros(0, np.int64)]
        # Of each key the first row that is no duplicate is sent, and the rows after it are looked at again.
        while len(left := left[times[left] >= self._until[numbers[left]]]):
            first = np.unique(numbers[left], return_index=True)[1]
            sent.append(left[first])
            self._until[numbers[left[first]]] = times[left[first]] + self._within
            left = np.delete(left, first)
        found = np.sort(np.concatenate(sent))
        self._note(rows, found, numbers)
        return found

    def _note(self, rows: pa.Table, sent: Int64s, numbers: Int64s) -> None:
        if self._logs and len(sent):
            until = pa.array(self._until[numbers[sent]])
            self._log.append(rows.take(pa.array(sent)).append_column(UNTIL, until))

    def _numbers(self, rows: pa.Table) -> Int64s:
        numbers = self._keys.of(rows)
        if self._keys.count > len(self._until):
            grown = np.full(max(self._keys.count, 2 * len(self._until)), _NEVER_SEEN, np.int64)
            grown[: len(self._until)] = self._until
            self._until = grown
        return numbers

    def expire(self, mark: int) -> None:
        """Forget keys of which no row after the watermark `mark` (ms) can be a duplicate."""
        if self._within is None or mark - self._forgotten_at < self._within // 4:
            return
        self._forgotten_at = mark
        until = self._until[: self._keys.count]
        alive = np.flatnonzero(until > mark)
        if len(until) > _SMALLEST and len(alive) * 2 < len(until):
            keys, until = self._keys.keys(alive), until[alive]
            self._keys, self._until = KeyNumbers(self._of_keys), np.full(_SMALLEST, _NEVER_SEEN, np.int64)
            self._until[self._numbers(keys)] = until

    def gather(self, rows: pa.Table) -> None:
        raise AssertionError("rows are not gathered, but sent or not")

    def restore(self, table: pa.Table) -> None:
        numbers = self._numbers(table)
        self._until[numbers] = table.column(UNTIL).to_numpy()

    def settled(self) -> Callable[[], Iterator[pa.Table]]:
        keys, until = self._keys.view(), self._until[: self._keys.count].copy()
        mark = self._forgotten_at

        def tables() -> Iterator[pa.Table]:
            alive = np.flatnonzero(until > mark)
            table = taken(keys, alive, self._of_keys)
            yield with_pane(table.append_column(UNTIL, pa.array(until[alive])), SETTLED)

        return tables

    def since(self) -> list[pa.Table]:
        return []

    def take_log(self) -> list[pa.Table]:
        log, self._log = self._log, []
        return [with_pane(pa.concat_tables(log), SETTLED)] if log else []

    def compacted(self, log: pa.Table) -> pa.Table:
        return newest(log, self._of_keys.names)
