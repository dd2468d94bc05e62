"""Merges accumulators of session windows: those of a key that overlap or touch become one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregating.accumulators import Accumulator, AnyAccumulator, Fields
from headgate.relational.aggregating.grouping import Grouping, fields_of
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.panes import hashes_of_rows
from headgate.runtime.worker.operators.columns.sorting import order_of_hashes, order_of_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

    Hashes = NDArray[np.uint32]

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
        keys = self.keys[1:]
        numbers = pa.array(_numbered(table, key_numbers(table, keys)))
        inner = Grouping((_SESSION, *keys), (_STARTS, *self.columns))
        return self._chosen(inner.of_rows(table.append_column(_SESSION, numbers)))

    def merged(self, table: pa.Table) -> pa.Table:
        """Return the table's sessions, of which those of equal keys that overlap or touch are merged.
        They are in one piece, and in the order of their keys' hashes.
        """
        return self.in_order(table, hashes_of_rows(table, self.keys[1:])).table

    def in_order(self, table: pa.Table, hashes: Hashes) -> InOrder:
        """Return what :meth:`merged` does, and the hashes of its keys; `hashes`: those of the table's rows.
        Takes little time for rows whose hash no other has, and where long stretches are in order already.
        """
        table = self._chosen(table).combine_chunks()
        order = order_of_hashes(hashes)
        table, hashes = table.take(pa.array(order)), hashes[order]
        met = _beside_equals(hashes)
        if not met.any():
            return InOrder(table, hashes)
        found = self._of_met(table.filter(pa.array(met)), hashes[met])
        if met.all():
            return found
        both = pa.concat_tables([table.filter(pa.array(~met)), found.table]).combine_chunks()
        hashes = np.concatenate([hashes[~met], found.hashes])
        order = order_of_hashes(hashes)
        return InOrder(both.take(pa.array(order)), hashes[order])

    def _of_met(self, table: pa.Table, hashes: Hashes) -> InOrder:
        keys = self.keys[1:]
        numbers = _numbered(table, _numbers_in_order(table, keys, hashes))
        order = order_of_numbers(numbers)
        table, numbers = table.take(pa.array(order)), numbers[order]
        inner = Grouping((_SESSION,), (_STARTS, *self.columns))
        found = inner.merged(table.drop_columns(list(keys)).append_column(_SESSION, pa.array(numbers)))
        first = np.flatnonzero(np.diff(numbers, prepend=-1))
        for name in keys:
            found = found.append_column(name, table.column(name).take(pa.array(first)))
        return InOrder(self._chosen(found).combine_chunks(), hashes[order[first]])

    def _chosen(self, table: pa.Table) -> pa.Table:
        # Columns in one order, of the declared types, whatever made the table: so tables can be put together.
        types = dict(self.fields)
        names = [*self.keys, *types]
        columns = [table.column(name) for name in names]
        kinds = [types.get(name, column.type) for name, column in zip(names, columns, strict=True)]
        return pa.table([c.cast(kind) for c, kind in zip(columns, kinds, strict=True)], names=names)


class InOrder(NamedTuple):
    """Sessions in one piece, in the order of their keys' hashes, and these."""

    table: pa.Table
    hashes: Hashes

    def where(self, keep: NDArray[np.bool_]) -> InOrder:
        return InOrder(self.table.filter(pa.array(keep)), self.hashes[keep])


def _beside_equals(ascending: Hashes) -> NDArray[np.bool_]:
    equal = ascending[1:] == ascending[:-1]
    met = np.zeros(len(ascending), dtype=np.bool_)
    met[1:] |= equal
    met[:-1] |= equal
    return met


def _numbered(table: pa.Table, key: Int64s) -> Int64s:
    # Returns for each row the number of its session; those of a key (its number) follow each other.
    if not table.num_rows:
        return np.zeros(0, dtype=np.int64)
    start, end = table.column(PANE).to_numpy(), table.column(END).to_numpy()
    order = _order(key, start)
    key, start, end = key[order], start[order], end[order]
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = _runs(key, start, end)
    return numbers


def _numbers_in_order(table: pa.Table, keys: tuple[str, ...], hashes: Hashes) -> Int64s:
    # As `key_numbers`, but ascending with the hashes, which ascend. Only where keys that differ have one
    # hash their values are looked up.
    begins = np.diff(hashes, prepend=hashes[:1]) != 0
    runs: Int64s = np.cumsum(begins)
    differ = np.zeros(len(hashes), dtype=np.bool_)
    for name in keys:
        column = table.column(name).combine_chunks()
        differ[1:] |= pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(False)
    differ &= ~begins
    if not differ.any():
        return runs
    of_run = np.zeros(int(runs[-1]) + 1, dtype=np.bool_)
    of_run[runs[differ]] = True
    mixed = of_run[runs]
    codes = key_numbers(table.filter(pa.array(mixed)), keys)
    runs *= int(codes.max()) + 1
    runs[mixed] += codes
    return runs


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
        return order_of_numbers(key * span + (start - low))
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
