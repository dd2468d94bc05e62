"""The groups of an aggregation without windows: what the last mark's answer was made of, and what came since.

Accumulators that come are only gathered, under the numbers of their keys. At a mark those of one key become
one, are merged with what the key had, and old and new results give the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.panes import with_pane
from headgate.runtime.worker.operators.columns.updating.by_key.keyed_rows import KeyedRows
from headgate.runtime.worker.operators.columns.updating.by_key.packed_sort import distinct
from headgate.runtime.worker.operators.columns.updating.kept_for_good import (
    GONE,
    SETTLED,
    SINCE,
    KeptForGood,
    newest,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s


_WAITING_MAX: Final = 1 << 17
"""Rows that wait before those of one key become one."""

_NUMBER: Final = "__number"
"""Name of the column with the number of a row's key."""


class Changed(NamedTuple):
    """Groups that got rows since the last mark: `before` has the accumulators of those that were there, for
    which `known` is true; `after` those of all, with their keys.
    """

    before: pa.Table
    after: pa.Table
    known: NDArray[np.bool_]


class RunningGroups(KeptForGood):
    """The accumulators of each key of one subtask, in memory; `grouping` merges them."""

    def __init__(self, grouping: Grouping, keys: pa.Schema) -> None:
        super().__init__()
        self._grouping, self._by_number = grouping, Grouping((_NUMBER,), grouping.columns)
        values = pa.schema([pa.field(name, kind) for name, kind in grouping.fields])
        self._settled, self._of_values = KeyedRows(keys, values), values
        self._columns = [*keys.names, *values.names]
        self._came: list[pa.Table] = []
        self._rows_came = 0
        self._waiting: list[pa.Table] = []  # what came before, under the numbers of keys
        self._keys = keys.names
        self._log: list[Int64s] = []

    @property
    def count(self) -> int:
        return self._settled.count

    def restore(self, table: pa.Table) -> None:
        panes = table.column(PANE).to_numpy()
        settled = table.filter(pa.array(panes == SETTLED)).select(self._columns)
        self._settled.put(self._settled.numbers(settled), settled)
        self._drop(table.filter(pa.array(panes == GONE)))
        came = table.filter(pa.array(panes == SINCE))
        if came.num_rows:
            numbers = self._settled.numbers(came)
            self._waiting.append(_numbered(numbers, came.select(self._of_values.names)))

    def gather(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._came.append(rows)
            self._rows_came += rows.num_rows
        if self._rows_came >= _WAITING_MAX:
            self._since()

    def _since(self) -> pa.Table | None:
        # What came since the mark, one row for each key.
        if not self._numbered_rows():
            return None
        self._waiting = [self._merged(self._waiting)]
        return self._waiting[0]

    def _numbered_rows(self) -> list[pa.Table]:
        # Keys are looked for here only; until the mark their rows have their numbers.
        if self._came:
            rows = pa.concat_tables(self._came).combine_chunks()
            self._came, self._rows_came = [], 0
            self._waiting.append(self._accumulators(self._settled.numbers(rows), rows))
        return self._waiting

    def _accumulators(self, numbers: Int64s, rows: pa.Table) -> pa.Table:
        # Of rows that came, under the numbers of their keys.
        return _numbered(numbers, rows.select(self._of_values.names))

    def _merged(self, tables: list[pa.Table]) -> pa.Table:
        return self._by_number.merged(pa.concat_tables(tables)).combine_chunks()

    def at_mark(self) -> Changed | None:
        """Settle what came since the last mark, and return the groups that got rows; None: there are none."""
        since = self._numbered_rows()
        if not since:
            return None
        self._waiting = []
        numbers = distinct(np.concatenate([_numbers_of(each) for each in since]))
        known = numbers[self._settled.there(numbers)]
        before = self._settled.rows(known)
        after = self._merged([_numbered(known, before), *since])
        numbers = _numbers_of(after)
        there = self._settled.there(numbers)
        before = before.take(pa.array(np.searchsorted(known, numbers[there])))
        self._settled.put(numbers, after)
        if self._logs:
            self._log.append(numbers)
        return Changed(before, self._with_keys(after), there)

    def _with_keys(self, rows: pa.Table) -> pa.Table:
        keys, values = self._settled.keys(_numbers_of(rows)), rows.select(self._of_values.names)
        return pa.table([*keys.columns, *values.columns], self._columns)

    def forget(self, keys: pa.Table) -> None:
        """Drop the accumulators of groups that have no rows any more; their last change was of this mark."""
        self._drop(keys)

    def _drop(self, keys: pa.Table) -> None:
        if keys.num_rows:
            self._settled.remove(self._settled.numbers(keys))

    def settled(self) -> Callable[[], Iterator[pa.Table]]:
        settled = self._settled.view()
        return lambda: (with_pane(table, SETTLED) for table in settled.tables())

    def since(self) -> list[pa.Table]:
        since = self._since()
        return [] if since is None else [with_pane(self._with_keys(since), SINCE)]

    def take_log(self) -> list[pa.Table]:
        if not self._log:
            return []
        numbers, self._log = distinct(np.concatenate(self._log)), []
        there = self._settled.there(numbers)
        gone = self._settled.keys(numbers[~there])
        nothing = [pa.nulls(gone.num_rows, field.type) for field in self._of_values]
        return [
            with_pane(self._settled.with_keys(numbers[there]), SETTLED),
            with_pane(pa.table([*gone.columns, *nothing], self._columns), GONE),
        ]

    def compacted(self, log: pa.Table) -> pa.Table:
        return newest(log, self._keys)


def _numbered(numbers: Int64s, rows: pa.Table) -> pa.Table:
    return rows.add_column(0, _NUMBER, pa.array(numbers))


def _numbers_of(rows: pa.Table) -> Int64s:
    found: Int64s = rows.column(_NUMBER).to_numpy()
    return found
