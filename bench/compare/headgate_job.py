"""Headgate's part of the comparison: one query, as its users run it, into the sink that adds up checksums.

    python -m bench.compare.headgate_job [--rocksdb] ORDER.json

Parquet is read as a table; J2 keeps its count in Python, as users of PySpark write it, and the others are
columns. J3 and J4 are windows with declared aggregates, J3-py and J4-py the same with Python functions.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
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
        """A table, with event time where the query needs it: no engine has watermarks elsewhere."""
        folder = self._order.tables[name.removesuffix("s")].folder
        if self._order.format == "parquet":
            table = self._env.table(folder, uid=name)
        else:
            table = self._env.read_json(folder, schema=SCHEMAS[name], uid=name).to_table()
        return table.with_watermark("dateTime", "4s") if self._order.timed else table


def table_of_bids(env: hg.Environment, order: Order) -> Any:
    """The bids as a table."""
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


def windows_of(env: hg.Environment, order: Order, windows: Any) -> Any:
    """The bids of each auction in windows, as users of windows write it."""
    folder = order.tables["bid"].folder
    used = ["auction", "price", "dateTime"]
    if order.format == "parquet":
        bids = env.read_parquet(folder, columns=used, uid="bids")
    else:
        bids = env.read_json(folder, schema=pa.schema([BIDS.field(name) for name in used]), uid="bids")
    return bids.with_event_time("dateTime", out_of_orderness="4s").key_by("auction").window(windows)


def j3(env: hg.Environment, order: Order) -> Stream:
    """Count and highest price of each auction and window, by aggregates that are declared."""
    windows = windows_of(env, order, hg.tumbling("10s"))
    found = windows.aggregate(number=hg.count(), highest=hg.max("price"), uid="windows").to_table()
    return found.select("auction", F.col("window.start").alias("starttime"), "number", "highest").to_stream()


def j3_python(env: hg.Environment, order: Order) -> Stream:
    """The same, by a Python function over the bids of each window."""
    return windows_of(env, order, hg.tumbling("10s")).process(count_and_highest, uid="windows")


def count_and_highest(auction: Any, window: Any, bids: Any, _ctx: Any) -> Iterator[tuple[Any, ...]]:
    """The row of a window."""
    yield auction, time_of(window.start), len(bids), max(bid.price for bid in bids)


def time_of(ms: int) -> datetime:
    """A time as a result has it."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def j4(env: hg.Environment, order: Order) -> Stream:
    """The auction with most bids of each sliding window, by aggregates that are declared."""
    windows = windows_of(env, order, hg.sliding("10s", "2s"))
    counts = windows.aggregate(number=hg.count(), uid="windows").to_table()
    most = counts.group_by("window").agg(F.max("number").alias("number"), uid="most")
    best = counts.join(most, ["window", "number"], uid="best").group_by("window")
    found = best.agg(F.max("auction").alias("auction"), F.max("number").alias("number"), uid="greatest")
    return found.select(F.col("window.start").alias("starttime"), "auction", "number").to_stream()


def j4_python(env: hg.Environment, order: Order) -> Stream:
    """The same, with a Python function that compares the counts of a window two by two."""
    windows = windows_of(env, order, hg.sliding("10s", "2s"))
    counts = windows.aggregate(number=hg.count(), uid="windows").to_table()
    flat = counts.select(F.col("window.start").alias("starttime"), "auction", "number").to_stream()
    # A count has the time of its window's end, so windows as long as the slide hold those of one window.
    best = flat.key_by("starttime").window(hg.tumbling("2s")).reduce(greater, uid="greatest")
    return best.map(lambda count: (count.starttime, count.auction, count.number))


def greater(one: Any, other: Any) -> Any:
    """The greater of two counts."""
    return max(one, other, key=lambda count: (count.number, count.auction))


_TIME: Final = BIDS.field("dateTime").type
_J4: Final = pa.schema({"starttime": _TIME, "auction": pa.int64(), "number": pa.int64()})
TUPLES: Final = {
    "J2": pa.schema({"auction": pa.int64(), "number": pa.int64()}),
    "J3-py": pa.schema(
        {"auction": pa.int64(), "starttime": _TIME, "number": pa.int64(), "highest": pa.int64()}
    ),
    "J4-py": _J4,
}
"""The columns of answers whose rows are tuples."""

ROCKSDB: Final = "--rocksdb"
"""The option for state in RocksDB, of which checkpoints store what is new."""
_IN_ROCKSDB: Final = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True}

JOBS: Final[dict[str, Program]] = {
    "J1": j1,
    "J2": j2,
    "J3": j3,
    "J3-py": j3_python,
    "J4": j4,
    "J4-py": j4_python,
}


def has(query: str) -> bool:
    """Whether Headgate has a query."""
    return query in JOBS or query in QUERIES


def stream_of(env: hg.Environment, order: Order) -> Stream:
    """The rows of the answer, or its changes."""
    if order.query in JOBS:
        return JOBS[order.query](env, order)
    table = QUERIES[order.query](OrderInputs(env, order))
    return table.to_changes() if order.updating else table.to_stream()


def written_as_table(stream: Stream, order: Order) -> Stream:
    """The rows of the answer as columns, as files of them need."""
    if order.query not in TUPLES:
        return stream
    schema, names = TUPLES[order.query], TUPLES[order.query].names
    return stream.map(lambda row: dict(zip(names, row, strict=True))).to_table(schema).to_stream()


def main() -> None:
    """The program."""
    *options, path = sys.argv[1:]
    order = Order.read(path)
    config = _IN_ROCKSDB if ROCKSDB in options else None
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    stopwatch, sink = Stopwatch(), ChecksumSink([name for name, _ in order.columns])
    try:
        env = environment(stopwatch, "1s", storage, config)
        stream = stream_of(env, order)
        if order.out is None:
            stream.sink_to(sink, uid="sink")
        else:
            written_as_table(stream, order).write_parquet(order.out, uid="out")
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
