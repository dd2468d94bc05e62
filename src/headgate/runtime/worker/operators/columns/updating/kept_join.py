"""A join's rows between batches, marks and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.relational.changes import CHANGE, Change
from headgate.relational.relations import SIDE
from headgate.runtime.worker.operators.columns.kept_windows import (
    PANE,
    Ended,
    Restoring,
    RestoringBy,
    WindowsView,
)
from headgate.runtime.worker.operators.columns.panes import with_pane
from headgate.runtime.worker.operators.columns.updating.appended_rows import Piece, taken
from headgate.runtime.worker.operators.columns.updating.joined_rows import Found, JoinedRows, Side, sides_of
from headgate.runtime.worker.operators.columns.updating.keyed_bags import Part
from headgate.runtime.worker.operators.columns.updating.running_groups import SETTLED, SINCE
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT, changes_of, net_rows, weighted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

_PREFIXES: Final = ("left/", "right/")


def columns_of_sides(values: pa.Schema, *, weights: bool) -> list[pa.Schema]:
    """Return the columns of each side among a join's `values`, and `WEIGHT` last, if there are `weights`."""
    more = [pa.field(WEIGHT, pa.int64())] if weights else []
    return [pa.schema([*(f for f in values if f.name.startswith(prefix)), *more]) for prefix in _PREFIXES]


class KeptJoin:
    """The rows of a join, and what came since the last mark; `came` are the columns of rows that come."""

    def __init__(self, rows: JoinedRows, came: pa.Schema, sides: Sequence[pa.Schema]) -> None:
        self.rows, self._came, self._sides = rows, came, sides
        self._waiting: list[pa.Table] = []
        self.ahead: list[tuple[int, int]] = []

    def grow(self, rows: pa.Table) -> Iterator[Found]:
        """Add rows of a join that only grows, and return what comes out."""
        for side, mine in sides_of(rows):
            yield self.rows.grow(side, self._side(side, mine))

    def gather(self, rows: pa.Table) -> None:
        """Keep rows until the next mark."""
        self._waiting.append(rows)

    def at_mark(self) -> Iterable[Found]:
        """Add what came since the last mark, and return what changes thereby."""
        if not self._waiting:
            return ()
        came, self._waiting = pa.concat_tables(self._waiting), []
        by_side = dict(sides_of(came))
        left, right = (self._side(side, by_side.get(side, came.slice(0, 0))) for side in (0, 1))
        return self.rows.change(left, right)

    def _side(self, side: int, rows: pa.Table) -> Side:
        numbers = self.rows.keys.of(rows)
        if WEIGHT in self._sides[side].names:
            rows = weighted(rows if CHANGE in rows.column_names else _inserted(rows))
        return Side(rows.select(self._sides[side].names), numbers)

    def of_group(self, group: int, mark: int) -> Restoring:
        return RestoringBy(self._restore)

    def _restore(self, table: pa.Table) -> None:
        panes = table.column(PANE).to_numpy()
        rows = table.select(self._came.names)
        since = rows.filter(pa.array(panes == SINCE))
        if since.num_rows:
            self._waiting.append(pa.Table.from_arrays(since.columns, schema=self._came))
        for side, mine in sides_of(rows.filter(pa.array(panes == SETTLED))):
            self.rows.put(side, self._side(side, mine))

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        raise NotImplementedError

    def reached(self, mark: int) -> Iterable[Ended]:
        return ()

    def at_snapshot(self) -> list[WindowsView]:
        waiting = pa.concat_tables(self._waiting) if self._waiting else None
        return [_View(self._came, self.rows.keys.view(), self.rows.view(), waiting)]


def _inserted(rows: pa.Table) -> pa.Table:
    changes = pa.array(np.full(rows.num_rows, Change.INSERT, np.int8))
    return rows.append_column(CHANGE, changes)


Keep = Callable[[pa.Table], "NDArray[np.bool_]"]
"""Says of each row of a table whether it is wanted."""


class _View:
    """The rows as they were at a snapshot, for the thread that writes them."""

    def __init__(
        self,
        came: pa.Schema,
        keys: list[Piece],
        parts: list[tuple[int, Part]],
        waiting: pa.Table | None,
        keep: Keep | None = None,
    ) -> None:
        self._came, self._keys, self._parts, self._waiting, self._keep = came, keys, parts, waiting, keep

    def tables(self) -> Iterator[pa.Table]:
        found = [with_pane(self._stored(*part), SETTLED) for part in self._parts]
        found += [] if self._waiting is None else [with_pane(self._waiting, SINCE)]
        for table in found:
            yield table if self._keep is None else table.filter(pa.array(self._keep(table)))

    def _stored(self, side: int, part: Part) -> pa.Table:
        numbers, rows = np.repeat(part.numbers, part.counts), part.table.take(pa.array(part.rows))
        schema = pa.schema([field for field in self._came if field.name in self._keys_names])
        whole = taken(self._keys, numbers, schema)
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

    @property
    def _keys_names(self) -> list[str]:
        return self._keys[0].table.column_names

    def where(self, keep: Keep) -> WindowsView:
        return _View(self._came, self._keys, self._parts, self._waiting, keep)

    def release(self) -> None:
        """Do nothing: the tables are shared with the operator."""
