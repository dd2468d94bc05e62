"""A savepoint bootstrapped from a DataFrame, against Spark's own way to the same rows in the same order.

    python -m bench.spark_bootstrap KEYS [--rounds N]

A round writes the same KEYS counts twice, read from Parquet both times: as a savepoint, and with
`DataFrame.write.parquet` behind the same exchange and the same sort by key group and key; the key group is a
column of both. Two task slots, four ranges; seconds are those of the whole write, planning included.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import headgate as hg
from bench.jobs.support import result, tell
from headgate.stateprocessor.ranges import in_ranges
from headgate.stateprocessor.writing.savepoint_writer import SavepointWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SLOTS: Final = 2
RANGES: Final = 4
GROUPS: Final = 128


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("keys", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        result(**measure(arguments.keys, arguments.rounds, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(keys: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Both ways in turn, in one session; the first round warms both up and does not count."""
    spark = session()
    source = str(folder / "source")
    numbers = spark.range(keys).selectExpr("(id * 2654435761) % 1000000007000 AS key", "id AS value")
    numbers.repartition(SLOTS * 2).write.parquet(source)
    seconds: dict[str, list[float]] = {"savepoint": [], "parquet": []}
    sizes: dict[str, int] = {}
    for number in range(-1, rounds):
        for way, write in WAYS.items():
            target = folder / way
            taken = timed(write, spark.read.parquet(source), str(target))
            tell(say=f"round {number + 1} of {rounds}: {way} {taken:.2f} s")
            if number >= 0:
                seconds[way].append(taken)
            sizes[way] = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
            shutil.rmtree(target)
    return {"keys": keys, "seconds": seconds, "bytes": sizes}


def session() -> SparkSession:
    """With as many slots as the machine of the target has cores."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{SLOTS}]").appName("bootstrap")
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    opened = builder.config("spark.driver.memory", "3g").getOrCreate()
    opened.sparkContext.setLogLevel("ERROR")
    return opened


def timed(write: Callable[[DataFrame, str], None], frame: DataFrame, target: str) -> float:
    """Seconds of one write."""
    began = time.perf_counter()
    write(frame, target)
    return time.perf_counter() - began


def savepoint(frame: DataFrame, target: str) -> None:
    """Ours."""
    writer = SavepointWriter.new(GROUPS, RANGES)
    writer.with_state("counts", "count", frame, key="key", declared=hg.ValueState[int]).write(target)


def parquet(frame: DataFrame, target: str) -> None:
    """Spark's."""
    in_ranges(frame, ["key"], GROUPS, RANGES).write.parquet(target)


WAYS: Final[dict[str, Callable[[DataFrame, str], None]]] = {"savepoint": savepoint, "parquet": parquet}

if __name__ == "__main__":
    main()
