"""From the death of a worker to the moment when all subtasks run again, and what CPU time that takes."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.jobs.local_jobs import Facts, counted, ended, resting, tree_cpu_s, wait_until
from bench.jobs.support import result
from headgate.testing import ProcessCluster

AT_ONCE = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "0ms",
}


def measured(keys: int, kills: int) -> Facts:
    """One job; how it recovers.

    Args:
        keys: of its state, which is restored from a checkpoint each time.
        kills: how often a worker is killed, one after the other in each slot.
    """
    cluster = ProcessCluster()
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        handle = resting(cluster, keys, Path(folder) / "checkpoints", AT_ONCE).execute_async("recovery")
        try:
            wait_until(lambda: handle.status().state == "running" and counted(handle) >= keys, "the filling")
            handle.checkpoint()
            took_s, cpu_s = [], []
            for number in range(1, kills + 1):
                before, began = tree_cpu_s(), time.perf_counter()
                if not cluster.kill(number % 2):
                    raise SystemExit("there was no worker to kill")
                wait_until(lambda: _runs_again(handle.status(), number), "a recovery")  # noqa: B023
                took_s.append(time.perf_counter() - began)
                cpu_s.append(tree_cpu_s() - before)
            status = handle.status()
        finally:
            ended(handle)
    return {
        "recovery_s": round(median(took_s), 4),
        "recovery_cpu_s": round(median(cpu_s), 4),
        "recoveries_s": [round(took, 3) for took in took_s],
        "answer": {"restarts": status.restarts},
        "failures": [],
    }


def _runs_again(status: object, restarts: int) -> bool:
    return getattr(status, "state", None) == "running" and getattr(status, "restarts", 0) == restarts


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=40_000)
    parser.add_argument("--kills", type=int, default=5)
    asked = parser.parse_args()
    result(**measured(asked.keys, asked.kills))


if __name__ == "__main__":
    main()
