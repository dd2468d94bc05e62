"""Turns the batches that come into a table, of rows or of columns, into Arrow columns of its schema."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import UsageError
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.late_columns import LateColumns
from headgate.records.row_batch import field_getter
from headgate.relational.schema import Field, Schema
from headgate.relational.spark_types import text_of
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import placed, shorten


def columns_of(context: OperatorContext, batch: Batch, reads: Schema) -> pa.RecordBatch:
    """Return the columns of `reads` for the records of a batch, cast to the types that `reads` says.

    Raises:
        UsageError: a record lacks a column, or has a wrong null or a value of another type.
    """
    if isinstance(batch, ArrowBatch):
        arrays = [_normal(context, batch, field) for field in reads]
    else:
        arrays = _of_rows(context, batch.rows(), reads)
    if not arrays:
        # A batch without columns would have no rows either.
        return pa.RecordBatch.from_arrays([pa.nulls(len(batch))], names=[""])
    return pa.RecordBatch.from_arrays(arrays, schema=reads.to_arrow())


def parts_of(context: OperatorContext, batch: Batch, reads: Schema) -> pa.RecordBatch | LateColumns:
    """Return what :func:`columns_of` returns, or late columns if the batch has them, of the right types."""
    if isinstance(batch, ArrowBatch) and isinstance(batch.parts, LateColumns):
        try:
            places = [batch.field(name) for name in reads.names]
        except UsageError as error:
            raise placed(context, error) from None
        kinds = [batch.parts.schema.field(place).type for place in places]
        if places and all(field.nullable and field.type == kind for field, kind in zip(reads, kinds)):
            return batch.parts.select(places, reads.to_arrow())
    return columns_of(context, batch, reads)


def _normal(context: OperatorContext, batch: ArrowBatch, field: Field) -> pa.Array:
    try:
        column = batch.parts.column(batch.field(field.name))
    except UsageError as error:
        raise placed(context, error) from None
    if column.type != field.type:
        try:
            column = pc.cast(column, field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            raise UsageError(
                f"{context.label}: column {field.name!r} came as {column.type}; expected "
                f"{text_of(field.type)} ({problem}); read it with the schema that the table was made with"
            ) from None
    return without_nulls(context, column, field)


def without_nulls(context: OperatorContext, column: pa.Array, field: Field) -> pa.Array:
    """Return `column` as it is; UsageError if it has a null and its field is not nullable."""
    if column.null_count and not field.nullable:
        raise UsageError(
            f"{context.label}: column {field.name!r} has a null, and its schema says that it has none"
        )
    return column


def _of_rows(context: OperatorContext, rows: Sequence[object], reads: Schema) -> list[pa.Array]:
    found = []
    for field in reads:
        try:
            getter = field_getter(field.name, rows[0]) if rows else None
            values = [] if getter is None else list(map(getter, rows))
        except (UsageError, KeyError, AttributeError, TypeError):
            raise _lacks(context, rows, field) from None
        try:
            column = pa.array(values, field.type, from_pandas=False)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            raise _misfit(context, rows, values, field) from None
        found.append(without_nulls(context, column, field))
    return found


def _lacks(context: OperatorContext, rows: Sequence[object], field: Field) -> UsageError:
    for row in rows:
        try:
            field_getter(field.name, row)
        except UsageError:
            return UsageError(f"{context.label}: record {shorten(row)} has no field {field.name!r}")
    return UsageError(f"{context.label}: the records have no field {field.name!r}")


def _misfit(
    context: OperatorContext, rows: Sequence[object], values: Sequence[object], field: Field
) -> UsageError:
    for row, value in zip(rows, values, strict=True):
        try:
            pa.array([value], field.type, from_pandas=False)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return UsageError(
                f"{context.label}: column {field.name!r} of record {shorten(row)} is {shorten(value, 80)} "
                f"of type {type(value).__name__}; expected {text_of(field.type)}"
            )
    return UsageError(f"{context.label}: column {field.name!r} has values that are no {text_of(field.type)}")
