"""Savepoints, stop and another parallelism on real Spark, in one process that keeps its session."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import headgate as hg

pytestmark = pytest.mark.ci

LAST = 3000
KEYS = 7


class Count(hg.KeyedProcessFunction[int, int, Any]):
    """How often each key came."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Any:
        self.count.value += 1
        yield ctx.key, self.count.value


def job(folder: Path, parallelism: int, rate: int | None) -> hg.Environment:
    """Counts numbers by their remainder, into files."""
    config = {
        "headgate.spark.master": "local[3]",
        "headgate.spark.reserved-slots": 0,
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
    }
    env = hg.Environment(parallelism=parallelism, config=config)
    env.checkpoints(every="200ms", storage=str(folder / "checkpoints"))
    numbers = env.generate(int, LAST, rate, uid="numbers").key_by(lambda number: number % KEYS)
    numbers.process(Count(), uid="counts").write_json(str(folder / "out"), uid="out")
    return env


def published(folder: Path) -> list[str]:
    """Lines of all published files."""
    files = [file for file in (folder / "out").rglob("*.jsonl") if not file.name.startswith((".", "_"))]
    return sorted(line for file in files for line in file.read_text().splitlines())


def expected() -> list[str]:
    """The batch answer."""
    counts = [sum(1 for n in range(LAST) if n % KEYS == key) for key in range(KEYS)]
    return sorted(f"[{key},{n}]" for key, most in enumerate(counts) for n in range(1, most + 1))


def test_savepoint_narrower_wider_stop_and_resume(tmp_path: Path) -> None:
    """One job after the other on the same Spark; the output of both is the batch answer."""
    with job(tmp_path, 3, 300).execute_async("numbers") as handle:
        while not handle.done and handle.status().state != "running":
            time.sleep(0.05)
        saved = handle.savepoint()
        handle.rescale(1)
        assert (handle.status().state, handle.status().parallelism) == ("running", 1)
        with pytest.raises(hg.UsageError, match="the job needs 4 task slots"):
            handle.rescale(4)
        handle.rescale(2)
        stopped = handle.stop()
        assert handle.result().savepoint == stopped != saved
    job(tmp_path, 2, None).execute("numbers", restore_from=stopped)
    assert [line.replace(" ", "") for line in published(tmp_path)] == expected()
