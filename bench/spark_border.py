"""What it costs to take a bounded DataFrame through a dataflow and back, against Spark's own way to Python.

    python -m bench.spark_border ROWS ROUNDS

A round computes the same DataFrame twice, each time into Spark's sink that forgets: once through `mapInArrow`
with a function that changes nothing, once through `from_spark`, a pass-through and `to_dataframe`. Both are
warm: the first rounds of each do not count. Rows have mixed columns and are read from Parquet.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import headgate as hg
from bench.jobs.support import PARALLELISM, Stopwatch, result, tell
from headgate.deploy.spark.executor import SparkExecutor

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SLOTS: Final = PARALLELISM + 1
WARM_ROUNDS: Final = 2
FILES: Final = 6

Seconds = dict[str, float]
"""What took how long."""


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int)
    parser.add_argument("rounds", type=int)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        result(**measure(arguments.rows, arguments.rounds, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(rows: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Both ways in turn, in one session."""
    spark = session()
    input_folder = write_input(spark, rows, folder)
    identities, borders = list[Seconds](), list[Seconds]()
    for number in range(-WARM_ROUNDS, rounds):
        tell(say=f"round {number + 1} of {rounds}")
        identity = through_spark(spark.read.parquet(input_folder))
        border = through_dataflow(spark, spark.read.parquet(input_folder), rows)
        tell(say=f"identity {identity}, dataflow {border}")
        if number >= 0:
            identities.append(identity)
            borders.append(border)
    return {
        "rows": rows,
        "identity": identities,
        "border": borders,
        "ratios": [a["whole"] / b["whole"] for a, b in zip(identities, borders, strict=True)],
    }


def session() -> SparkSession:
    """A program's own session, with a slot beside the gang."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{SLOTS}]").appName("border")
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    opened = builder.config("spark.driver.memory", "2g").getOrCreate()
    opened.sparkContext.setLogLevel("ERROR")
    return opened


def write_input(spark: SparkSession, rows: int, folder: Path) -> str:
    """Six columns: three kinds of numbers, a text of some length, a time, a truth value; some are null."""
    place = str(folder / "input")
    spark.range(0, rows, 1, FILES).selectExpr(
        "id",
        "cast(id % 1000 as int) as kind",
        "if(id % 10 = 0, null, id * 0.25) as price",
        "concat('customer ', cast(id * 7919 % 100003 as string)) as name",
        "timestamp_micros(1700000000000000 + id * 1000003) as at",
        "id % 3 = 0 as paid",
    ).write.parquet(place)
    return place


def through_spark(frame: DataFrame) -> Seconds:
    """Into Python and back."""

    def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return {"whole": timed(lambda: into_nothing(frame.mapInArrow(identity, frame.schema)))}


def through_dataflow(spark: SparkSession, frame: DataFrame, rows: int) -> Seconds:
    """Into a job and back, with the parts that the job's own stopwatch knows."""
    stopwatch, schema, began = Stopwatch(), frame.schema, time.monotonic()
    env = hg.Environment(parallelism=PARALLELISM, executor=SparkExecutor(stopwatch), spark=spark)
    out = env.from_spark(frame, uid="rows").to_dataframe(schema)
    executed = time.monotonic()
    into_nothing(out)
    ended = time.monotonic()
    assert stopwatch.failures == [], stopwatch.failures
    assert env.result is not None
    assert env.result.records_in["rows"] == rows, env.result
    return {
        "whole": round(ended - began, 3),
        "until it runs": round(stopwatch.began_s - began, 3),
        "runs": round(stopwatch.running_s, 3),
        "ends": round(executed - stopwatch.ended_s, 3),
        "is read": round(ended - executed, 3),
    }


def into_nothing(frame: DataFrame) -> None:
    """Compute every row and every column."""
    frame.write.format("noop").mode("overwrite").save()


def timed(work: Callable[[], Any]) -> float:
    """Its seconds."""
    began = time.monotonic()
    work()
    return round(time.monotonic() - began, 3)


if __name__ == "__main__":
    main()
