"""The first rows of each key as they are at the last mark, by numbers.

A row has a number from when it is among the first of its key until it is not. A key has the numbers of its
rows in their order, and the codes of what each of them is ordered by are at hand: so at a mark no row is read
that does not come, go or move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.updating.by_key.appended_rows import taken
from headgate.runtime.worker.operators.columns.updating.by_key.key_numbers import KeyNumbers
from headgate.runtime.worker.operators.columns.updating.by_key.key_runs import KeyRuns, Lists, ranges
from headgate.runtime.worker.operators.columns.updating.by_key.keyed_rows import beside
from headgate.runtime.worker.operators.columns.updating.by_key.packed_sort import distinct, sorted_by
from headgate.runtime.worker.operators.columns.updating.by_key.rows_by_number import RowsByNumber
from headgate.runtime.worker.operators.columns.updating.ranked.row_order import First, RowOrder, RowsAt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

_ROWS_TOGETHER: Final = 1 << 16
"""Rows that a snapshot gathers at a time."""


class Contest(NamedTuple):
    """What was ranked: the lists `old` of `keys`, whose rows come first, and then `came` with `codes`.
    `first`: the first ones of all these, key after key; `rows_at` gives their rows.
    """

    keys: Int64s
    old: Lists
    came: pa.Table
    codes: list[Int64s]
    first: First
    rows_at: RowsAt


class KeptRanks:
    """The first `n` rows of each key in the order `by`; `schema` are their columns, of which the first `keys`
    are the key.
    """

    def __init__(self, schema: pa.Schema, keys: int, by: RowOrder, n: int) -> None:
        self._of_keys, self._by, self._n = pa.schema(list(schema)[:keys]), by, n
        self._keys, self._lists = KeyNumbers(self._of_keys), KeyRuns()
        self._rows = RowsByNumber(pa.schema(list(schema)[keys:]))
        self._codes = np.zeros((by.coded, 1 << 10), np.int64)  # of rows by their numbers
        self._free, self._unused = np.zeros(0, np.int64), 0

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self._lists.count

    def contest(self, came: pa.Table) -> Contest:
        """Rank rows that came with those of their keys; of equal ones these are ahead."""
        numbers, codes = self._keys.of(came), self._by.codes(came)
        hopeful = np.flatnonzero(~self._beaten(numbers, codes))
        if len(hopeful) < len(numbers):
            came, numbers = came.take(pa.array(hopeful)), numbers[hopeful]
            codes = [each[hopeful] for each in codes]
        keys = distinct(numbers)
        old = self._lists.of(keys)
        owners = np.concatenate([np.repeat(keys, old.counts), numbers])
        codes = [
            np.concatenate([mine[old.values], more]) for mine, more in zip(self._codes, codes, strict=True)
        ]

        def rows_at(indices: Int64s) -> pa.Table:
            mine = indices < len(old.values)
            kept = self.rows(owners[indices[mine]], old.values[indices[mine]])
            both = pa.concat_tables([kept, came.take(pa.array(indices[~mine] - len(old.values)))])
            return both.take(pa.array(np.argsort(np.argsort(~mine, kind="stable"))))

        first = self._by.first([owners], codes, self._n, rows_at)
        return Contest(keys, old, came, codes, first, rows_at)

    def _beaten(self, numbers: Int64s, codes: Sequence[Int64s]) -> NDArray[np.bool_]:
        """Return which rows are behind the last one of the first rows of their keys."""
        found = np.zeros(len(numbers), np.bool_)
        if codes:
            full = np.flatnonzero(self._lists.counts(numbers) >= self._n)
            last = self._codes[0][self._lists.at(numbers[full], self._n - 1)]
            found[full] = codes[0][full] > last
        return found

    def rows(self, keys: Int64s, numbers: Int64s) -> pa.Table:
        """Return the rows of `numbers`, of these keys."""
        return beside(self._keys.keys(keys), self._rows.rows(numbers))

    def settle(self, contest: Contest, new: Int64s, entered: pa.Table) -> None:
        """Keep the first rows of a contest. `new` says where in `first` they are of those that came, and
        `entered` are these.
        """
        keys, old, _, codes, first, _ = contest
        kept = np.flatnonzero(first.rows < len(old.values))
        numbers = np.zeros(len(first.rows), np.int64)
        numbers[kept] = old.values[first.rows[kept]]
        stays = np.zeros(len(old.values), np.bool_)
        stays[first.rows[kept]] = True
        gone = old.values[~stays]
        self._rows.remove(gone)
        mine = numbers[new] = self._new_numbers(len(new))
        self._free = np.concatenate([self._free, gone])
        self._put(mine, entered, [each[first.rows[new]] for each in codes])
        starts = np.flatnonzero(first.places == 1)
        self._lists.put(keys, Lists(np.diff(starts, append=len(numbers)), numbers))

    def _put(self, numbers: Int64s, rows: pa.Table, codes: Sequence[Int64s]) -> None:
        for kept, each in zip(self._codes, codes, strict=True):
            kept[numbers] = each
        self._rows.put(numbers, rows)

    def _new_numbers(self, count: int) -> Int64s:
        reused, self._free = self._free[:count], self._free[count:]
        fresh = np.arange(self._unused, self._unused + count - len(reused))
        self._unused += len(fresh)
        if self._unused > self._codes.shape[1]:
            more = np.zeros((len(self._codes), max(self._unused, 2 * self._codes.shape[1])), np.int64)
            more[:, : self._codes.shape[1]] = self._codes
            self._codes = more
        return np.concatenate([reused, fresh])

    def restore(self, rows: pa.Table, places: Int64s) -> None:
        """Add all rows of keys that have none, with their places."""
        keys = self._keys.of(rows)
        order, _ = sorted_by([keys, places])
        rows, keys = rows.take(pa.array(order)), keys[order]
        numbers = self._new_numbers(len(order))
        self._put(numbers, rows, self._by.codes(rows))
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        self._lists.put(keys[starts], Lists(np.diff(starts, append=len(keys)), numbers))

    def of_keys(self, keys: Int64s) -> tuple[pa.Table, Int64s]:
        """Return the rows of keys with their places, key after key."""
        counts, values = self._lists.of(keys)
        return self.rows(np.repeat(keys, counts), values), ranges(np.ones_like(counts), counts)

    def view(self) -> Callable[[], Iterator[tuple[pa.Table, Int64s]]]:
        """Return what yields all rows with their places, as they are now: key after key, in the order of
        places, so that what is stored depends on the rows alone and not on when they came.
        """
        keys, lists, rows = self._keys.view(), self._lists.all(), self._rows.view()
        of_keys = self._of_keys

        def tables() -> Iterator[tuple[pa.Table, Int64s]]:
            owners = np.repeat(np.arange(len(lists.counts)), lists.counts)
            places = ranges(np.ones_like(lists.counts), lists.counts)
            for start in range(0, len(places), _ROWS_TOGETHER):
                some = slice(start, start + _ROWS_TOGETHER)
                found = beside(taken(keys, owners[some], of_keys), rows.rows(lists.values[some]))
                yield found, places[some]

        return tables
