"""Finds the rows of some keys in tables that never change, without looking at the other rows each time."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.panes import hashes_of_rows
from headgate.runtime.worker.operators.columns.session_grouping import key_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s


class _Index(NamedTuple):
    table: weakref.ref[pa.Table]
    hashes: NDArray[np.uint32]  # of the keys, ascending
    order: NDArray[np.int64]  # the rows in that order


class RowsOfKeys:
    """Finds rows by the columns `keys`, with an index of each table that is kept as long as the table is."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)
        self._known: dict[int, _Index] = {}
        self._tidied = 16

    def found(self, tables: Sequence[pa.Table], wanted: pa.Table) -> list[pa.Table]:
        """Return the rows of `tables` whose key is one of `wanted`, in one table; [] if there are none."""
        hashes = np.unique(hashes_of_rows(wanted, self._keys))
        near = [found for each in tables if len(found := self._with_hashes(each, hashes))]
        if not near:
            return []
        whole = pa.concat_tables(near)
        same = self._have_keys(whole, wanted)
        return [whole] if same.all() else [whole.filter(pa.array(same))] if same.any() else []

    def _with_hashes(self, table: pa.Table, hashes: NDArray[np.uint32]) -> pa.Table:
        index = self._index(table)
        first = np.searchsorted(index.hashes, hashes, side="left")
        counts = np.searchsorted(index.hashes, hashes, side="right") - first
        return table.take(pa.array(np.sort(index.order[ranges(first, counts)])))

    def _index(self, table: pa.Table) -> _Index:
        known = self._known.get(id(table))
        if known is None or known.table() is not table:
            hashes = hashes_of_rows(table, self._keys)
            order = np.argsort(hashes, kind="stable")
            known = self._known[id(table)] = _Index(weakref.ref(table), hashes[order], order)
            self._tidy()
        return known

    def _tidy(self) -> None:
        if len(self._known) > self._tidied:
            self._known = {place: each for place, each in self._known.items() if each.table() is not None}
            self._tidied = max(16, 2 * len(self._known))

    def _have_keys(self, rows: pa.Table, wanted: pa.Table) -> NDArray[np.bool_]:
        # Different keys may have the same hash.
        both = pa.concat_tables([rows.select(self._keys), wanted.select(self._keys)])
        numbers = key_numbers(both, self._keys)
        return np.isin(numbers[: len(rows)], numbers[len(rows) :])


def ranges(first: Int64s, counts: Int64s) -> Int64s:
    before = np.cumsum(counts) - counts
    return np.repeat(first - before, counts) + np.arange(int(counts.sum()))
