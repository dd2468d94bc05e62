"""Merges accumulators of session windows: those of a key that overlap or touch become one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregating.accumulators import Accumulator, AnyAccumulator, Fields
from headgate.relational.aggregating.grouping import Grouping, fields_of
from headgate.runtime.worker.operators.columns.kept_windows import PANE

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

END: Final = "__end"
"""Name of the column with the end of a session: `gap` ms after its last row."""
ENDS: Final = (END, Accumulator("end", pa.int64(), "max", "max"))
"""The end of a session as an accumulator, which is merged and stored like those of aggregates."""
_STARTS: Final = (PANE, Accumulator("start", pa.int64(), "min", "min"))
_SESSION: Final = "__session"
_FITS: Final = 2**62


class SessionGrouping(NamedTuple):
    """How rows, or sessions, of equal keys become sessions; `columns` has the accumulator `ENDS`.
    Its methods are those of :class:`~headgate.relational.aggregating.grouping.Grouping`; `keys` begin with
    `PANE`, which holds a session's start.
    """

    keys: tuple[str, ...]
    columns: tuple[tuple[str, AnyAccumulator], ...]

    @property
    def fields(self) -> Fields:
        return tuple(field for name, each in self.columns for field in fields_of(name, each))

    def of_rows(self, table: pa.Table) -> pa.Table:
        """Return the sessions of rows: keys, accumulators, the start in `PANE` and the end in `END`.
        In `table`, `PANE` has each row's time (ms), and `END` that time plus the gap.
        """
        return self._sessions(table, of_rows=True)

    def merged(self, table: pa.Table) -> pa.Table:
        """Return the table's sessions, of which those of equal keys that overlap or touch are merged."""
        return self._sessions(table, of_rows=False)

    def _sessions(self, table: pa.Table, of_rows: bool) -> pa.Table:
        keys = self.keys[1:]
        inner = Grouping((_SESSION, *keys), (_STARTS, *self.columns))
        numbers = pa.array(_numbered(table, keys))
        numbered = table.append_column(_SESSION, numbers)
        found = inner.of_rows(numbered) if of_rows else inner.merged(numbered)
        return found.select([*self.keys, *(name for name, _ in self.fields)])


def _numbered(table: pa.Table, keys: tuple[str, ...]) -> Int64s:
    if not table.num_rows:
        return np.zeros(0, dtype=np.int64)
    key = key_numbers(table, keys)
    start, end = table.column(PANE).to_numpy(), table.column(END).to_numpy()
    order = _order(key, start)
    key, start, end = key[order], start[order], end[order]
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = _runs(key, start, end)
    return numbers


def key_numbers(table: pa.Table, keys: tuple[str, ...]) -> Int64s:
    """Return for each row a number, from 0, that is the same for rows with equal values in columns `keys`."""
    found: Int64s = np.zeros(table.num_rows, dtype=np.int64)
    for name in keys:
        column = table.column(name).combine_chunks()
        coded = pc.dictionary_encode(column)
        coded = coded if isinstance(coded, pa.DictionaryArray) else coded.combine_chunks()
        codes: Int64s = coded.indices.to_numpy().astype(np.int64)
        if len(keys) == 1:
            return codes
        both = found * len(coded.dictionary) + codes
        found = np.asarray(np.unique(both, return_inverse=True)[1], dtype=np.int64)
    return found


def _order(key: Int64s, start: Int64s) -> Int64s:
    low, high = int(start.min()), int(start.max())
    span = high - low + 1
    if (int(key.max()) + 1) * span < _FITS:
        return np.asarray(np.argsort(key * span + (start - low), kind="stable"), dtype=np.int64)
    return np.asarray(np.lexsort((start, key)), dtype=np.int64)


def _runs(key: Int64s, start: Int64s, end: Int64s) -> Int64s:
    numbers = np.arange(len(key))
    while True:
        # A later row may lie in the session of an earlier but longer one: again until nothing changes.
        begins = np.ones(len(key), dtype=np.bool_)
        begins[1:] = (key[1:] != key[:-1]) | (start[1:] > end[:-1])
        if begins.all():
            return numbers
        first = np.flatnonzero(begins)
        numbers = (np.cumsum(begins) - 1)[numbers]
        key, start, end = key[first], start[first], np.maximum.reduceat(end, first)
