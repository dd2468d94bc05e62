"""The first rows of each key in some order: pure functions over tables, and the rows that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.relations import Order
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.updating.by_key.keyed_rows import KeyedRows
from headgate.runtime.worker.operators.columns.updating.kept_for_good import KeptForGood, newest

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

PLACE: Final = "__place"
"""Name of the column of a row's place among those of its key, from 1."""

_NUMBER: Final = "__number"
_WAITING_MAX: Final = 1 << 17
"""Rows that wait before those beyond the first of their key are dropped."""


def first_rows(rows: pa.Table, numbers: Int64s, order: Sequence[Order], n: int) -> tuple[Int64s, Int64s]:
    """Return indices of the first `n` rows of each key, in order, and their places from 1; `numbers` says of
    each row which key it has. Of equal rows the one that comes first in the table is first.
    """
    columns, directions = {_NUMBER: pa.array(numbers)}, [(_NUMBER, "ascending")]
    for each in order:
        for name, column, least_first in _comparable(rows.column(each.place), str(each.place)):
            columns[name] = column
            directions.append((name, "ascending" if least_first is not each.descending else "descending"))
    found = pc.sort_indices(pa.table(columns), sort_keys=directions).to_numpy().astype(np.int64)
    of_keys = numbers[found]
    starts = np.flatnonzero(np.diff(of_keys, prepend=-1))
    places = np.arange(len(found)) - np.repeat(starts, np.diff(starts, append=len(found))) + 1
    kept = places <= n
    return found[kept], places[kept]


def _comparable(column: pa.ChunkedArray, name: str) -> Iterator[tuple[str, pa.ChunkedArray, bool]]:
    # Null is less than any value, NaN is greater; Arrow puts both at the end whatever the direction.
    if column.null_count:
        yield f"{name}/known", pc.cast(pc.is_valid(column), pa.int8()), True
    if pa.types.is_floating(column.type):
        nan = pc.fill_null(pc.is_nan(column), False)
        yield f"{name}/nan", pc.cast(nan, pa.int8()), True
        # -0.0 and 0.0 are equal.
        column = pc.add(pc.if_else(nan, pa.scalar(0, column.type), column), pa.scalar(0, column.type))
    yield name, column, True


class Reranked(NamedTuple):
    """Rows of keys that got new ones: `before` those at the last mark, `after` the present ones; both with
    `PLACE` and in the order of key numbers and places.
    """

    before: pa.Table
    after: pa.Table


class RankedRows(KeptForGood):
    """The first `n` rows of each key, in memory. `schema` are the columns of rows, of which the first
    `keys` are the key.
    """

    def __init__(self, schema: pa.Schema, keys: int, order: Sequence[Order], n: int) -> None:
        super().__init__()
        self._schema, self._key_names, self._order, self._n = schema, schema.names[:keys], order, n
        place = pa.field(PLACE, pa.int64())
        of_keys = pa.schema([*list(schema)[:keys], place])
        self._kept = KeyedRows(of_keys, pa.schema(list(schema)[keys:]))
        self._waiting: list[pa.Table] = []
        self._log: list[Int64s] = []

    @property
    def count(self) -> int:
        return self._kept.count

    def gather(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        if len(self._waiting) > 1 and sum(each.num_rows for each in self._waiting) >= _WAITING_MAX:
            self._waiting = [self._first(pa.concat_tables(self._waiting)).drop_columns(PLACE)]

    def _first(self, rows: pa.Table) -> pa.Table:
        numbers = key_codes(rows.select(self._key_names))
        found, places = first_rows(rows, numbers, self._order, self._n)
        return rows.take(pa.array(found)).append_column(PLACE, pa.array(places))

    def at_mark(self) -> Reranked | None:
        """Rank what came since the last mark, and return the rows of all keys that got some; None: none
        did.
        """
        if not self._waiting:
            return None
        came, self._waiting = pa.concat_tables(self._waiting), []
        before = self._of_keys(came.select(self._key_names))
        # Rows that were there came earlier.
        whole = pa.concat_tables([before.select(self._schema.names), came])
        after = self._first(whole)
        numbers = self._kept.numbers(after)
        self._kept.put(numbers, after)
        if self._logs:
            self._log.append(numbers)
        return Reranked(before, after)

    def _of_keys(self, keys: pa.Table) -> pa.Table:
        different = keys.group_by(self._key_names, use_threads=False).aggregate([]).combine_chunks()
        places = np.tile(np.arange(1, self._n + 1), different.num_rows)
        rows = np.repeat(np.arange(different.num_rows), self._n)
        asked = different.take(pa.array(rows)).append_column(PLACE, pa.array(places))
        numbers = self._kept.numbers_if_known(asked)
        there = self._kept.there(numbers)
        found = self._kept.rows(numbers[there])
        columns = [*asked.filter(pa.array(there)).columns, *found.columns]
        return pa.table(columns, [*self._key_names, PLACE, *found.column_names])

    def restore(self, table: pa.Table) -> None:
        panes = table.column(PANE).to_numpy()
        kept = table.filter(pa.array(panes > 0))
        kept = kept.append_column(PLACE, kept.column(PANE))
        self._kept.put(self._kept.numbers(kept), kept)
        since = table.filter(pa.array(panes < 0))
        if since.num_rows:
            order = np.argsort(-since.column(PANE).to_numpy(), kind="stable")
            rows = since.select(self._schema.names).take(pa.array(order))
            self._waiting.append(pa.Table.from_arrays(rows.columns, schema=self._schema))

    def settled(self) -> Callable[[], Iterator[pa.Table]]:
        kept = self._kept.view()
        return lambda: (self._with_pane(table, 1) for table in kept.tables())

    def since(self) -> list[pa.Table]:
        if not self._waiting:
            return []
        return [self._with_pane(self._first(pa.concat_tables(self._waiting)), -1)]

    def take_log(self) -> list[pa.Table]:
        log, self._log = self._log, []
        return [self._with_pane(self._kept.with_keys(np.unique(np.concatenate(log))), 1)] if log else []

    def compacted(self, log: pa.Table) -> pa.Table:
        return newest(log, [*self._key_names, PANE])

    def _with_pane(self, table: pa.Table, sign: int) -> pa.Table:
        # A row's place is its pane, below 0 for rows that came since the last mark.
        panes = pa.array(table.column(PLACE).to_numpy() * sign)
        columns = pa.Table.from_arrays(table.select(self._schema.names).columns, schema=self._schema)
        return columns.add_column(0, PANE, panes)


def key_codes(keys: pa.Table) -> Int64s:
    """Return a number for each row, the same for equal keys."""
    codes = np.zeros(keys.num_rows, np.int64)
    for column in keys.columns:
        encoded = column.combine_chunks().dictionary_encode()
        mine = encoded.indices.to_numpy().astype(np.int64)
        # As small as possible again, or the product would overflow with many columns.
        codes = np.unique(codes * len(encoded.dictionary) + mine, return_inverse=True)[1]
    return codes
