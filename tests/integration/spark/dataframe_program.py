"""A program whose driver is killed in the middle of a DataFrame; the next one must not compute it again.

python dataframe_program.py <first | second> <scratch folder>
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import headgate as hg
from headgate.deploy.spark.executor import SparkExecutor
from headgate.runtime.job.listener import JobListener

RECORDS = 4000

mode, scratch = sys.argv[1], Path(sys.argv[2])


class Driver(JobListener):
    """In the mode "first" it is gone without a word as soon as a checkpoint holds some of the output."""

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        """It is in the log, and its output is committed."""
        if mode == "first" and list((scratch / "out").glob("*.jsonl")):
            os.kill(os.getpid(), signal.SIGKILL)


def slowly(row: Any) -> dict[str, int]:
    """In the mode "first" the input takes some 20 seconds."""
    time.sleep(0.01 if mode == "first" else 0)
    return {"id": row["id"]}


def main() -> None:
    """Run the job, and say how much of the input this driver has read."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    frame = spark.range(0, RECORDS, 1, 4)
    if mode == "second":
        frame = spark.range(1).selectExpr("raise_error('computed again') as id")
    config = {"high-availability.type": "filesystem", "high-availability.lease": "4s"}
    env = hg.Environment(parallelism=2, spark=spark, executor=SparkExecutor(Driver()), config=config)
    env.checkpoints(every="300ms", storage=str(scratch / "checkpoints"))
    env.from_spark(frame, uid="rows").map(slowly).write_json(str(scratch / "out"), uid="out")
    env.execute("dataframe")
    assert env.result is not None
    print("read", env.result.records_in["rows"], flush=True)


if __name__ == "__main__":
    main()
