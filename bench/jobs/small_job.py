"""A job of a few records: how long a program takes from the start of its process until all its subtasks run.

    headgate run bench/jobs/small_job.py

It imports what every measured job shares.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time

import psutil

from bench.jobs.support import RunningCount, Stopwatch, SummingSink, environment, result

RECORDS = 100


def main() -> None:
    """The program."""
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    stopwatch, sink = Stopwatch(), SummingSink()
    try:
        env = environment(stopwatch, "1s", storage)
        numbers = env.from_collection(list(range(RECORDS)), uid="numbers")
        numbers.key_by(lambda number: number % 7).process(RunningCount(), uid="counts").sink_to(
            sink, uid="sink"
        )
        env.execute("small")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    began_s = time.time() - (time.monotonic() - stopwatch.began_s)
    result(
        started_s=round(began_s - psutil.Process().create_time(), 3),
        records=sink.sums.records,
        isolated=type(sys.modules) is not dict,
        failures=stopwatch.failures,
    )


if __name__ == "__main__":
    main()
