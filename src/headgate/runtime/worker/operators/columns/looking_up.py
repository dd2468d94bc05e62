"""Joins rows with a table that does not change, batch by batch, before or after any exchange."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.key_values import alike
from headgate.relational.relations import Lookup
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.row_columns import columns_of
from headgate.runtime.worker.operators.columns.updating.key_index import ABSENT
from headgate.runtime.worker.operators.columns.updating.key_numbers import KeyNumbers
from headgate.runtime.worker.operators.columns.updating.keyed_bags import KeyedBags
from headgate.runtime.worker.operators.operator_contract import Operator

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LookupOperator(Operator):
    """Sends for each row of its input the rows of a table with the same key, or says whether there are
    some.
    """

    def __init__(self, context: OperatorContext, plan: Lookup) -> None:
        super().__init__(context)
        self._plan, self._gives = plan, plan.schema.to_arrow()
        self._mine = plan.child.schema
        self._others = [name for name in plan.table.column_names if name not in plan.keys]

    def open(self) -> None:
        rows = self._plan.table
        known = _known([rows.column(name) for name in self._plan.keys])
        keys = _keys(rows.filter(pa.array(known)), self._plan.keys)
        self._numbers = KeyNumbers(keys.schema)
        values = rows.select(self._others)
        self._bags = KeyedBags(values.schema)
        self._bags.add(self._numbers.of(keys), values.filter(pa.array(known)))

    def process(self, batch: Batch) -> None:
        columns = columns_of(self.context, batch, self._mine)
        rows = pa.table(columns)
        known = _known([rows.column(name) for name in self._plan.keys])
        numbers = np.full(len(known), ABSENT, np.int64)
        if known.any():
            numbers[known] = self._numbers.known(_keys(rows.filter(pa.array(known)), self._plan.keys))
        if self._plan.how in ("semi", "anti"):
            wanted = np.flatnonzero((numbers != ABSENT) == (self._plan.how == "semi"))
            self._send(batch, rows, wanted, [])
            return
        there = np.flatnonzero(numbers != ABSENT)
        found, places = self._bags.find(numbers[there])
        found = there[found]
        others = self._bags.take(places)
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


def _known(keys: list[pa.ChunkedArray]) -> NDArray[np.bool_]:
    found = reduce(pc.and_, (pc.is_valid(key) for key in keys))
    known: NDArray[np.bool_] = found.combine_chunks().to_numpy(zero_copy_only=False)
    return known


def _keys(rows: pa.Table, names: tuple[str, ...]) -> pa.Table:
    return pa.table([alike(rows.column(name).combine_chunks()) for name in names], names=list(names))
