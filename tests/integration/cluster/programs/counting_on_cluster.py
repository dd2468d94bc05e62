"""Counts numbers by their remainder into files, and lets Spark work beside the gang.

python counting_on_cluster.py <scratch folder> <master> <parallelism> <records>

It goes slowly until there is a file `hurry` in the folder.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark import SparkContext

import headgate as hg
from headgate.deploy.spark.executor import SparkExecutor
from headgate.runtime.job.listener import JobListener

KEYS = 7

folder, master = Path(sys.argv[1]), sys.argv[2]
parallelism, records = int(sys.argv[3]), int(sys.argv[4])


class Count(hg.KeyedProcessFunction[int, int, tuple[int, int]]):
    """How often each key came."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[tuple[int, int]]:
        self.count.value += 1
        yield ctx.key, self.count.value


def paced(record: int) -> int:
    """At most a hundred records a second, as long as the test needs the job."""
    if not (folder / "hurry").exists():
        time.sleep(0.01)
    return record


def feed() -> None:
    """A Spark job of somebody else, on the slots that the gang leaves."""
    context = SparkContext._active_spark_context
    assert context is not None
    print(f"fed {context.parallelize(range(1000), 2).map(lambda number: number * 2).sum()}", flush=True)


class Announcing(JobListener):
    """Says on standard output what the tests wait for."""

    def worker_registered(self, slot: int, pid: int, host: str) -> None:
        """A worker is there."""
        print(f"worker {slot} {pid}", flush=True)

    def running(self, attempt: int) -> None:
        """All subtasks run."""
        print(f"running {attempt}", flush=True)
        if attempt == 1:
            threading.Thread(target=feed, daemon=True).start()

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        """There is a place to go on from."""
        print(f"checkpoint {checkpoint}", flush=True)

    def failed(self, attempt: int, error: Exception, restart_in_ms: int | None) -> None:
        """An attempt failed."""
        print(f"failed {attempt}: {error}", flush=True)


def main() -> None:
    """Run the job."""
    config = {
        "headgate.spark.master": master,
        "headgate.spark.slots-timeout": "3min",
        "headgate.rescale-timeout": "3min",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1000,
        "restart-strategy.fixed-delay.delay": "100ms",
    }
    env = hg.Environment(parallelism=parallelism, executor=SparkExecutor(Announcing()), config=config)
    env.checkpoints(every="200ms", storage=str(folder / "checkpoints"))
    numbers = env.generate(int, records, uid="numbers").map(paced, uid="paced")
    numbers.key_by(lambda number: number % KEYS).process(Count(), uid="counts").write_json(
        str(folder / "out"), uid="out"
    )
    env.execute("counting-on-cluster")
    assert env.result is not None
    print(f"restarts {env.result.restarts}", flush=True)


main()
