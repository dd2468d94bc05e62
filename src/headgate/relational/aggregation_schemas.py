"""The columns and the windows of aggregations."""

from __future__ import annotations

import pyarrow as pa

from headgate.relational.aggregates import Aggregate
from headgate.relational.changes import CHANGE
from headgate.relational.expressions import TimeWindow
from headgate.relational.relations import HIDDEN, RUNNING, Windowed
from headgate.relational.schema import Field, Schema
from headgate.relational.spark_types import WINDOW


def running_schema(child: Schema, keys: tuple[int, ...], aggregates: tuple[Aggregate, ...]) -> Schema:
    """Return the columns of an aggregation without windows: its keys without hidden ones, results,
    `CHANGE`.
    """
    kept = [child.fields[place] for place in keys if child.names[place] not in HIDDEN]
    results = [Field(each.name, each.result, each.nullable) for each in aggregates]
    return Schema((*kept, *results, Field(CHANGE, pa.int8(), False)))


def windowed(window: TimeWindow) -> Windowed:
    clock = "event" if window.kind == RUNNING else window.clock
    return Windowed(window.size_ms, window.slide_ms, window.offset_ms, window.kind, clock)


def aggregation_schema(
    child: Schema, keys: tuple[int, ...], aggregates: tuple[Aggregate, ...], window: TimeWindow
) -> Schema:
    """Return the columns of an aggregation: its keys without hidden ones, the window, and its results.
    `keys` are indices of columns of `child`. Event time, if the window is of it, is the window's last ms.
    """
    kept = [child.fields[place] for place in keys if child.names[place] not in HIDDEN]
    results = [Field(each.name, each.result, each.nullable) for each in aggregates]
    event_time = window.name if window.clock == "event" else None
    return Schema((*kept, Field(window.name, WINDOW, False), *results), event_time)
