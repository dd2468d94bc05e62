"""Windows of jobs that fail: killed worker processes, other parallelisms after unaligned checkpoints."""

from __future__ import annotations

import datetime as dt
import os
import signal
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, environment, json_lines
from running_jobs import Valve

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.checkpoint.opening import open_checkpoint
from headgate.connectors.generator import generator_source
from headgate.testing import ProcessCluster

NUMBERS = count(9700)
COUNT, STEP_MS = 3_000, 10
SIZE, SLIDE = 2_000, 500
SCHEMA = pa.schema({"at": pa.int64(), "key": pa.int64()})


def record(index: int) -> dict[str, int]:
    """One every 10 ms of event time."""
    return {"at": STEP_MS * index, "key": index % 11}


ANSWER = sorted(
    Counter(
        (record(i)["key"], start + SIZE)
        for i in range(COUNT)
        for start in range(STEP_MS * i // SLIDE * SLIDE, STEP_MS * i // SLIDE * SLIDE - SIZE, -SLIDE)
    ).items()
)
"""Key and end of each window (ms), and its number of records."""


def windows(env: hg.Environment, folder: Path, source: hg.Source[Any], step: Any) -> None:
    """Add the job to an environment; `step` sees each result on its way to the files."""
    stream = env.from_source(source, uid="in").with_event_time("at", out_of_orderness="1s")
    counted = stream.to_table(SCHEMA).group_by("key", F.window("at", f"{SIZE}ms", f"{SLIDE}ms"))
    results = counted.agg(F.count("*").alias("n"), uid="windows").to_stream()
    results.map(step, uid="step").write_json(str(folder / "out"), uid="out")


def published(folder: Path) -> list[Any]:
    """What the files hold, in the form of the answer."""
    rows = json_lines(folder / "out")
    return sorted(((row["key"], _ms(row["window"]["end"])), row["n"]) for row in rows)


def _ms(text: str) -> int:
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize("unaligned", [False, True])
def test_windows_are_whole_after_a_worker_was_killed(tmp_path: Path, unaligned: bool) -> None:
    """Kill -9 of the process that sends results out, twice, between checkpoints."""
    env = hg.Environment(parallelism=2, executor=ProcessCluster(), config={**TINY, **RESTART_AT_ONCE})
    env.checkpoints("30ms", storage=str(tmp_path / "checkpoints"), unaligned=unaligned)

    def kill(row: dict[str, Any]) -> dict[str, Any]:
        end = row["window"]["end"].timestamp()
        for number, at in enumerate((9, 17)):
            mark = tmp_path / f"killed-{number}"
            if end > at and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return row

    windows(env, tmp_path, generator_source(record, COUNT, 2_000, splits=1), kill)
    env.execute("windows")
    assert (tmp_path / "killed-1").exists()
    assert published(tmp_path) == ANSWER


SETTINGS = {**TINY, "restart-strategy.type": "none"}


class Crash(Exception):
    """What ends the first job."""


def rows(splits: int) -> Valve:
    """The records in as many splits; each has some of every second."""
    every = [record(index) for index in range(COUNT)]
    return Valve(next(NUMBERS), float("inf"), *(every[first::splits] for first in range(splits)))


def crash(row: dict[str, Any]) -> dict[str, Any]:
    """A slow step, so that records wait in front of it; the job ends in the middle."""
    time.sleep(0.001)
    if row["window"]["end"].timestamp() > 15:
        raise Crash
    return row


def crashed(folder: Path, parallelism: int) -> Path:
    """Run a job that crashes; return its checkpoints, where subtasks were not equally far in event time."""
    for attempt in range(10):
        mine = folder / str(attempt)
        env = environment(parallelism, SETTINGS)
        env.checkpoints("1ms", storage=str(mine / "checkpoints"), unaligned=True)
        windows(env, mine, rows(parallelism), crash)
        with pytest.raises(hg.HeadgateError):
            env.execute("windows")
        (job,) = (mine / "checkpoints").iterdir()
        try:
            _, metadata = open_checkpoint(str(job))
        except hg.StorageError:  # on a busy machine the job may end before its first checkpoint is complete
            continue
        if len({state.watermark for state in metadata.operators["windows"]}) > 1 and metadata.in_flight:
            return mine
    raise AssertionError("subtasks were equally far each time, or nothing was in flight")


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (3, 1)])
def test_windows_go_on_at_another_parallelism(tmp_path: Path, before: int, after: int) -> None:
    """No window is sent out twice, or without a part."""
    folder = crashed(tmp_path, before)
    (job,) = (folder / "checkpoints").iterdir()
    env = environment(after, SETTINGS)
    env.checkpoints("1ms", storage=str(folder / "more"), unaligned=True)
    windows(env, folder, rows(before), dict)
    env.execute("windows", restore_from=str(job))
    assert published(folder) == ANSWER
