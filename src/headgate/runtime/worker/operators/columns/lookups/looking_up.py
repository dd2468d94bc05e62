"""Joins rows with a table that every subtask has all of, batch by batch, before or after any exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.relations import Lookup
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.lookups.looked_up_rows import LookedUpRows
from headgate.runtime.worker.operators.columns.row_columns import columns_of
from headgate.runtime.worker.operators.columns.updating.by_key.key_index import ABSENT
from headgate.runtime.worker.operators.operator_contract import Operator

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LookupOperator(Operator):
    """Sends for each row of its input the rows of a table with the same key, or says if there are some."""

    _rows: LookedUpRows

    def __init__(self, context: OperatorContext, plan: Lookup) -> None:
        super().__init__(context)
        self._plan, self._gives = plan, plan.schema.to_arrow()
        self._mine = plan.child.schema
        self._others = [name for name in plan.table.column_names if name not in plan.keys]

    def open(self) -> None:
        self._rows = LookedUpRows(self._plan.table, self._plan.keys)

    def process(self, batch: Batch) -> None:
        rows = pa.table(columns_of(self.context, batch, self._mine))
        numbers = self._rows.numbers(rows)
        if self._plan.how in ("semi", "anti"):
            wanted = np.flatnonzero((numbers != ABSENT) == (self._plan.how == "semi"))
            self._send(batch, rows, wanted, [])
            return
        there = np.flatnonzero(numbers != ABSENT)
        found, others = self._rows.find(numbers[there])
        found = there[found]
        if self._plan.how == "left":
            alone = np.flatnonzero(numbers == ABSENT)
            nothing = pa.table(
                [pa.nulls(len(alone), field.type) for field in others.schema], schema=others.schema
            )
            found, others = np.concatenate([found, alone]), pa.concat_tables([others, nothing])
        order = np.argsort(found, kind="stable")
        shown = others.take(pa.array(order))
        self._send(batch, rows, found[order], [shown.column(name).combine_chunks() for name in self._others])

    def _send(self, batch: Batch, rows: pa.Table, places: NDArray[np.int64], others: list[pa.Array]) -> None:
        if not len(places):
            return
        mine = rows.take(pa.array(places)).combine_chunks()
        columns = {name: mine.column(name).chunk(0) for name in mine.column_names}
        columns |= zip(self._others, others, strict=False)
        arrays = [columns[name] for name in self._gives.names]
        made = pa.RecordBatch.from_arrays(arrays, schema=self._gives)
        times, marks = batch.timestamps, batch.watermarks
        self.next.process(
            ArrowBatch(made)
            if times is None or marks is None
            else ArrowBatch(made, times[places], marks[places])
        )
