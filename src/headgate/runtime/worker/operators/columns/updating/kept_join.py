"""A join's rows between batches, marks and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from headgate.relational.changes import CHANGE, Change
from headgate.relational.joins.equal_joins import SIDE, side_prefix
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.panes import with_pane
from headgate.runtime.worker.operators.columns.updating.by_key.appended_rows import Piece, taken
from headgate.runtime.worker.operators.columns.updating.by_key.keyed_bags import Part
from headgate.runtime.worker.operators.columns.updating.joined_rows import Found, JoinedRows, Side, sides_of
from headgate.runtime.worker.operators.columns.updating.kept_for_good import SETTLED, SINCE, KeptForGood
from headgate.runtime.worker.operators.columns.updating.weights import (
    WEIGHT,
    changes_of,
    net_rows,
    netted,
    weighted,
)


def columns_of_sides(values: pa.Schema, sides: int, *, weights: bool) -> list[pa.Schema]:
    """Return the columns of each side among a join's `values`, and `WEIGHT` last, if there are `weights`."""
    more = [pa.field(WEIGHT, pa.int64())] if weights else []
    prefixes = [side_prefix(side) for side in range(sides)]
    return [pa.schema([*(f for f in values if f.name.startswith(prefix)), *more]) for prefix in prefixes]


class KeptJoin(KeptForGood):
    """The rows of a join, and what came since the last mark. `came` are the columns of rows as they are
    stored: a row has null in those of other sides, which rows that come lack.
    """

    def __init__(
        self, rows: JoinedRows, of_keys: pa.Schema, came: pa.Schema, sides: Sequence[pa.Schema]
    ) -> None:
        super().__init__()
        self.rows, self._of_keys, self._came, self._sides = rows, of_keys, came, sides
        self._own = [_own_columns(came, of_keys, side, len(sides)) for side in range(len(sides))]
        self._waiting = _BySide(self._own)
        self._log = _BySide(self._own)

    @property
    def count(self) -> int:
        return self.rows.count

    @property
    def waiting(self) -> int:
        """How many rows have been gathered and not joined yet."""
        return self._waiting.count

    def gather(self, rows: pa.Table) -> None:
        for side, mine in sides_of(rows):
            self._waiting.add(side, mine)

    def change(self) -> Iterable[Found]:
        """Add what came since the last call, and return what changes of the join thereby."""
        if not self._waiting.count:
            return ()
        came = self._waiting.take()
        if self._logs:
            for side, rows in enumerate(came):
                self._log.add(side, rows)
        return self.rows.change(*(self._side(side, rows) for side, rows in enumerate(came)))

    def _side(self, side: int, rows: pa.Table) -> Side:
        if not rows.num_rows:
            return Side(self._sides[side].empty_table(), np.zeros(0, np.int64))
        numbers = self.rows.keys.of(rows)
        if WEIGHT in self._sides[side].names:
            rows = weighted(rows if CHANGE in rows.column_names else _inserted(rows))
        return Side(rows.select(self._sides[side].names).combine_chunks(), numbers)

    def restore(self, table: pa.Table) -> None:
        panes = table.column(PANE).to_numpy()
        rows = table.select(self._came.names)
        since = rows.filter(pa.array(panes == SINCE))
        if since.num_rows:
            self.gather(pa.Table.from_arrays(since.columns, schema=self._came))
        for side, mine in sides_of(rows.filter(pa.array(panes == SETTLED))):
            self.rows.put(side, self._side(side, mine))

    def settled(self) -> Callable[[], Iterator[pa.Table]]:
        keys, parts = self.rows.keys.view(), self.rows.view()
        return lambda: (with_pane(self._stored(keys, *part), SETTLED) for part in parts)

    def since(self) -> list[pa.Table]:
        return [with_pane(self._whole(side, rows), SINCE) for side, rows in self._waiting.each()]

    def take_log(self) -> list[pa.Table]:
        log, self._log = self._log, _BySide(self._own)
        return [with_pane(self._whole(side, rows), SETTLED) for side, rows in log.each()]

    def compacted(self, log: pa.Table) -> pa.Table:
        return netted(log)

    def _stored(self, keys: list[Piece], side: int, part: Part) -> pa.Table:
        numbers, rows = np.repeat(part.numbers, part.counts), part.table.take(pa.array(part.rows))
        whole = taken(keys, numbers, self._of_keys)
        for field in rows.schema:
            whole = whole.append_column(field, rows.column(field.name))
        if WEIGHT in whole.column_names:
            whole = changes_of(net_rows(whole))
        return self._whole(side, whole)

    def _whole(self, side: int, rows: pa.Table) -> pa.Table:
        """Return rows of one side with all columns."""
        of_side = {SIDE: pa.array(np.full(rows.num_rows, side, np.int32))}
        columns = [
            rows.column(field.name)
            if field.name in rows.column_names
            else of_side.get(field.name, pa.nulls(rows.num_rows, field.type))
            for field in self._came
        ]
        return pa.Table.from_arrays(columns, schema=self._came)


def _own_columns(came: pa.Schema, of_keys: pa.Schema, side: int, sides: int) -> pa.Schema:
    others = tuple(side_prefix(each) for each in range(sides) if each != side)
    # A key may be called as columns of a side are.
    return pa.schema([f for f in came if f.name in of_keys.names or not f.name.startswith(others)])


class _BySide:
    """Tables of rows that came, by side; each has only the columns `own` of its side."""

    def __init__(self, own: Sequence[pa.Schema]) -> None:
        self._own = own
        self._tables: list[list[pa.Table]] = [[] for _ in own]
        self.count = 0

    def add(self, side: int, rows: pa.Table) -> None:
        if rows.num_rows:
            self._tables[side].append(rows.select(self._own[side].names))
            self.count += rows.num_rows

    def each(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield each side that has rows, with these."""
        for side, tables in enumerate(self._tables):
            if tables:
                yield side, pa.concat_tables(tables).combine_chunks()

    def take(self) -> list[pa.Table]:
        """Return the rows of all sides, and have none from then on."""
        taken = [schema.empty_table() for schema in self._own]
        for side, rows in self.each():
            taken[side] = rows
        self._tables, self.count = [[] for _ in self._own], 0
        return taken


def _inserted(rows: pa.Table) -> pa.Table:
    changes = pa.array(np.full(rows.num_rows, Change.INSERT, np.int8))
    return rows.append_column(CHANGE, changes)
