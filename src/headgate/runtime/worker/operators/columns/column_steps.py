"""Filters rows and computes columns of whole batches."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import UsageError
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch, take_times
from headgate.relational.evaluation import evaluate, first_failing
from headgate.relational.exploding import exploded, one_each
from headgate.relational.passes.fused_steps import AnyStep, ExplodeStep, Step
from headgate.relational.passes.sharing import sharing
from headgate.relational.python_calls import PythonFailed
from headgate.relational.resolved import Typed, columns_in
from headgate.relational.rows import Rows
from headgate.relational.rules import RowsFailed
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import shorten, user_error
from headgate.runtime.worker.operators.columns.row_columns import parts_of
from headgate.runtime.worker.operators.operator_contract import Operator


class ColumnsOperator(Operator):
    """Runs the steps of a table: each chooses rows, then computes columns. Batches stay columnar.
    Raises UsageError or UserFunctionError, with the record, if an expression fails for a row.
    """

    def __init__(self, context: OperatorContext, steps: tuple[AnyStep, ...]) -> None:
        super().__init__(context)
        self._steps = steps
        self._shared = [sharing(step.expressions) for step in steps]

    def process(self, batch: Batch) -> None:
        columns = parts_of(self.context, batch, self._steps[0].reads)
        self._go_on(0, ArrowBatch(columns, batch.timestamps, batch.watermarks))

    def _go_on(self, place: int, batch: ArrowBatch) -> None:
        for at, step in enumerate(self._steps[place:], place + 1):
            if isinstance(step, ExplodeStep):
                for part in self._exploded(step, batch):
                    self._go_on(at, part)
                return
            batch = self._run(step, self._shared[at - 1], batch)
            if not len(batch):
                return
        self._done(batch)

    def _done(self, batch: ArrowBatch) -> None:
        self.next.process(batch)

    def _exploded(self, step: ExplodeStep, batch: ArrowBatch) -> Iterator[ArrowBatch]:
        values = self._evaluated(step.values, batch)
        if (made := one_each(values, step.made)) is not None:
            kept = [batch.columns.column(place) for place in step.kept]
            columns = pa.RecordBatch.from_arrays([*kept, *made], schema=step.gives.to_arrow())
            yield ArrowBatch(columns, batch.timestamps, batch.watermarks)
            return
        for rows, made in exploded(values, step.made, outer=step.outer):
            index = pa.array(rows)
            kept = [batch.columns.column(place).take(index) for place in step.kept]
            yield ArrowBatch(
                pa.RecordBatch.from_arrays([*kept, *made], schema=step.gives.to_arrow()),
                take_times(batch.timestamps, rows),
                take_times(batch.watermarks, rows),
            )

    def _run(self, step: Step, expressions: Sequence[Typed], batch: ArrowBatch) -> ArrowBatch:
        conditions = len(step.conditions)
        for condition in expressions[:conditions]:
            batch = self._kept(condition, batch)
            if not len(batch):
                return batch
        rows = Rows(batch.parts)
        arrays = [self._evaluated(each, batch, rows) for each in expressions[conditions:]]
        columns = pa.RecordBatch.from_arrays(arrays, schema=step.gives.to_arrow())
        return ArrowBatch(columns, batch.timestamps, batch.watermarks)

    def _kept(self, condition: Typed, batch: ArrowBatch) -> ArrowBatch:
        keep = self._evaluated(condition, batch, Rows(batch.parts))
        if pc.all(keep, min_count=0).as_py() and not keep.null_count:
            return batch
        return batch.take(np.flatnonzero(pc.fill_null(keep, False).to_numpy(zero_copy_only=False)))

    def _evaluated(self, expression: Typed, batch: ArrowBatch, rows: Rows | None = None) -> pa.Array:
        try:
            return evaluate(expression, batch.columns if rows is None else rows)
        except RowsFailed as failed:
            row = first_failing(expression, batch.columns)
            raise row_error(self.context, expression, failed, batch, row) from None
        except PythonFailed as failed:
            raise _python_error(self.context, failed) from None


class _Call(str):
    """A user function's call as text, which error messages show, without quotes, in place of a record."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _python_error(context: OperatorContext, failed: PythonFailed) -> BaseException:
    if failed.error is not None:
        return user_error(context, failed.error, _Call(failed.call))
    return UsageError(f"{context.label}: {failed.call} returned {failed.why}; let the function convert it")


def row_error(
    context: OperatorContext, expression: Typed, failed: RowsFailed, batch: ArrowBatch, row: int
) -> UsageError:
    """Return the UsageError for `expression`, which failed for the row of index `row` in `batch`.
    It shows the columns that the expression reads, the event time, and the condition of `failed`.
    """
    names = [batch.columns.schema.names[place] for place in sorted(columns_in(expression))]
    values = {name: batch.columns.column(name)[row].as_py() for name in names}
    at = "" if batch.timestamps is None else f", event time {shown_time(int(batch.timestamps[row]))}"
    return UsageError(
        f"{context.label}: {expression} of a record with {shorten(values)}{at} failed with "
        f"{failed.condition}: {failed.why}"
    )


@contextmanager
def failing_clearly(context: OperatorContext, what: str) -> Iterator[None]:
    """Turn a RowsFailed (a kernel's failure) in the `with` block into a UsageError that names `what`."""
    try:
        yield
    except RowsFailed as failed:
        raise UsageError(f"{context.label}: {what} failed with {failed.condition}: {failed.why}") from None


def shown_time(timestamp_ms: int) -> str:
    """Return an event time as text for people, in UTC; out of the years 1 to 9999 as its number.

    Example:
        >>> shown_time(86_400_001)
        '1970-01-02 00:00:00.001 UTC'
    """
    try:
        at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"
