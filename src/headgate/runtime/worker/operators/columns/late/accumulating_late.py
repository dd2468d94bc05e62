"""The local part of an aggregation with allowed lateness: late rows keep their order and their columns."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.relational.relations import LATE_PREFIX, Aggregation
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.accumulating import AccumulatingOperator
from headgate.runtime.worker.operators.columns.window_times import SessionTimes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Batch, Int64s

LATE_ROW: Final = "__late_row"
"""Name of the column that holds a row as the program had it, of rows that may be late; a struct."""
LATE_TIME: Final = "__late_time"
"""Name of the column that holds the event time of a row that may be late, in ms since 1970."""


class LateAccumulatingOperator(AccumulatingOperator):
    """Sends rows that may be late one by one, with their original columns if a side output may get them."""

    def __init__(self, context: OperatorContext, plan: Aggregation) -> None:
        super().__init__(context, plan)
        self._late_columns = () if plan.late is None else tuple(plan.late.to_arrow())

    def _may_be_late(self, panes: Int64s, marks: Int64s) -> NDArray[np.bool_]:
        if isinstance(self._times, SessionTimes):
            # A session that such a row would lengthen may have ended, though the row's own has not.
            return np.asarray(panes <= marks)
        return super()._may_be_late(panes, marks)

    def _send_parts(
        self, rows: pa.Table, late: NDArray[np.bool_], columns: pa.RecordBatch, batch: Batch
    ) -> None:
        assert batch.watermarks is not None
        if self._late_columns:
            rows = rows.append_column(LATE_ROW, self._as_they_were(columns))
        if isinstance(self._times, SessionTimes):
            # Whether a row is late may depend on the rows before it.
            borders = [0, *(np.flatnonzero(np.diff(late)) + 1).tolist(), len(late)]
            parts = [np.arange(start, stop) for start, stop in pairwise(borders)]
        else:
            parts = [np.flatnonzero(~late), np.flatnonzero(late)]
        for part in parts:
            if not len(part):
                continue
            if late[part[0]]:
                self._send_late(rows.take(pa.array(part)), part, batch)
            else:
                chosen = rows.take(pa.array(part))
                chosen = chosen.drop_columns(LATE_ROW) if self._late_columns else chosen
                self._send(self._grouped(chosen), batch.watermarks[part[:1]])

    def _as_they_were(self, columns: pa.RecordBatch) -> pa.Array:
        arrays = [columns.column(f"{LATE_PREFIX}{field.name}") for field in self._late_columns]
        return pa.StructArray.from_arrays(arrays, fields=list(self._late_columns))

    def _send_late(self, rows: pa.Table, places: Int64s, batch: Batch) -> None:
        assert batch.timestamps is not None
        assert batch.watermarks is not None
        found = self._one_by_one(rows)
        if self._late_columns:
            found = found.append_column(LATE_ROW, rows.column(LATE_ROW))
            found = found.append_column(LATE_TIME, pa.array(batch.timestamps[places]))
        self._send(found, batch.watermarks[places])
