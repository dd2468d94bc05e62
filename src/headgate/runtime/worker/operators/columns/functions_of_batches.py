"""Runs the program's functions in tables: of batches, as Arrow or Polars has them, and of rows as dicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import UsageError
from headgate.graph.table_nodes import TableFunctionNode
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch, take_times
from headgate.records.event_times import milliseconds
from headgate.records.row_batch import RowBatch
from headgate.relational.relations import Form
from headgate.relational.schema import Field
from headgate.relational.spark_types import is_integer, normal_type, text_of
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import NoRecord, shorten, user_error
from headgate.runtime.worker.operators.columns.row_columns import columns_of, without_nulls
from headgate.runtime.worker.operators.operator_contract import Operator

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

Record: TypeAlias = Mapping[str, Any]


class TableFunctionOperator(Operator):
    """Calls a function with each batch, or with each row of it, and passes on what it returns as columns.
    Where the result has the column of event time, that gives each row's time. Else a row keeps the time of
    its input row, if that is known: of a function of rows, and where a batch has as many rows as before.
    Raises UserFunctionError: the function raised; UsageError: its result does not fit the declared schema.
    """

    def __init__(self, context: OperatorContext, node: TableFunctionNode) -> None:
        super().__init__(context)
        self._function, self._form = node.function, node.form
        self._reads, self._gives = node.reads, node.gives
        self._name = getattr(node.function, "__name__", type(node.function).__name__)

    def process(self, batch: Batch) -> None:
        columns = columns_of(self.context, batch, self._reads)
        if self._form is Form.ROWS:
            rows, origins = self._of_rows(columns)
            found = columns_of(self.context, RowBatch(rows), self._gives) if rows else None
            at, marks = take_times(batch.timestamps, origins), take_times(batch.watermarks, origins)
        else:
            found = self._of_batch(columns)
            at, marks = _kept(batch, 0 if found is None else found.num_rows)
        if found is not None:
            self.next.process(ArrowBatch(found, *self._timed(found, at, marks)))

    # -- a function of batches

    def _of_batch(self, columns: pa.RecordBatch) -> pa.RecordBatch | None:
        try:
            result = self._function(_framed(columns, self._form))
        except BaseException as error:
            doing = NoRecord(f"in {self._name}() of a batch of {columns.num_rows} rows")
            raise user_error(self.context, error, doing) from None
        found = self._as_table(result)
        if sorted(found.column_names) != sorted(self._gives.names):
            raise UsageError(
                f"{self.context.label}: {self._name} returned the columns {', '.join(found.column_names)}; "
                f"expected {', '.join(map(str, self._gives))}, as the schema of map_batches() says"
            )
        if not found.num_rows:
            return None
        arrays = [self._fitting(found.column(each.name), each) for each in self._gives]
        return pa.RecordBatch.from_arrays(arrays, schema=self._gives.to_arrow())

    def _as_table(self, result: object) -> pa.Table:
        if type(result).__module__.partition(".")[0] == "polars" and hasattr(result, "to_arrow"):
            result = result.to_arrow()
        if isinstance(result, pa.RecordBatch):
            return pa.Table.from_batches([result])
        if isinstance(result, pa.Table):
            return result
        raise UsageError(
            f"{self.context.label}: {self._name} returned {shorten(result, 80)} of type "
            f"{type(result).__name__}; expected a pyarrow.RecordBatch, a pyarrow.Table or a polars.DataFrame"
        )

    def _fitting(self, column: pa.ChunkedArray, field: Field) -> pa.Array:
        got = normal_type(column.type)
        try:
            if got is None or not _fits(got, field.type):
                raise pa.ArrowInvalid("")
            chunks = column.cast(got).cast(field.type).chunks
        except pa.ArrowException as problem:
            raise UsageError(
                f"{self.context.label}: column {field.name!r} of what {self._name} returned is "
                f"{text_of(got or column.type)}; expected {text_of(field.type)}"
                f"{f' ({problem})' if str(problem) else ''}; cast it in the function, or declare its type"
            ) from None
        return without_nulls(self.context, pa.concat_arrays(chunks), field)

    # -- a function of rows

    def _of_rows(self, columns: pa.RecordBatch) -> tuple[list[Record], Int64s]:
        found: list[Record] = []
        origins: list[int] = []
        row: Record | None = None
        try:
            for place, row in enumerate(columns.to_pylist()):
                result = self._function(row)
                if isinstance(result, Mapping):
                    found.append(result)
                elif result is not None:
                    found.extend(self._each(result))
                origins.extend([place] * (len(found) - len(origins)))
        except BaseException as error:
            raise user_error(self.context, error, row) from None
        self._check_names(found)
        return found, np.array(origins, dtype=np.int64)

    def _each(self, result: object) -> list[Record]:
        several = list(result) if isinstance(result, Iterable) and not isinstance(result, str) else [result]
        rows = [each for each in several if isinstance(each, Mapping)]
        if len(rows) < len(several):
            wrong = next(each for each in several if not isinstance(each, Mapping))
            raise UsageError(
                f"{self._name} returned {shorten(wrong, 80)} of type {type(wrong).__name__}; expected a "
                "dict, a list of dicts, or None"
            )
        return rows

    def _check_names(self, rows: list[Record]) -> None:
        names = set(self._gives.names)
        for row in rows:
            if row.keys() != names:
                raise UsageError(
                    f"{self.context.label}: {self._name} returned {shorten(row)}; expected the columns "
                    f"{', '.join(map(str, self._gives))}, as the schema of as_rows() says"
                )

    # -- event time

    def _timed(
        self, found: pa.RecordBatch, at: Int64s | None, marks: Int64s | None
    ) -> tuple[Int64s | None, Int64s | None]:
        name = self._gives.event_time
        if name is None or marks is None:
            return at, None if at is None else marks
        column = found.column(name)
        if column.null_count:
            raise UsageError(
                f"{self.context.label}: {self._name} returned a row whose event time {name!r} is null; give "
                "each row one, or leave the column out"
            )
        return _milliseconds(column), marks


def _kept(batch: Batch, rows: int) -> tuple[Int64s | None, Int64s | None]:
    # Which row each is of is not known if their number has changed: no time, and the earliest watermark, by
    # which none is late.
    if batch.watermarks is None or rows == len(batch):
        return batch.timestamps, batch.watermarks
    return None, np.full(rows, batch.watermarks[0])


def _milliseconds(column: pa.Array) -> Int64s:
    if pa.types.is_struct(column.type):
        # A window's results have the last millisecond of their window.
        return milliseconds(pc.struct_field(column, "end")) - 1
    return milliseconds(column)


def _framed(columns: pa.RecordBatch, form: Form | None) -> object:
    if form is Form.TABLE:
        return pa.Table.from_batches([columns])
    if form is Form.POLARS:
        import polars as pl  # here, since it may not be loaded before a process forks

        return pl.from_arrow(columns)
    return columns


def _fits(got: pa.DataType, wanted: pa.DataType) -> bool:
    if got == wanted or pa.types.is_null(got):
        return True
    if is_integer(got) and is_integer(wanted):
        return bool(got.bit_width <= wanted.bit_width)
    if pa.types.is_floating(got) and pa.types.is_floating(wanted):
        return bool(got.bit_width <= wanted.bit_width)
    return bool(pa.types.is_decimal(got) and pa.types.is_decimal(wanted))
