"""The local part of a windowed aggregation, before the exchange: rows of a batch become accumulators by key.

A batch whose groups are nearly as many as its rows is not grouped: each row becomes accumulators by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import UsageError
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.aggregating.accumulators import Accumulator, AnyAccumulator
from headgate.relational.aggregating.grouping import Grouping, columns_of_parts, fields_of
from headgate.relational.evaluation import evaluate, first_failing
from headgate.relational.relations import Aggregation
from headgate.relational.resolved import Typed
from headgate.relational.rules import RowsFailed
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import shorten
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly, row_error
from headgate.runtime.worker.operators.columns.kept_windows import PANE, ROWS
from headgate.runtime.worker.operators.columns.keys_checked import checked_keys
from headgate.runtime.worker.operators.columns.row_columns import columns_of
from headgate.runtime.worker.operators.columns.session_grouping import END, ENDS, SessionGrouping
from headgate.runtime.worker.operators.columns.window_times import SessionTimes, times_of
from headgate.runtime.worker.operators.operator_contract import Operator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

_COUNTED: Final = (ROWS, Accumulator("rows", pa.int64(), "count_all", "sum"))
_WORTHWHILE: Final = 0.6
"""Groups per row up to which grouping before the exchange pays."""
_TIME_MAX: Final = 9 * 10**15
"""Greatest event time (ms) that windows take: their ends have to fit into timestamps in microseconds."""
_TRIED_EVERY: Final = 32
"""After so many batches that were not grouped one is, to see whether grouping pays by now."""


def keys_of(plan: Aggregation) -> tuple[str, ...]:
    return tuple(plan.child.schema.names[place] for place in plan.keys)


def accumulators_of(plan: Aggregation) -> tuple[tuple[str, AnyAccumulator], ...]:
    """Return an aggregation's accumulators (partial aggregates) by column name, in order, for a `Grouping`.
    Of session windows, the end of a session is an accumulator, too, and the first.
    """
    columns = [
        named
        for each in plan.aggregates
        for named in columns_of_parts(each.name, plan.parts_of(each).accumulators)
    ]
    return (ENDS, *columns) if plan.window.kind == "session" else tuple(columns)


class AccumulatingOperator(Operator):
    """The local part of a windowed aggregation, before the exchange: sends accumulators in place of rows.
    They are one row for each key and pane (slice of event time) of a batch, or for each row; the column
    `ROWS` says of how many input rows. Raises UsageError: no event time, or a bad time, key or value.
    """

    def __init__(self, context: OperatorContext, plan: Aggregation) -> None:
        super().__init__(context)
        self._plan, self._times = plan, times_of(plan.window)
        kind = SessionGrouping if isinstance(self._times, SessionTimes) else Grouping
        self._grouping = kind((PANE, *keys_of(plan)), (*accumulators_of(plan), _COUNTED))
        self._made = [
            (each, columns_of_parts(each.name, each.parts.accumulators)) for each in plan.aggregates
        ]
        self._skipped = 0
        self._groups_per_row = 0.0

    def process(self, batch: Batch) -> None:
        if batch.timestamps is None or batch.watermarks is None:
            raise UsageError(
                f"{self.context.label} has windows, and its records have no event time; call "
                "with_event_time() on the stream before to_table()"
            )
        columns = columns_of(self.context, batch, self._plan.child.schema)
        self._check_times(batch.timestamps, columns)
        rows, panes = self._rows(columns, batch), self._times.panes_of(batch.timestamps)
        late = self._may_be_late(panes, batch.watermarks)
        rows = rows.add_column(0, PANE, pa.array(panes))
        if isinstance(self._times, SessionTimes):
            rows = rows.append_column(END, pa.array(self._times.last_ends(panes)))
        if not late.any():
            self._send(self._grouped(rows), batch.watermarks[:1])
            return
        self._send_parts(rows, late, columns, batch)

    def _may_be_late(self, panes: Int64s, marks: Int64s) -> NDArray[np.bool_]:
        # The receiver's watermark is not higher, so there the other rows are in time for all their windows.
        return np.asarray(self._times.first_ends(panes) - 1 <= marks)

    def _send_parts(
        self, rows: pa.Table, late: NDArray[np.bool_], columns: pa.RecordBatch, batch: Batch
    ) -> None:
        assert batch.watermarks is not None
        if not late.all():
            self._send(self._grouped(rows.filter(pa.array(~late))), batch.watermarks[:1])
        self._send(self._one_by_one(rows.filter(pa.array(late))), batch.watermarks[late])

    def _check_times(self, times: Int64s, columns: pa.RecordBatch) -> None:
        far = np.flatnonzero((times > _TIME_MAX) | (times < -_TIME_MAX))
        if len(far):
            row = int(far[0])
            record = shorten(columns.slice(row, 1).to_pylist()[0])
            raise UsageError(
                f"{self.context.label}: a record with {record} has the event time {int(times[row])} ms since "
                "1970, hundreds of thousands of years from it, where there are no windows; give "
                "with_event_time() milliseconds, not nanoseconds"
            )

    def _send(self, found: pa.Table, marks: Int64s) -> None:
        columns = found.combine_chunks().to_batches()[0]
        times = columns.column(PANE).to_numpy()
        self.next.process(ArrowBatch(columns, times, np.broadcast_to(marks, times.shape)))

    def _rows(self, columns: pa.RecordBatch, batch: Batch) -> pa.Table:
        keys = self._grouping.keys[1:]
        arrays = dict(zip(keys, checked_keys(self.context, columns, keys, batch), strict=True))
        timed = ArrowBatch(columns, batch.timestamps, batch.watermarks)
        for each, accumulators in self._made:
            values = [self._argument(argument, timed) for argument in each.arguments]
            for name, one in accumulators:
                names = [column for column, _ in fields_of(name, one)]
                with failing_clearly(self.context, f"column {each.name!r} of a batch"):
                    arrays |= zip(names, one.prepared(*values), strict=False)  # a count of rows needs none
        return pa.table(arrays)

    def _argument(self, expression: Typed, batch: ArrowBatch) -> pa.Array:
        try:
            return evaluate(expression, batch.columns)
        except RowsFailed as failed:
            row = first_failing(expression, batch.columns)
            raise row_error(self.context, expression, failed, batch, row) from None

    def _grouped(self, rows: pa.Table) -> pa.Table:
        if self._groups_per_row > _WORTHWHILE and self._skipped < _TRIED_EVERY:
            self._skipped += 1
            return self._one_by_one(rows)
        with failing_clearly(self.context, "a batch"):
            found = self._grouping.of_rows(rows)
        self._groups_per_row, self._skipped = found.num_rows / rows.num_rows, 0
        return found

    def _one_by_one(self, rows: pa.Table) -> pa.Table:
        arrays = {name: rows.column(name) for name in self._grouping.keys}
        for name, each in self._grouping.columns:
            if isinstance(each, Accumulator):
                arrays[name] = _of_row(
                    each, None if each.of_rows == "count_all" else rows.column(name), rows.num_rows
                )
            else:
                arrays |= {column: rows.column(column) for column, _ in fields_of(name, each)}
        return pa.table(arrays)


def _of_row(each: Accumulator, values: pa.ChunkedArray | None, rows: int) -> pa.ChunkedArray | pa.Array:
    if values is None:
        return pa.repeat(pa.scalar(1, pa.int64()), rows)
    if each.of_rows == "count":
        return pc.cast(pc.is_valid(values), pa.int64())
    return pc.cast(values, each.type)
