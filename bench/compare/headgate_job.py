"""Headgate's part of the comparison: one query, as its users run it, into the sink that adds up checksums.

    python -m bench.compare.headgate_job ORDER.json

Parquet is read as a table; J2 keeps its count in Python, as users of PySpark write it, and the others are
columns.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import headgate as hg
import headgate.functions as F  # noqa: N812  # as users of PySpark write it
from bench.compare.checksums import ChecksumSink
from bench.compare.orders import Order, versions
from bench.jobs.support import RunningCount, Stopwatch, environment, result
from headgate.nexmark import BIDS, SCHEMAS
from headgate.nexmark.queries import QUERIES, Inputs

Stream = hg.DataStream[Any]
Program = Callable[[hg.Environment, Order], Stream]


class OrderInputs(Inputs):
    """The tables of an order, from Parquet or from JSON lines."""

    def __init__(self, env: hg.Environment, order: Order) -> None:
        super().__init__(env, Path())
        self._order = order

    def table(self, name: str) -> Any:
        """A table with event time."""
        folder = self._order.tables[name.removesuffix("s")].folder
        if self._order.format == "parquet":
            table = self._env.table(folder, uid=name)
        else:
            table = self._env.read_json(folder, schema=SCHEMAS[name], uid=name).to_table()
        return table.with_watermark("dateTime", "4s")


def table_of_bids(env: hg.Environment, order: Order) -> Any:
    """The bids as a table with event time."""
    return OrderInputs(env, order).table("bids")


def j1(env: hg.Environment, order: Order) -> Stream:
    """Map and filter."""
    bids = table_of_bids(env, order).filter(F.col("auction") % 123 == 0)
    price = (F.col("price").cast("double") * F.lit(0.908)).alias("price")
    return bids.select("auction", "bidder", price, "channel", "url", "dateTime").to_stream()


def j2(env: hg.Environment, order: Order) -> Stream:
    """A count per auction in a Python object's state; a tuple for each bid."""
    folder = order.tables["bid"].folder
    if order.format == "parquet":
        bids = env.read_parquet(folder, uid="bids")
    else:
        bids = env.read_json(folder, schema=BIDS, uid="bids")
    return bids.key_by("auction").process(RunningCount(), uid="counts")


def j3(env: hg.Environment, order: Order) -> Stream:
    """Count and highest price of each auction and window."""
    counted = table_of_bids(env, order).group_by("auction", F.window("dateTime", "10s"))
    found = counted.agg(F.count("*").alias("number"), F.max("price").alias("highest"), uid="windows")
    return found.select("auction", F.col("window.start").alias("starttime"), "number", "highest").to_stream()


class HighestCount(hg.KeyedProcessFunction[Any, Any, tuple[Any, int, int]]):
    """Keeps the auction with most bids of a window until event time has passed its end."""

    best: hg.ValueState[tuple[int, int]] = hg.value_state(default=(0, 0))

    def process(self, count: Any, ctx: Any) -> Iterator[tuple[Any, int, int]]:
        """Compare a count with the best one so far."""
        self.best.value = max(self.best.value, (count.number, count.auction))
        ctx.timers.register_event_time(ctx.timestamp)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, int, int]]:
        """All counts of the window have come."""
        number, auction = self.best.value
        self.best.clear()
        yield ctx.key, auction, number


def j4(env: hg.Environment, order: Order) -> Stream:
    """The auction with most bids of each sliding window: counts as columns, the comparison in Python."""
    counted = table_of_bids(env, order).group_by("auction", F.window("dateTime", "10s", "2s"))
    found = counted.agg(F.count("*").alias("number"), uid="windows")
    counts = found.select("auction", F.col("window.start").alias("starttime"), "number").to_stream()
    return counts.key_by("starttime").process(HighestCount(), uid="highest")


TUPLES: Final = {
    "J2": pa.schema({"auction": pa.int64(), "number": pa.int64()}),
    "J4": pa.schema({"starttime": BIDS.field("dateTime").type, "auction": pa.int64(), "number": pa.int64()}),
}
"""The columns of answers whose rows are tuples."""

JOBS: Final[dict[str, Program]] = {"J1": j1, "J2": j2, "J3": j3, "J4": j4}


def has(query: str) -> bool:
    """Whether Headgate has a query."""
    return query in JOBS or query in QUERIES


def stream_of(env: hg.Environment, order: Order) -> Stream:
    """The rows of the answer."""
    if order.query in JOBS:
        return JOBS[order.query](env, order)
    return QUERIES[order.query](OrderInputs(env, order)).to_stream()


def _write(stream: Stream, order: Order) -> None:
    """Send the answer into Parquet files, to be compared row by row."""
    if order.query in TUPLES:
        schema, names = TUPLES[order.query], TUPLES[order.query].names
        stream = stream.map(lambda row: dict(zip(names, row, strict=True))).to_table(schema).to_stream()
    stream.write_parquet(order.out, uid="out")


def main() -> None:
    """The program."""
    order = Order.read(sys.argv[1])
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    stopwatch, sink = Stopwatch(), ChecksumSink([name for name, _ in order.columns])
    try:
        env = environment(stopwatch, "1s", storage)
        stream = stream_of(env, order)
        if order.out is None:
            stream.sink_to(sink, uid="sink")
        else:
            _write(stream, order)
        env.execute(order.query)
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    to_epoch = time.time() - time.monotonic()
    sums = None if order.out else {"records": sink.sums.records, "checksums": sink.sums.columns}
    result(
        began=stopwatch.began_s + to_epoch,
        ended=stopwatch.ended_s + to_epoch,
        checkpoints=len(stopwatch.checkpoints_ms),
        failures=stopwatch.failures,
        versions=versions("headgate", "pyspark", "pyarrow", "polars"),
        **(sums or {}),
    )


if __name__ == "__main__":
    main()
