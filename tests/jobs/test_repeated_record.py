"""A record that fails each time is named with its key, and with the command that replays it."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from running_jobs import wait_until
from typer.testing import CliRunner

import headgate as hg
from headgate.cli.main import app

PROGRAM = """
import headgate as hg
from headgate.testing import MiniCluster

class Count(hg.KeyedProcessFunction[str, dict, int]):
    n: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record, ctx):
        self.n.value += 1
        if record["n"] == 200:
            raise ValueError("no")
        yield self.n.value

def begun():
    config = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "2",
        "restart-strategy.fixed-delay.delay": "1ms",
    }
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=config)
    env.checkpoints(every="1h", storage=@FOLDER@)
    visits = env.generate(lambda i: {"user": "ada's", "n": i}, count=400, rate_per_s=100, uid="visits")
    visits.key_by("user").process(Count(), uid="streaks").collect_later(uid="out")
    return env.execute_async("streaks")

if __name__ == "__main__":
    begun().result()
"""


def test_the_command_of_the_report_shows_the_failure(tmp_path: Path) -> None:
    """Key and checkpoint are filled in; it ends with what the program's code raised."""
    job = tmp_path / "job.py"
    job.write_text(PROGRAM.replace("@FOLDER@", repr(str(tmp_path / "checkpoints"))), encoding="utf-8")
    handle = runpy.run_path(str(job), run_name="job")["begun"]()
    wait_until(lambda: handle.status().state == "running", "the job runs")
    handle.checkpoint()  # the record that fails comes two seconds after the first one
    wait_until(lambda: handle.done, "the job has failed")
    found = handle.status().repeating
    assert (found.uid, found.key) == ("streaks", '"ada\'s"')
    assert found.text.startswith('the same record of key "ada\'s" fails for the 3rd time since checkpoint ')
    command = re.search(r"`(headgate replay .*?)` shows why", found.text)
    assert command is not None
    _, *words = shlex.split(command[1])
    ended = CliRunner().invoke(app, [str(job) if word == "JOB.PY" else word for word in words])
    assert ended.exit_code == 3, ended.output
    assert "ValueError: no" in ended.output
    with pytest.raises(hg.UserFunctionError):
        handle.result()
