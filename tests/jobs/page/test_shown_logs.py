"""The log lines of a job's driver and workers: as JSON, by `headgate logs`, and when the job is over."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from watched_jobs import Watched, Weather, started, watched

import headgate as hg
from headgate.cli.main import app
from headgate.testing import ProcessCluster

LOG = logging.getLogger("headgate.job.of-the-test")
HOSTILE = "<script>alert(1)</script> \x1b[31mred\x00 \ud800 \u202eturned"
SECRET = "opensesame-of-the-bucket"


class Says(hg.KeyedProcessFunction[int, int, int]):
    """Logs for each record, much at once for one of them, and fails once, in the process of a worker."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[int]:
        log = logging.getLogger("of.the.program")
        log.info("record %d with %s %s", record, SECRET, HOSTILE)
        if record == 19:
            for _ in range(3_000):
                log.info("a storm")
        if record == 50 and not (failed := Path(self.folder) / "failed").exists():
            failed.touch()
            log.error("about to fail")
            raise ValueError("failed once")
        yield record


def asked(*arguments: str) -> str:
    """What the command prints; it must succeed."""
    result = CliRunner().invoke(app, ["logs", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def of(found: Any, process: str, message: str) -> list[Any]:
    """The lines of a process that have a text."""
    return [each for each in found["lines"] if each["process"] == process and message in each["message"]]


@pytest.mark.timeout(180)
def test_lines_of_workers_in_processes_come_to_the_driver(tmp_path: Path) -> None:
    """With operator and attempt, without secrets; storms are cut, and the failure is there."""
    config = {
        "rest.enabled": True, "heartbeat.interval": "100ms", "headgate.progress": "off",
        "s3.access-key": "AKIAEXAMPLE", "s3.secret-key": SECRET, "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 3, "restart-strategy.fixed-delay.delay": "10ms",
    }  # fmt: skip
    env = hg.Environment(parallelism=2, executor=ProcessCluster(), config=config)
    env.checkpoints(every="500ms", storage=str(tmp_path / "checkpoints"))
    numbers = env.generate(lambda number: number, rate_per_s=100, uid="numbers")
    said = numbers.key_by(lambda number: number % 8).process(Says(str(tmp_path)), uid="says")
    said.collect_later(uid="out")
    with started(env, "talks", Weather()) as job:
        found = job.waits(
            "/v1/logs?level=debug&process=workers",
            lambda logs: (
                of(logs, "worker-0", "record")
                and of(logs, "worker-1", "record")
                and _attempts(logs) == {1, 2}
                and max(each["left_out"] for each in logs["processes"]) > 0
            ),
        )
        (failing,) = job.gets("/v1/logs?level=error&text=about")["lines"]
        assert (failing["uid"], failing["attempt"], failing["logger"]) == ("says", 1, "of.the.program")
        assert failing["process"] == f"worker-{failing['subtask']}"
        line = of(found, "worker-1", "record")[-1]
        assert (line["level"], line["worker"], line["subtask"]) == ("INFO", 1, 1)
        assert "******" in line["message"]
        assert "\\ud800" in line["message"]
        pids = {each["process"]: each["pid"] for each in found["lines"]}
        assert pids["worker-0"] != pids["worker-1"]
        body = job.asks("/v1/logs")[2].decode()
        assert SECRET not in body
        assert job.asks("/v1/logs?level=loud")[0] == 400
        newest = found["newest"]
        after = job.gets(f"/v1/logs?after={newest}")
        assert all(each["number"] > newest for each in after["lines"])
        _command(job)
    _kept(tmp_path / "checkpoints")


def _attempts(found: Any) -> set[int]:
    return {each["attempt"] for each in found["lines"] if each["attempt"]}


def _command(job: Watched) -> None:
    text = asked("talks", "--process", "workers", "--text", "RECORD", "--limit", "5")
    lines = [line for line in text.splitlines() if "record" in line]
    assert len(lines) == 5
    assert " INFO worker-" in lines[0]
    assert "\\x1b[31mred\\x00" in lines[0]
    assert not set("\x1b\x00\u202e\ud800") & set(text)
    assert "has dropped" in text
    found = json.loads(asked("talks", "--level", "error", "--text", "about", "--json"))
    assert [each["message"] for each in found["lines"]] == ["about to fail"]
    result = CliRunner().invoke(app, ["logs", "talks", "--process", "worker"])
    assert result.exit_code == 2, result.output


def _kept(place: Path) -> None:
    found = json.loads(asked(str(place), "--level", "error", "--text", "about", "--json"))
    assert [each["message"] for each in found["lines"]] == ["about to fail"]
    assert SECRET not in asked(str(place), "--limit", "2000")


def test_lines_of_the_driver_are_there_too(tmp_path: Path) -> None:
    """Also where workers are threads of its process: those are of the worker."""
    with watched(tmp_path) as job:
        LOG.warning("of the driver")
        found = job.waits("/v1/logs?text=of+the+driver", lambda logs: logs["lines"])
        (line,) = found["lines"]
        assert (line["process"], line["level"], line["uid"]) == ("driver", "WARNING", None)
        assert job.waits("/v1/snapshot", lambda status: status["logged"] > 0)
