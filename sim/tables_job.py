"""The Headgate program of a topology with tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from typing_extensions import override

import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.environment import Environment
from headgate.api.sink import SinkWriter, SinkWriterContext
from headgate.api.source import Plain
from headgate.api.streams.stream_classes import DataStream
from headgate.api.tables.column_table import Table
from sim.tables import Windows
from sim.tables_answer import Fixed, TableRow
from sim.topology import ROWS, TABLES, Step, Topology
from sim.topology_job import SlowSink, SlowWriter, applied, fed, source_of
from sim.worlds import cost

SCHEMA = pa.schema({"value": pa.int64(), "at_ms": pa.int64()})
RIGHT = {name: f"{name}_right" for name in ("n", "total", "least", "most")}
"""Columns of a join's right table: what they are called there, and in the result."""
Tables = dict[str, Table[DataStream[Any]]]


class RowSink(SlowSink):
    """A two-phase sink of a table's rows, which come as columns."""

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[Any]:
        return RowWriter(self, context)


class RowWriter(SlowWriter):
    """Collects rows in the form of the answer."""

    @override
    def write(self, records: Any) -> None:
        super().write([row_of(record) for record in records])


def row_of(record: Any) -> TableRow:
    """A row as the answer has it."""
    names = set(record.keys())
    window = record["session_window" if "session_window" in names else "window"]
    sides = [("n", "total", "least", "most"), tuple(RIGHT.values())]
    found = [[record[name] for name in side] for side in sides if side[0] in names]
    return TableRow(
        Fixed(
            record["key"] if "key" in names else None,
            _ms(window["start"]),
            _ms(window["end"]),
            tuple(value for side in found for value in side[2:]),
        ),
        tuple(value for side in found for value in side[:2]),
    )


def _ms(time: Any) -> int:
    return round(time.timestamp() * 1000)


def build_tables(
    topology: Topology, env: Environment, run: str = "", spend: Callable[[float], None] = cost
) -> None:
    """Add the program of a topology with tables to an Environment.

    Args:
        topology: the description.
        env: gets the program.
        run: see :class:`SlowSink`.
        spend: called by functions with what a record costs, in ms.
    """
    streams: dict[str, DataStream[Any]] = {}
    tables: Tables = {}
    for step in topology.steps:
        if step.verb == "source":
            streams[step.uid] = source_of(topology, env, step)
        elif step.verb in TABLES:
            tables[step.uid] = _table(streams, tables, step)
        elif step.verb == ROWS:
            sink = RowSink(step, run, spend)
            _widened(tables[step.feeds[0].step].to_stream().sink_to(sink, uid=step.uid), step)
        else:
            streams[step.uid] = applied(streams, step, spend).set_parallelism(step.parallelism)


def _table(streams: dict[str, DataStream[Any]], tables: Tables, step: Step) -> Table[DataStream[Any]]:
    if step.verb == "windows":
        made = _windows(fed(streams, step), step)
    elif step.verb == "again":
        made = _again(tables[step.feeds[0].step], step)
    else:
        left, right = (tables[feed.step] for feed in step.feeds)
        window = left.schema.event_time
        assert window is not None  # the column of the window is the event time of results
        names = [window, *(["key"] if "key" in left.columns else [])]
        made = left.join(right.rename(RIGHT), names, step.how, uid=step.uid)
    _widened(made.to_stream(), step)
    return made


def _widened(of: Any, step: Step) -> None:
    if step.parallelism:
        of.set_parallelism(step.parallelism)


def _windows(stream: DataStream[Any], step: Step) -> Table[DataStream[Any]]:
    windows = step.windows
    assert windows is not None
    table = stream.to_table(SCHEMA)
    if windows.keeps:
        table = table.filter(F.col("value") % windows.keeps != 0)
    table = table.with_column("amount", F.col("value") * windows.times + 1)
    keys = []
    if windows.keys:
        table, keys = table.with_column("key", F.col("value") % windows.keys), ["key"]
    amount = F.col("amount")
    return table.group_by(*keys, _window(windows)).agg(
        F.count("*").alias("n"),
        F.sum(amount).alias("total"),
        F.min(amount).alias("least"),
        F.max(amount).alias("most"),
        uid=step.uid,
    )


def _window(windows: Windows) -> Any:
    if windows.kind == "session":
        return F.session_window("at_ms", windows.size_ms)
    if windows.kind == "cumulative":
        return F.cumulate_window("at_ms", windows.size_ms, windows.slide_ms)
    return F.window("at_ms", windows.size_ms, windows.slide_ms)


def _again(table: Table[DataStream[Any]], step: Step) -> Table[DataStream[Any]]:
    window = table.schema.event_time
    assert window is not None  # as of all results of windows
    keys: list[Any] = [window]
    if step.number:
        key = F.col("key") % step.number if "key" in table.columns else F.lit(0)
        keys.append(key.alias("key"))
    return table.group_by(*keys).agg(
        F.count("*").alias("n"),
        F.sum("n").alias("total"),
        F.min("least").alias("least"),
        F.max("most").alias("most"),
        uid=step.uid,
    )
