"""A join's rows between batches, marks and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from headgate.relational.changes import CHANGE, Change
from headgate.relational.relations import SIDE
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

_PREFIXES: Final = ("left/", "right/")


def columns_of_sides(values: pa.Schema, *, weights: bool) -> list[pa.Schema]:
    """Return the columns of each side among a join's `values`, and `WEIGHT` last, if there are `weights`."""
    more = [pa.field(WEIGHT, pa.int64())] if weights else []
    return [pa.schema([*(f for f in values if f.name.startswith(prefix)), *more]) for prefix in _PREFIXES]


class KeptJoin(KeptForGood):
    """The rows of a join, and what came since the last mark; `came` are the columns of rows that come."""

    def __init__(
        self, rows: JoinedRows, of_keys: pa.Schema, came: pa.Schema, sides: Sequence[pa.Schema]
    ) -> None:
        super().__init__()
        self.rows, self._of_keys, self._came, self._sides = rows, of_keys, came, sides
        self._waiting: list[pa.Table] = []
        self._log: list[pa.Table] = []

    @property
    def count(self) -> int:
        return self.rows.count

    @property
    def waiting(self) -> int:
        """How many rows have been gathered and not joined yet."""
        return sum(each.num_rows for each in self._waiting)

    def grown(self) -> Iterator[Found]:
        """Add what came since the last call to a join that only grows, and return what comes out."""
        if not self._waiting:
            return
        came, self._waiting = self._waiting, []
        self._note(pa.concat_tables(came))
        # A sender has one side: rows of both are not put together, as they would have to be parted again.
        parts = [part for each in came for part in sides_of(each)]
        for side in sorted({side for side, _ in parts}):
            mine = pa.concat_tables([rows for each, rows in parts if each == side])
            yield self.rows.grow(side, self._side(side, mine))

    def _note(self, rows: pa.Table) -> None:
        if self._logs:
            self._log.append(rows)

    def gather(self, rows: pa.Table) -> None:
        self._waiting.append(rows)

    def at_mark(self) -> Iterable[Found]:
        """Add what came since the last mark, and return what changes thereby."""
        if not self._waiting:
            return ()
        came, self._waiting = pa.concat_tables(self._waiting), []
        self._note(came)
        by_side = dict(sides_of(came))
        left, right = (self._side(side, by_side.get(side, came.slice(0, 0))) for side in (0, 1))
        return self.rows.change(left, right)

    def _side(self, side: int, rows: pa.Table) -> Side:
        numbers = self.rows.keys.of(rows)
        if WEIGHT in self._sides[side].names:
            rows = weighted(rows if CHANGE in rows.column_names else _inserted(rows))
        return Side(rows.select(self._sides[side].names).combine_chunks(), numbers)

    def restore(self, table: pa.Table) -> None:
        panes = table.column(PANE).to_numpy()
        rows = table.select(self._came.names)
        since = rows.filter(pa.array(panes == SINCE))
        if since.num_rows:
            self._waiting.append(pa.Table.from_arrays(since.columns, schema=self._came))
        for side, mine in sides_of(rows.filter(pa.array(panes == SETTLED))):
            self.rows.put(side, self._side(side, mine))

    def settled(self) -> Callable[[], Iterator[pa.Table]]:
        keys, parts = self.rows.keys.view(), self.rows.view()
        return lambda: (with_pane(self._stored(keys, *part), SETTLED) for part in parts)

    def since(self) -> list[pa.Table]:
        return [with_pane(each, SINCE) for each in self._waiting]

    def take_log(self) -> list[pa.Table]:
        log, self._log = self._log, []
        return [with_pane(pa.concat_tables(log), SETTLED)] if log else []

    def compacted(self, log: pa.Table) -> pa.Table:
        return netted(log)

    def _stored(self, keys: list[Piece], side: int, part: Part) -> pa.Table:
        numbers, rows = np.repeat(part.numbers, part.counts), part.table.take(pa.array(part.rows))
        whole = taken(keys, numbers, self._of_keys)
        for field in rows.schema:
            whole = whole.append_column(field, rows.column(field.name))
        if WEIGHT in whole.column_names:
            whole = changes_of(net_rows(whole))
        count = whole.num_rows
        arrays = {SIDE: pa.array(np.full(count, side, np.int32))}
        columns = [
            whole.column(field.name)
            if field.name in whole.column_names
            else arrays.get(field.name, pa.nulls(count, field.type))
            for field in self._came
        ]
        return pa.Table.from_arrays(columns, schema=self._came)


def _inserted(rows: pa.Table) -> pa.Table:
    changes = pa.array(np.full(rows.num_rows, Change.INSERT, np.int8))
    return rows.append_column(CHANGE, changes)
