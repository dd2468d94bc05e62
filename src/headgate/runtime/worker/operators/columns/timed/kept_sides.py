"""The rows of both sides of a join by time between batches, watermarks and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.common.errors import InternalError
from headgate.relational.joins.equal_joins import SIDE
from headgate.relational.joins.timed_joins import MATCHED
from headgate.runtime.worker.operators.columns.groups_ahead import RestoredByGroup
from headgate.runtime.worker.operators.columns.kept_windows import PANE, Ended, WindowsView
from headgate.runtime.worker.operators.columns.timed.timed_rows import RowsView, TimedRows
from headgate.runtime.worker.operators.columns.updating.joined_rows import LEFT, RIGHT, sides_of
from headgate.runtime.worker.operators.columns.updating.kept_for_good import LazyView

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

_PREFIXES: Final = ("left/", "right/")


class KeptSides(RestoredByGroup):
    """The rows of both sides that may get partners, for key groups some of which may be ahead of `mark`.
    `keys` are the columns of the key, `values` those of the state's records, `sides` the rows themselves.
    """

    def __init__(
        self, keys: Sequence[str], values: pa.Schema, sides: Sequence[TimedRows], mark: int, groups: int
    ) -> None:
        super().__init__(keys, mark, groups)
        self._values, self.sides = values, sides

    def late(self, rows: pa.Table, marks: Int64s) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which rows come after the watermark has passed them; `marks` has that of each row."""
        return np.asarray(rows.column(PANE).to_numpy() <= self._ahead.marks_of(rows, marks))

    def put(self, table: pa.Table) -> None:
        for side, rows in sides_of(table):
            flags = rows.column(MATCHED).to_numpy() if MATCHED in rows.column_names else None
            self.sides[side].add(rows, flags)

    def passed(self, mark: int) -> None:
        """Note that the watermark is `mark` now."""
        self._mark = mark
        self._ahead.reached(mark)

    def at_snapshot(self) -> list[WindowsView]:
        return [LazyView(self._tables([each.view() for each in self.sides]))]

    def _tables(self, views: list[list[RowsView]]) -> Callable[[], Iterator[pa.Table]]:
        # Older rows first: of equal key and time, this is the order in which they are numbered and restored.
        return lambda: (self._stored(side, *view.rows()) for side in (LEFT, RIGHT) for view in views[side])

    def _stored(
        self, side: int, rows: pa.Table, flags: np.ndarray[tuple[int], np.dtype[np.bool_]]
    ) -> pa.Table:
        count = rows.num_rows
        columns = {SIDE: pa.array(np.full(count, side, np.int32)), MATCHED: pa.array(flags)}
        columns |= {name: rows.column(name) for name in rows.column_names}
        names = [name for name in rows.column_names if not name.startswith(_PREFIXES)]
        arrays = [columns[name] for name in names]
        arrays += [columns.get(each.name, pa.nulls(count, each.type)) for each in self._values]
        return pa.table(arrays, [*names, *self._values.names])

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        raise InternalError("rows of a join by time are added by side; please report this")

    def reached(self, mark: int) -> list[Ended]:
        raise InternalError("a join by time has no windows; please report this")


def columns_of_side(side: int, of_keys: pa.Schema, values: pa.Schema) -> pa.Schema:
    """Return the columns of one side's rows: time, key, and those of the table."""
    own = [each for each in values if each.name.startswith(_PREFIXES[side])]
    return pa.schema([pa.field(PANE, pa.int64()), *of_keys, *own])
