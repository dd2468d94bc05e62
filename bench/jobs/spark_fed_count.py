"""J2 on a stream that Spark reads: micro-batches of Parquet files into a running count per auction.

    python -m bench.jobs.spark_fed_count FOLDER FILES

The stream is that of `bench/peers/spark_state.py`: the same files, as many of them in a micro-batch. Two
slots feed, as two slots do everything there; workers sleep while they do.
"""

from __future__ import annotations

import shutil
import sys
import tempfile

from typing_extensions import override

import headgate as hg
from bench.jobs.running_count import counts
from bench.jobs.support import PARALLELISM, Stopwatch, SummingSink, Sums, result
from bench.peers.spark_state import SCHEMA
from headgate.common.settings.options import RESERVED_SLOTS
from headgate.deploy.spark.executor import SparkExecutor

FEEDERS = 2


class EpochWatch(Stopwatch):
    """Notes when epochs were committed.

    Args:
        sums: what the sink has committed so far.
    """

    def __init__(self, sums: Sums) -> None:
        super().__init__()
        self._sums = sums
        self._committed: list[tuple[float, int]] = []

    @override
    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        super().checkpoint_completed(checkpoint, took_ms)
        before = self._committed[-1][1] if self._committed else 0
        if self._sums.records > before:
            self._committed.append((self.ended_s, self._sums.records))

    @property
    def steady_per_s(self) -> int | None:
        """Records per second behind the first epoch, which starts feeders and compiles code."""
        if len(self._committed) < 2:
            return None
        (first_s, first), (last_s, last) = self._committed[0], self._committed[-1]
        return round((last - first) / (last_s - first_s))


def main() -> None:
    """The program."""
    from pyspark.sql import SparkSession

    slots = PARALLELISM + FEEDERS
    builder = SparkSession.builder.master(f"local[{slots}]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "4g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    sink = SummingSink()
    stopwatch = EpochWatch(sink.sums)
    try:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", int(sys.argv[2]))
        bids = stream.parquet(sys.argv[1]).select("auction", "price")
        env = hg.Environment(
            parallelism=PARALLELISM,
            config={RESERVED_SLOTS.key: FEEDERS},
            spark=spark,
            executor=SparkExecutor(stopwatch),
        )
        env.checkpoints(every="1s", storage=storage)
        counts(env.from_spark(bids, uid="bids", trigger="available-now")).sink_to(sink, uid="sink")
        env.execute("bids")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    sums = sink.sums
    answer = {"records": sums.records, "total": sums.total, "highest": sums.highest}
    result(answer=answer, steady_per_s=stopwatch.steady_per_s, **stopwatch.facts(sums.records))


if __name__ == "__main__":
    main()
