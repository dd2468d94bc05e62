"""`headgate top` and `headgate why`, of a job that runs and of one that is held up."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import TINY
from running_jobs import Valve, wait_until
from typer.testing import CliRunner

import headgate as hg
from headgate.cli.main import app
from headgate.common.files.job_files import known_jobs
from headgate.runtime.driver.endpoint.page.why_answer import NOTHING
from headgate.testing import MiniCluster


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of jobs of the test's own."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))


def slow(record: Any) -> Any:
    """Takes ten milliseconds."""
    time.sleep(0.01)
    return record


@contextmanager
def running(folder: Path, number: int, first: int) -> Iterator[Valve]:
    """A job whose second operator is slow; of its records so many come at first."""
    config = {**TINY, "heartbeat.interval": "20ms", "rest.enabled": True}
    valve = Valve(number, first, list(range(100_000)))
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=config)
    env.from_source(valve, uid="in").rebalance().map(slow, uid="[slow]").write_json(str(folder), uid="out")
    with env.execute_async("looked at") as handle:
        wait_until(known_jobs, "the job can be found")
        wait_until(lambda: handle.status().state == "running", "it runs")
        yield valve
        handle.cancel()


def asked(*arguments: str) -> str:
    """What a command prints."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_slow_operator_is_named(tmp_path: Path) -> None:
    """With figures, its line, and by its uid, brackets included."""
    with running(tmp_path / "out", 9_980, 100_000):
        wait_until(lambda: "is the bottleneck" in asked("why", "looked at"), "it is found")
        said = asked("why", "looked at")
        assert said.startswith("'[slow] -> out' is the bottleneck: slow (test_looking.py:")
        assert ") of '[slow]' takes " in said
        assert "% of a processor it rather waits than computes: call it asynchronously (map_async)" in said
        found = json.loads(asked("why", "looked at", "--json"))
        assert (found["kind"], found["vertex"], found["uid"]) == ("slow function", 1, "[slow]")
        assert found["line"].startswith("slow (test_looking.py:")
        assert found["samples"] > 20
        shown = asked("top", "looked at", "--once")
        assert shown.splitlines()[0].startswith("looked at is running, attempt 1, 0 restarts")
        assert "is the bottleneck" in shown
        assert any(line.startswith("[slow] -> out ") for line in shown.splitlines())
        facts = json.loads(asked("top", "looked at", "--once", "--json"))
        assert (facts["name"], facts["over"]) == ("looked at", False)


def test_nothing_is_said_of_a_job_that_waits_for_input(tmp_path: Path) -> None:
    """It is not held up."""
    with running(tmp_path / "out", 9_981, 1):
        wait_until(lambda: asked("why", "looked at").startswith(NOTHING), "it is known")


def test_a_job_that_does_not_run_is_refused() -> None:
    """As by the other commands."""
    result = CliRunner().invoke(app, ["top", "nobody", "--once"])
    assert result.exit_code == 2
    assert "nobody" in result.stderr
