"""Joins two tables in windows: rows of both are kept until their window ends, then they are joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.api.functions import KeyedProcessFunction
from headgate.relational.joins.equal_joins import ODD_KEYS, SIDE, WINDOW_LAST, WindowJoin
from headgate.relational.relations import WINDOW_START
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.kept_rows import KeptRows
from headgate.runtime.worker.operators.columns.kept_windows import PANE, Ended, KeptWindows
from headgate.runtime.worker.operators.columns.residual import Residual
from headgate.runtime.worker.operators.columns.windows_operator import WindowsOperator, window_column

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.spilled.windows_on_disk import WindowsOnDisk
    from headgate.state.rocksdb.chunk_store import ChunkStore

_ARROW_NAMES: Final = {
    "inner": "inner",
    "left": "left outer",
    "right": "right outer",
    "full": "full outer",
    "semi": "left semi",
    "anti": "left anti",
}

_NUMBERS: Final = ["__left", "__right"]
"""Names of the columns that number the rows of the sides, where partners have to meet a condition."""


class WindowJoinOperator(WindowsOperator):
    """Joins two tables in windows for the key groups of its subtask; its input has the rows of both.
    A column tells the sides apart. Rows are kept until their window ends, and joined then.
    """

    def __init__(
        self, context: OperatorContext, plan: WindowJoin, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        schema = plan.left.schema
        keys = [schema.fields[schema.place(name)] for name in plan.keys]
        others = [each for each in schema if each.name not in (WINDOW_LAST, *plan.keys)]
        values = pa.schema([pa.field(each.name, each.type) for each in others])
        super().__init__(context, keys, values, None, function)
        self._plan, self._values = plan, values.names
        self._residual = None
        if plan.where is not None and plan.pairs is not None:
            self._residual = Residual(context, plan.pairs.to_arrow(), plan.where)
        # Rows that come have columns without nulls, restored ones do not say so; both lie in one table.
        of_keys = [pa.field(each.name, each.type) for each in keys]
        self._rows = pa.schema([pa.field(PANE, pa.int64()), *of_keys, *values])

    def _windows_from(self, mark: int) -> KeptWindows:
        return KeptRows(self._keys, mark, self.context.max_parallelism)

    def _windows_on_disk(self, chunks: ChunkStore, mark: int) -> WindowsOnDisk:
        # Optional packages are loaded when they are used.
        from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns
        from headgate.runtime.worker.operators.columns.spilled.spill import Spill
        from headgate.runtime.worker.operators.columns.spilled.spilled_panes import SpilledRows
        from headgate.runtime.worker.operators.columns.spilled.windows_on_disk import WindowsOnDisk

        groups = self.context.max_parallelism
        columns = ChunkColumns(self._of_keys, self._values_kept, groups, placed=False, numbered=True)
        spill = Spill(chunks, columns, None)
        kept = SpilledRows(spill, self._keys, mark, chunks.held_bytes)
        return WindowsOnDisk(kept, spill, None, self._pending)

    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        columns = [WINDOW_LAST, *self._keys, *self._values]
        return pa.Table.from_arrays(pa.table(batch).select(columns).columns, schema=self._rows)

    def _results(self, ended: Ended) -> tuple[pa.RecordBatch, Int64s]:
        left, right = (
            table.select([PANE, *self._keys, *(name for name in self._values if name.startswith(prefix))])
            for table, prefix in zip(_sides(ended.table), ("left/", "right/"), strict=True)
        )
        found = self._joined(left, right)
        last = found.column(PANE).to_numpy()
        order = np.argsort(last, kind="stable")
        return self._shown(found.take(pa.array(order)).combine_chunks()), last[order]

    def _joined(self, left: pa.Table, right: pa.Table) -> pa.Table:
        how, keys = self._plan.how, [PANE, *self._keys]
        if self._residual is None:
            return left.join(right, keys, join_type=_ARROW_NAMES[how], use_threads=False)
        left, right = (
            rows.append_column(number, pa.array(np.arange(rows.num_rows)))
            for rows, number in zip((left, right), _NUMBERS, strict=True)
        )
        pairs = left.join(right, keys, join_type="inner", use_threads=False).combine_chunks()
        pairs = pairs.filter(pa.array(self._residual.true_of(self._columns(pairs), pairs[PANE].to_numpy())))
        found = [pairs] if how in ("left", "right", "full") else []
        if how == "semi":
            found.append(_with_partner(left, pairs, _NUMBERS[0], wanted=True))
        if how in ("left", "full", "anti"):
            found.append(_with_partner(left, pairs, _NUMBERS[0], wanted=False))
        if how in ("right", "full"):
            found.append(_with_partner(right, pairs, _NUMBERS[1], wanted=False))
        whole = pa.concat_tables(found, promote_options="default")
        return whole.drop_columns([name for name in _NUMBERS if name in whole.column_names])

    def _shown(self, found: pa.Table) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self._columns(found), schema=self._plan.schema.to_arrow())

    def _columns(self, found: pa.Table) -> list[pa.Array]:
        starts, last = found.column(WINDOW_START).to_numpy(), found.column(PANE).to_numpy()
        others = [name for name in self._values if name in found.column_names]
        return [
            *as_given(found, self._plan.shown_keys),
            window_column(starts, last + 1),
            *(found.column(name).combine_chunks() for name in others),
        ]


def _with_partner(rows: pa.Table, pairs: pa.Table, number: str, *, wanted: bool) -> pa.Table:
    """Return the rows that have a partner among `pairs`, if that is `wanted`, else those that have none."""
    keep = np.full(rows.num_rows, not wanted)
    keep[pairs.column(number).to_numpy()] = wanted
    return rows.filter(pa.array(keep))


def _sides(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    # Rows came by side, so most batches are of one table: these are not copied.
    found: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
    for batch in rows.to_batches():
        of_right = pc.equal(batch.column(SIDE), 1)
        some, every = pc.any(of_right).as_py(), pc.all(of_right).as_py()
        if some == every:
            found[some].append(batch)
        else:
            found[0].append(batch.filter(pc.invert(of_right)))
            found[1].append(batch.filter(of_right))
    left, right = (pa.Table.from_batches(batches, rows.schema) for batches in found)
    return left, right


def as_given(found: pa.Table, names: Sequence[str]) -> list[pa.Array]:
    # NaN and null are put back where bits of the column `ODD_KEYS` say so.
    columns = [found.column(name).combine_chunks() for name in names]
    odd = found.column(ODD_KEYS).to_numpy() if columns else np.zeros(0, np.int64)
    if not odd.any():
        return columns
    for place, column in enumerate(columns):
        nulls = pa.array((odd >> (len(columns) + place) & 1).astype(np.bool_))
        if pa.types.is_floating(column.type):
            nans = pa.array((odd >> place & 1).astype(np.bool_))
            column = pc.if_else(nans, pa.scalar(float("nan"), column.type), column)
        columns[place] = pc.if_else(nulls, pa.scalar(None, column.type), column)
    return columns
