"""Spark Structured Streaming: one query over files, in micro-batches until all are read; state in RocksDB.

    spark_query.py ORDER.json

A micro-batch is its checkpoint. The answer goes into Spark's noop sink, or into Parquet files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from orders import Order, carry_out, report, versions
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BEFORE_READING = ("latestOffset", "getBatch", "queryPlanning", "walCommit")


class RunningCount(StatefulProcessor):
    """One value state per auction, in Python."""

    def init(self, handle: Any) -> None:
        """Declare the state."""
        self._count = handle.getValueState("count", "count bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """One output per bid."""
        number = self._count.get()[0] if self._count.exists() else 0
        for _ in rows:
            number += 1
            yield Row(auction=key[0], number=number)
        self._count.update((number,))

    def close(self) -> None:
        """Nothing is held."""


def running_count(spark: SparkSession) -> DataFrame:
    """A running count per auction by transformWithState."""
    keyed = spark.table("bid").select("auction").groupBy("auction")
    return keyed.transformWithState(RunningCount(), "auction bigint, number bigint", "append", "none")


PYTHON = {"running_count": running_count}


def session() -> SparkSession:
    """Two slots, two partitions."""
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.sql.streaming.stateStore.providerClass": STORE,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def view(spark: SparkSession, order: Order, name: str) -> None:
    """Make a table of the query."""
    files = order.tables[name]
    schema = ", ".join(f"`{column}` {kind}" for column, kind in files.columns)
    rows = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", order.files_per_batch)
        .parquet(files.folder)
    )
    if order.timed:
        rows = rows.withWatermark("dateTime", "4 seconds")
    rows.createOrReplaceTempView(name)


def answer(spark: SparkSession, order: Order) -> DataFrame:
    """The rows of the answer."""
    kind, _, name = order.text.partition(":")
    found = PYTHON[name](spark) if kind == "python" else spark.sql(order.text)
    return found.toDF(*[column for column, _ in order.columns])


def started(writer: Any, order: Order) -> Any:
    """The running query."""
    if order.out is None:
        return writer.format("noop").start()
    if not order.updating:
        return writer.format("parquet").start(order.out)

    def write(rows: DataFrame, batch: int) -> None:
        rows.write.parquet(f"{order.work}/updates/batch={batch}")

    return writer.foreachBatch(write).start()


def write_last(spark: SparkSession, order: Order) -> None:
    """Write the rows that are left of all updates: of each key those of its last micro-batch."""
    spark.read.parquet(f"{order.work}/updates").createOrReplaceTempView("updates")
    names = ", ".join(f"`{name}`" for name, _ in order.columns)
    keys = ", ".join(f"`{name}`" for name in order.key)
    last = f"SELECT *, max(batch) OVER (PARTITION BY {keys}) AS last FROM updates"
    spark.sql(f"SELECT {names} FROM ({last}) WHERE batch = last").write.parquet(str(order.out))


def seconds(text: str) -> float:
    """Seconds since 1970 of a time in Spark's progress."""
    return datetime.fromisoformat(text).timestamp()


def main() -> None:
    """The program."""
    order = Order.read(sys.argv[1])
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    for name in order.tables:
        view(spark, order, name)
    writer = answer(spark, order).writeStream.outputMode("update" if order.updating else "append")
    writer = writer.option("checkpointLocation", f"{order.work}/checkpoints").trigger(availableNow=True)
    query = started(writer, order)
    query.awaitTermination()
    if order.updating and order.out:
        write_last(spark, order)
    batches = query.recentProgress
    first, last = batches[0], batches[-1]
    watermark = last.eventTime.get("watermark")
    report(
        began=seconds(first.timestamp) + sum(first.durationMs.get(step, 0) for step in BEFORE_READING) / 1e3,
        ended=seconds(last.timestamp) + last.durationMs["triggerExecution"] / 1e3,
        checkpoints=len(batches),
        watermark_us=int(seconds(watermark) * 1e6) if watermark else None,
        versions=versions("pyspark"),
    )
    spark.stop()


if __name__ == "__main__":
    carry_out(main)
