"""Turns tables of windows into chunks of columns, by key group and place, and chunks into tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from headgate.common.errors import UsageError
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.panes import groups_of_rows
from headgate.runtime.worker.operators.columns.sorting import order_of_numbers
from headgate.state.chunk_log.log_file import ANY_GROUP
from headgate.state.rocksdb.chunk_bytes import ChunkKey, Piece, chunk_schema

_BYTES_TOGETHER: Final = 1 << 20
_ROWS_LEAST: Final = 1 << 10
"""So large is a chunk, if it need not be of one key group: it is copied, checked and written while it is in
the processor's cache. Writing much larger ones took twice the time.
"""


class ChunkColumns:
    """The columns of one operator's chunks: `keys` of the key, then `values`.

    `placed`: rows of a chunk have their own `PANE`, a column after the keys; else its place is the pane of
    all rows. `numbered`: a key may have several records in a pane. `may_lack`: columns that stored chunks do
    not have are null; else such chunks are refused.
    """

    def __init__(
        self,
        keys: pa.Schema,
        values: pa.Schema,
        max_parallelism: int,
        *,
        placed: bool,
        numbered: bool,
        may_lack: bool = False,
    ) -> None:
        self.keys, self.max_parallelism = tuple(keys.names), max_parallelism
        self._values, self._placed, self._may_lack = values, placed, may_lack
        pane = [pa.field(PANE, pa.int64())]
        self._rest = pa.schema([*(pane if placed else ()), *values])
        columns = pa.schema([*keys, *self._rest])
        self._stored = chunk_schema(columns, len(keys), numbered=numbered, placed=placed)
        self.schema = pa.schema([*keys, *pane, *values])

    def pieces(self, table: pa.Table, place: int | None = None) -> Iterator[Piece]:
        """Yield the rows of a table with the column `PANE` as pieces, one for each key group and place.

        `place`: that of all rows; None: each row's pane.
        """
        if not len(table):
            return
        groups = groups_of_rows(table, self.keys, self.max_parallelism)
        different, both = np.array([place]), groups.astype(np.int64)
        if place is None:
            different, numbers = np.unique(table.column(PANE).to_numpy(), return_inverse=True)
            both = both * len(different) + numbers
        order = order_of_numbers(both)
        ordered, both = self._to_store(table).take(pa.array(order)).combine_chunks(), both[order]
        (batch,) = ordered.to_batches()
        starts = np.flatnonzero(np.diff(both, prepend=-1)).tolist()
        for start, stop in pairwise([*starts, len(both)]):
            group, number = divmod(int(both[start]), len(different))
            yield Piece(group, int(different[number]), batch.slice(start, stop - start))

    def whole_pieces(self, table: pa.Table, place: int) -> Iterator[Piece]:
        """Yield the rows of a table with the column `PANE` as pieces of all key groups, in their order."""
        stored, count = self._to_store(table), table.num_rows
        step = max(_ROWS_LEAST, count * _BYTES_TOGETHER // max(table.nbytes, 1))
        for start in range(0, count, step):
            (batch,) = stored.slice(start, step).combine_chunks().to_batches()
            yield Piece(ANY_GROUP, place, batch)

    def piece(self, group: int, place: int, table: pa.Table) -> Piece:
        (batch,) = self._to_store(table).combine_chunks().to_batches()
        return Piece(group, place, batch)

    def _to_store(self, table: pa.Table) -> pa.Table:
        return table.select(self._stored.names).cast(self._stored)

    def table(self, at: ChunkKey, batch: pa.RecordBatch) -> pa.Table:
        """Return chunk `at` as a table of the key's columns, `PANE` and the values, as the program has them.

        Raises:
            UsageError: a column is missing, as the chunk is of another program.
        """
        keys = len(self.keys)
        found = pa.Table.from_batches([batch])
        if batch.schema.names[keys:] != self._rest.names:
            found = self._chosen(found)
        found = found.rename_columns([*self.keys, *self._rest.names])
        if not self._placed:
            found = found.add_column(keys, PANE, pa.repeat(pa.scalar(at.place, pa.int64()), len(found)))
        return found.cast(self.schema)

    def _chosen(self, found: pa.Table) -> pa.Table:
        keys = found.column_names[: len(self.keys)]
        if self._may_lack:
            for field in self._rest:
                if field.name not in found.column_names:
                    found = found.append_column(field, pa.nulls(len(found), field.type))
        try:
            return found.select([*keys, *self._rest.names])
        except KeyError as error:
            raise UsageError(
                f"stored windows have the columns {', '.join(found.column_names)}, and one is missing "
                f"({error}); restore from a canonical savepoint, whose columns may be named anew"
            ) from None

    def in_order(self, table: pa.Table) -> pa.Table:
        return table.select([name for name in self.schema.names if name in table.column_names])

    def by_group(self, table: pa.Table) -> dict[int, pa.Table]:
        """Return key group -> the rows of the table that belong to it, in the order of the table.
        Groups without rows are left out; the dict ascends by key group.
        """
        if not len(table):
            return {}
        groups = groups_of_rows(table, self.keys, self.max_parallelism)
        order = np.argsort(groups.astype(np.uint16), kind="stable")
        ordered, groups = table.take(pa.array(order)), groups[order]
        starts = np.flatnonzero(np.diff(groups, prepend=-1)).tolist()
        parts = pairwise([*starts, len(groups)])
        return {int(groups[start]): ordered.slice(start, stop - start) for start, stop in parts}
