"""Keys of a batch's rows, before they are grouped: no null and no NaN, and equal values look alike."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import UsageError
from headgate.records.batch import Batch
from headgate.relational.key_values import NoKey, alike, no_keys
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import shorten
from headgate.runtime.worker.operators.columns.column_steps import shown_time


def checked_keys(
    context: OperatorContext, columns: pa.RecordBatch, names: Sequence[str], batch: Batch
) -> list[pa.Array]:
    """Return the columns `names` of `batch`, whose columns are `columns`, as keys. UsageError, with the first
    such record: a key is null or NaN.
    """
    return [_as_key(context, columns, name, batch) for name in names]


def _as_key(context: OperatorContext, columns: pa.RecordBatch, name: str, batch: Batch) -> pa.Array:
    values = columns.column(name)
    if (wrong := no_keys(values)) is not None:
        raise _no_key(context, columns, name, batch, *wrong)
    return alike(values)


def _no_key(
    context: OperatorContext,
    columns: pa.RecordBatch,
    name: str,
    batch: Batch,
    kind: NoKey,
    found: pa.BooleanArray,
) -> UsageError:
    row = pc.index(found, True).as_py()
    at = "" if batch.timestamps is None else f", event time {shown_time(int(batch.timestamps[row]))}"
    return UsageError(
        f"{context.label}: key {name!r} is {kind.name} in a record with "
        f"{shorten(columns.slice(row, 1).to_pylist()[0])}{at}; fill it by {kind.filled_by} or filter such "
        "rows before, or have it be a key like others: group_by(...).with_nulls(), null_keys=True of "
        "top_n(), over() and match()"
    )
