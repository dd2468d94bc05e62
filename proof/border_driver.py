"""A driver of a job with Spark at both ends, as a program of its own, so that it can be killed.

python -m proof.border_driver '<JSON of a BorderOrder>'

Structured Streaming reads the input, some files in each epoch; authors are counted; Spark writes Parquet.
Behind the job Spark answers the same question by itself, from the same files.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

import headgate as hg
from headgate.deploy.spark.executor import SparkExecutor
from proof.driver import say
from proof.job import Brake, Place
from proof.modes import InFlight, mode_named
from proof.strikes import FOLDER_VARIABLE, PROBE, reached
from proof.watcher import Listener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARALLELISM = 2
INTERVAL_MS = 60_000
SCHEMA = "author string, author_ms long, insertions long"


@dataclass(frozen=True)
class BorderOrder:
    """What a driver is to do.

    Attributes:
        root: folder of the run.
        data: folder with the input.
        master: of Spark.
        mode: how barriers travel.
        files_per_epoch: of the input.
        cost_s: of a record in the keyed function, until the gate is open.
        feeding_s: of a feeding task, until then: the input must last until the last kill.
    """

    root: str
    data: str
    master: str
    mode: str
    files_per_epoch: int
    cost_s: float
    feeding_s: float

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


def feeder(gate: Path, cost_s: float) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What runs in Spark's own tasks, which feed the job."""

    def passing(batches: Iterator[Any]) -> Iterator[Any]:
        until = time.monotonic() + cost_s
        while time.monotonic() < until and not gate.exists():
            time.sleep(0.05)
        for batch in batches:
            yield batch
            reached("feeder.task")

    return passing


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
    order = BorderOrder(**json.loads(arguments))
    place = Place(Path(order.root), Path(order.data))
    spark = session(order.master)
    listener = Listener(say, InFlight(place.storage).of)
    env = hg.Environment(parallelism=PARALLELISM, spark=spark, executor=SparkExecutor(listener))
    for key, value in {**settings(place), **mode_named(order.mode).options}.items():
        env.config(key, value)
    files = (
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", order.files_per_epoch).json(order.data)
    )
    rows = files.select("author").mapInArrow(feeder(place.gate, order.feeding_s), "author string")
    commits = env.from_spark(rows, uid="commits", trigger="available-now")
    counts = commits.key_by("author").process(Counts(Brake(place.gate, order.cost_s)), uid="counts")
    counts.to_spark(StruckWriter(place.out), uid="table", schema="author string, count long")
    result = env.execute("border")
    say("result", restarts=result.restarts, checkpoints=result.checkpoints, records_in=result.records_in)
    write_batch_answer(spark, order)


def session(master: str) -> SparkSession:
    """Spark, which bears being killed."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        # An executor that is killed again and again must not end the application.
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.task.maxFailures": "20",
        # Machines of a cluster have an environment of their own.
        **{f"spark.executorEnv.{name}": os.environ[name] for name in ("PYTHONPATH", FOLDER_VARIABLE)},
    }
    spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def batch_answer_in(place: Place) -> Path:
    """Where the last driver leaves Spark's own answer."""
    return place.root / "batch"


def write_batch_answer(spark: SparkSession, order: BorderOrder) -> None:
    """The running counts by a window function over all files, without Headgate."""
    from pyspark.sql import Window
    from pyspark.sql.functions import row_number

    commits = spark.read.schema(SCHEMA).json(order.data)
    count = row_number().over(Window.partitionBy("author").orderBy("author_ms"))
    answer = commits.select("author", count.cast("long").alias("count"))
    answer.write.parquet(str(batch_answer_in(Place(Path(order.root), Path(order.data)))))


def settings(place: Place) -> dict[str, Any]:
    """The next driver finds the job by its name; dead workers are noticed in seconds."""
    return {
        # The source asks for one behind each epoch; those of the clock would be empty.
        "execution.checkpointing.interval": f"{INTERVAL_MS}ms",
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


if __name__ == "__main__":
    main(sys.argv[1])
