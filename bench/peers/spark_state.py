"""Spark's own Python state, in RocksDB: a running count per auction.

    spark_state.py FOLDER [rows | pandas | apply] [FILES]

With transformWithState on rows, transformWithStateInPandas, or applyInPandasWithState. Reads the files in
micro-batches, of so many files, and ends when all are read; a micro-batch is its checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

FILES_PER_BATCH = 5
SCHEMA = "auction bigint, bidder bigint, price bigint, channel string, url string, date_time timestamp_ntz"
STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


OUTPUT = "auction bigint, number bigint"


class RunningCount(StatefulProcessor):
    """One value state per auction."""

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


class PandasCount(RunningCount):
    """The same on frames of Pandas."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """One output per bid."""
        import pandas as pd

        number = self._count.get()[0] if self._count.exists() else 0
        for frame in rows:
            yield pd.DataFrame({"auction": key[0], "number": range(number + 1, number + 1 + len(frame))})
            number += len(frame)
        self._count.update((number,))


def pandas_count(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """The same as a function of key, frames and state."""
    import pandas as pd

    number = state.get[0] if state.exists else 0
    for frame in frames:
        yield pd.DataFrame({"auction": key[0], "number": range(number + 1, number + 1 + len(frame))})
        number += len(frame)
    state.update((number,))


def counted(keyed: Any, how: str) -> Any:
    """The running counts."""
    if how == "apply":
        return keyed.applyInPandasWithState(pandas_count, OUTPUT, "count bigint", "update", "NoTimeout")
    if how == "pandas":
        return keyed.transformWithStateInPandas(PandasCount(), OUTPUT, "update", "none")
    return keyed.transformWithState(RunningCount(), OUTPUT, "update", "none")


def session() -> SparkSession:
    """Two slots, two partitions."""
    settings = {
        "spark.sql.shuffle.partitions": "2",
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


def steady(query: Any) -> int | None:
    """Records per second behind the first micro-batch, which starts workers and compiles code."""
    batches = [batch for batch in query.recentProgress if batch.numInputRows][1:]
    milliseconds = sum(batch.batchDuration for batch in batches)
    return round(sum(batch.numInputRows for batch in batches) / milliseconds * 1e3) if milliseconds else None


def main() -> None:
    """The program."""
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    checkpoints = tempfile.mkdtemp(prefix="bench-spark-state-")
    files = int(sys.argv[3]) if len(sys.argv) > 3 else FILES_PER_BATCH
    bids = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(sys.argv[1])
    keyed = bids.select("auction", "price").groupBy("auction")
    counts = counted(keyed, sys.argv[2] if len(sys.argv) > 2 else "rows")
    sums = [f.count("*").alias("records"), f.sum("number").alias("total"), f.max("number").alias("highest")]
    writer = counts.observe("sums", *sums).writeStream.format("noop").outputMode("update")
    began = time.time()
    query = writer.option("checkpointLocation", checkpoints).trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.time() - began
    seen = [batch.observedMetrics["sums"] for batch in query.recentProgress if batch.observedMetrics]
    answer = {
        "records": sum(sums.records or 0 for sums in seen),
        "total": sum(sums.total or 0 for sums in seen),
        "highest": max((sums.highest or 0 for sums in seen), default=0),
    }
    facts = {"events": answer["records"], "job_s": round(seconds, 3), "steady_per_s": steady(query)}
    rate = round(answer["records"] / seconds)
    print("RESULT", json.dumps({**facts, "events_per_s": rate, "answer": answer}), flush=True)
    spark.stop()
    shutil.rmtree(checkpoints, ignore_errors=True)


if __name__ == "__main__":
    main()
