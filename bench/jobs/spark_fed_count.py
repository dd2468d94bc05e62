"""J2 on a stream that Spark reads: micro-batches of Parquet files into a running count per auction.

    python -m bench.jobs.spark_fed_count FOLDER

The stream is that of `bench/peers/spark_state.py`: the same files, as many of them in a micro-batch.
"""

from __future__ import annotations

import shutil
import sys
import tempfile

import headgate as hg
from bench.jobs.running_count import counts
from bench.jobs.support import PARALLELISM, Stopwatch, SummingSink, result
from bench.peers.spark_state import FILES_PER_BATCH, SCHEMA
from headgate.common.options import RESERVED_SLOTS
from headgate.deploy.spark.executor import SparkExecutor


def main() -> None:
    """The program."""
    from pyspark.sql import SparkSession

    slots = PARALLELISM + RESERVED_SLOTS.default
    builder = SparkSession.builder.master(f"local[{slots}]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "4g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    stopwatch, sink = Stopwatch(), SummingSink()
    try:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES_PER_BATCH)
        bids = stream.parquet(sys.argv[1]).select("auction", "price")
        env = hg.Environment(parallelism=PARALLELISM, spark=spark, executor=SparkExecutor(stopwatch))
        env.checkpoints(every="1s", storage=storage)
        counts(env.from_spark(bids, uid="bids", trigger="available-now")).sink_to(sink, uid="sink")
        env.execute("bids")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    sums = sink.sums
    answer = {"records": sums.records, "total": sums.total, "highest": sums.highest}
    result(answer=answer, **stopwatch.facts(sums.records))


if __name__ == "__main__":
    main()
