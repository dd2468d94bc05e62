"""A program that the tests run as a process of its own: counts per key, bounded, endless, or killing itself.

python counting_program.py <mode> <scratch folder> [master]
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import headgate as hg
from headgate.deploy.spark.executor import SparkExecutor
from headgate.runtime.job.listener import JobListener

RECORDS = 4000
KEYS = 10

mode, scratch = sys.argv[1], Path(sys.argv[2])
master = sys.argv[3] if len(sys.argv) > 3 else "local"


class Count(hg.KeyedProcessFunction):
    """How often each key came."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: object):
        self.count.value += 1
        yield record % KEYS, self.count.value


def strike(record: int) -> int:
    """In the mode "killed": once, in the middle, this worker is gone without a word."""
    struck = scratch / "struck"
    if mode == "killed" and record == RECORDS // 2 and not struck.exists():
        struck.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return record


class Announcing(JobListener):
    """Says on standard output what the tests wait for."""

    def running(self, attempt: int) -> None:
        """All subtasks run."""
        print(f"running {attempt}", flush=True)

    def failed(self, attempt: int, error: Exception, restart_in_ms: int | None) -> None:
        """An attempt failed."""
        print(f"failed {attempt}: {error}", flush=True)


def main() -> None:
    """Run the job and print the totals."""
    config = {"headgate.spark.master": master, "headgate.spark.reserved-slots": 0}
    env = hg.Environment(parallelism=2, executor=SparkExecutor(Announcing()), config=config)
    env.checkpoints(every="200ms", storage=str(scratch / "checkpoints"))
    env.config("restart-strategy.type", "fixed-delay").config("restart-strategy.fixed-delay.delay", "100ms")
    endless = mode == "endless"
    numbers = env.generate(
        int, None if endless else RECORDS, 2000 if mode != "plain" else None, uid="numbers"
    )
    counts = numbers.map(strike).key_by(lambda record: record % KEYS).process(Count(), uid="counts")
    if endless:
        counts.write_json(str(scratch / "out"))
        env.execute("counting")
    else:
        found = counts.collect_later()
        env.execute("counting")
        last = max(found.records)
        print(f"last {last} restarts {env.result.restarts}", flush=True)


main()
