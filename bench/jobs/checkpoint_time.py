"""How long a checkpoint of a job takes that does nothing else, and how much CPU time of all its processes."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.jobs.local_jobs import Facts, counted, ended, resting, tree_cpu_s, wait_until
from bench.jobs.support import result
from headgate.testing import ProcessCluster


def measured(keys: int, checkpoints: int) -> Facts:
    """One job; what its checkpoints cost.

    Args:
        keys: of its state.
        checkpoints: how many are measured; the first, which everything is new to, comes before them.
    """
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        handle = resting(ProcessCluster(), keys, Path(folder) / "checkpoints").execute_async("checkpoints")
        try:
            wait_until(lambda: handle.status().state == "running" and counted(handle) >= keys, "the filling")
            handle.checkpoint()
            took_ms, before = [], tree_cpu_s()
            for _ in range(checkpoints):
                began = time.perf_counter()
                handle.checkpoint()
                took_ms.append((time.perf_counter() - began) * 1e3)
            cpu_ms = (tree_cpu_s() - before) / checkpoints * 1e3
            status, filled = handle.status(), counted(handle)
        finally:
            ended(handle)
    return {
        "checkpoint_ms": round(median(took_ms), 3),
        "checkpoint_cpu_ms": round(cpu_ms, 3),
        "checkpoints_ms": [round(took, 2) for took in took_ms],
        "answer": {"keys": filled, "completed": status.checkpoints_completed},
        "failures": [status.last_failure] if status.restarts else [],
    }


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=40_000)
    parser.add_argument("--checkpoints", type=int, default=30)
    asked = parser.parse_args()
    result(**measured(asked.keys, asked.checkpoints))


if __name__ == "__main__":
    main()
