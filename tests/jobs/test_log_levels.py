"""How much a running job logs is changed from outside: in its driver, and in processes of workers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headgate as hg
from headgate.cli.main import app
from headgate.testing import ProcessCluster

PATIENCE_S = 60
LOGGER = "jobs.of-the-test"


class Level(hg.KeyedProcessFunction[int, int, str]):
    """Writes the level that its worker's logger has, each time that it is another one."""

    def __init__(self, folder: str) -> None:
        self.folder, self.last = folder, 0

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[str]:
        level = logging.getLogger(LOGGER).getEffectiveLevel()
        if level != self.last:
            self.last = level
            (Path(self.folder) / f"{record}-{time.time_ns()}-{logging.getLevelName(level)}").touch()
        yield from ()


def seen(folder: Path) -> list[str]:
    """The levels that workers had, in order of time, all workers together."""
    names = [path.name.split("-") for path in folder.iterdir()]
    return [level for _, _, level in sorted(names, key=lambda parts: parts[1])]


def waits_for(folder: Path, level: str) -> None:
    """Until the newest level of both workers is this one."""
    until = time.monotonic() + PATIENCE_S
    while seen(folder)[-2:] != [level, level]:
        assert time.monotonic() < until, seen(folder)
        time.sleep(0.05)


def asked(*arguments: str) -> str:
    """What a command prints; it must succeed."""
    result = CliRunner().invoke(app, ["log-level", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.timeout(180)
def test_all_processes_of_a_job_change_and_change_back(tmp_path: Path) -> None:
    """Workers get the level with the answers to their heartbeats; a worker that replaces another one, too."""
    folder = tmp_path / "seen"
    folder.mkdir()
    cluster = ProcessCluster()
    config = {"rest.enabled": True, "heartbeat.interval": "100ms", "headgate.progress": "off"}
    env = hg.Environment(parallelism=2, executor=cluster, config=config)
    env.checkpoints(every="500ms", storage=str(tmp_path / "checkpoints"))
    numbers = env.generate(lambda number: number % 8, rate_per_s=100, uid="numbers")
    numbers.key_by(lambda number: number).process(Level(str(folder)), uid="levels").collect_later(uid="out")
    mine = logging.getLogger(LOGGER)
    handle = env.execute_async("logs much")
    try:
        waits_for(folder, "INFO")
        assert asked("logs much", "debug", "--logger", LOGGER).endswith(f"logs: {LOGGER} debug\n")
        assert mine.level == logging.DEBUG
        waits_for(folder, "DEBUG")
        before = len(seen(folder))
        cluster.kill(0)
        until = time.monotonic() + PATIENCE_S
        while seen(folder)[before:].count("DEBUG") < 2:  # of the function anew in both workers
            assert time.monotonic() < until, seen(folder)
            time.sleep(0.05)
        assert handle.status().restarts == 1
        text = asked("logs much", "unset", "--logger", LOGGER)
        assert "all loggers as the program set them" in text
        assert mine.level == logging.NOTSET
        waits_for(folder, "INFO")
        asked("logs much", "error", "--logger", LOGGER)
    finally:
        handle.cancel()
    assert mine.level == logging.NOTSET  # the driver's process outlives the job
