"""A driver of a job with Spark at both ends, as a program of its own, so that it can be killed.

python -m proof.border_driver '<JSON of a BorderOrder>'

Structured Streaming reads the input, an epoch for each file; authors are counted; Spark writes Parquet.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

import headgate as hg
from headgate.deploy.spark.executor import SparkExecutor
from proof.driver import say
from proof.job import Brake, Place
from proof.strikes import FOLDER_VARIABLE, PROBE, reached
from proof.watcher import Listener

PARALLELISM = 2
SCHEMA = "author string, author_ms long, insertions long"


@dataclass(frozen=True)
class BorderOrder:
    """What a driver is to do.

    Attributes:
        root: folder of the run.
        data: folder with the input.
        master: of Spark.
        cost_s: of a record in the keyed function, until the gate is open.
    """

    root: str
    data: str
    master: str
    cost_s: float

    def command(self) -> list[str]:
        """How it is started."""
        return [sys.executable, "-m", "proof.border_driver", json.dumps(asdict(self))]


class Counts(hg.KeyedProcessFunction[str, Any, dict[str, Any]]):
    """The running count of an author's commits."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def __init__(self, brake: Brake) -> None:
        self._brake = brake

    def process(self, commit: Any, ctx: hg.KeyedContext[str]) -> Iterator[dict[str, Any]]:
        reached("user.process")
        self._brake.slow_down()
        self.count.value += 1
        yield {"author": ctx.key, "count": self.count.value}


def passing(batches: Iterator[Any]) -> Iterator[Any]:
    """Runs in Spark's own tasks, which feed the job."""
    for batch in batches:
        yield batch
        reached("feeder.task")


class StruckWriter(hg.spark.EpochWriter):
    """Writes Parquet, and passes places where a fault may strike."""

    def __init__(self, path: Path) -> None:
        self._inner = hg.spark.parquet(path)

    @override
    def begin(self, spark: Any, epoch: hg.spark.SparkEpoch) -> None:
        self._inner.begin(spark, epoch)

    @override
    def write(self, frame: Any, epoch: hg.spark.SparkEpoch) -> None:
        reached("write.begins")
        self._inner.write(frame, epoch)
        reached("write.published")


def main(arguments: str) -> None:
    """Run the job, or go on with it where the driver before has died."""
    from pyspark.sql import SparkSession

    order = BorderOrder(**json.loads(arguments))
    place = Place(Path(order.root), Path(order.data))
    builder = SparkSession.builder.master(order.master).config("spark.ui.enabled", "false")
    # An executor that is killed again and again must not end the application.
    builder = builder.config("spark.deploy.maxExecutorRetries", "-1").config("spark.task.maxFailures", "20")
    # Machines of a cluster have an environment of their own.
    for name in ("PYTHONPATH", FOLDER_VARIABLE, "TMPDIR"):
        builder = builder.config(f"spark.executorEnv.{name}", os.environ[name])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(order.data)
    env = hg.Environment(
        parallelism=PARALLELISM, spark=spark, executor=SparkExecutor(Listener(say, _unknown))
    )
    for key, value in settings(place).items():
        env.config(key, value)
    rows = files.select("author").mapInArrow(passing, "author string")
    commits = env.from_spark(rows, uid="commits", trigger="available-now")
    counts = commits.key_by("author").process(Counts(Brake(place.gate, order.cost_s)), uid="counts")
    counts.to_spark(StruckWriter(place.out), uid="table", schema="author string, count long")
    result = env.execute("border")
    say("result", restarts=result.restarts, checkpoints=result.checkpoints, records_in=result.records_in)


def settings(place: Place) -> dict[str, Any]:
    """The next driver finds the job by its name; dead workers are noticed in seconds."""
    return {
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.dir": str(place.storage),
        "execution.checkpointing.num-retained": 2,
        "execution.checkpointing.tolerable-failed-checkpoints": 1000,
        "heartbeat.interval": "200ms",
        "high-availability.type": "filesystem",
        "high-availability.lease": "2s",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1000,
        "restart-strategy.fixed-delay.delay": "100ms",
        "headgate.probe": PROBE,
        "headgate.progress": "off",
    }


def _unknown(_: int) -> None:
    """Aligned barriers leave nothing in flight."""


if __name__ == "__main__":
    main(sys.argv[1])
