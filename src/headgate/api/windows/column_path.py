"""Computes windows of rows as windows of columns, where the program asks for nothing more than these do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import headgate.api.tables.aggregate_functions as columns
from headgate.api.streams.steps import ProgramContext
from headgate.api.tables.column import Column
from headgate.api.tables.column_functions import window as window_of
from headgate.api.tables.column_table import Table
from headgate.api.tables.from_streams import table_of
from headgate.api.tables.table_outputs import S
from headgate.api.windows.assigners import SlidingWindows
from headgate.api.windows.window_aggregates import Aggregate
from headgate.common.errors import PlanError
from headgate.records.selectors import KeySelector
from headgate.relational.python_types import can_be_key
from headgate.relational.spark_types import WINDOW

_FUNCTIONS: Final = {
    "count": columns.count,
    "sum": columns.sum,
    "min": columns.min,
    "max": columns.max,
    "avg": columns.avg,
}


def aggregated_columns(
    environment: ProgramContext,
    keyed: int,
    key: KeySelector,
    assigner: SlidingWindows,
    aggregates: Mapping[str, Aggregate],
    uid: str | None,
    stream: Callable[[ProgramContext, int], S],
) -> S | None:
    """Return the results of windows as a stream of columns; None if they must be computed row by row.

    Args:
        environment: the stream's.
        keyed: number of the node that partitions the stream by `key`.
        key: the stream's key selector.
        assigner: the windows, of event time.
        aggregates: name of the result's field -> aggregate.
        uid: of the aggregation's operator; None: not set.
        stream: makes the stream object of an Environment and a node's number.

    Raises:
        PlanError: a column does not exist, or is of a type that its aggregate does not take.
    """
    calls = [call for name, each in aggregates.items() if (call := _call(name, each)) is not None]
    names = _key_names(key)
    partition = environment.program.node(keyed)
    table = _table(environment, partition.inputs[0].id, stream)
    if table is None or not names or len(calls) < len(aggregates):
        return None
    time = table.schema.event_time
    if time is None or not _is_time(table, time) or not all(_fits(table, name) for name in names):
        return None
    # The columns have an exchange of their own, behind the accumulators: nothing reads the stream's.
    environment.program.looked_at([partition])
    window = window_of(time, assigner.size_ms, assigner.slide_ms, assigner.offset_ms)
    return table.group_by(*names, window).agg(*calls, uid=uid).to_stream()


def _call(name: str, aggregate: Aggregate) -> Column | None:
    function, what = _FUNCTIONS.get(aggregate.name), aggregate.what
    if function is None or callable(what):
        return None
    return function("*" if what is None else what).alias(name)


def _key_names(key: KeySelector) -> tuple[str, ...]:
    if callable(key):
        return ()
    return (key,) if isinstance(key, str) else key


def _table(
    environment: ProgramContext, number: int, stream: Callable[[ProgramContext, int], S]
) -> Table[S] | None:
    try:
        return table_of(environment, number, None, stream)
    except PlanError:
        return None


def _is_time(table: Table[S], name: str) -> bool:
    return bool(table.schema.fields[table.schema.place(name)].type != WINDOW)


def _fits(table: Table[S], name: str) -> bool:
    return any(field.name == name and can_be_key(field.type) for field in table.schema)
