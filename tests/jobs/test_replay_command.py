"""`headgate replay`: what it prints, how it ends, and how it finds what is not deterministic."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from replayed_jobs import kept
from typer.testing import CliRunner

from headgate.cli.main import app

JOB = """
import random, sys
import headgate as hg
from headgate.connectors.discard import CountingSink
from headgate.connectors.generator import generator_source
from headgate.testing import MiniCluster

HOW = sys.argv[1] if len(sys.argv) > 1 else ""


class Count(hg.KeyedProcessFunction[str, dict, str]):
    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record, ctx):
        self.count.value += 1
        if HOW == "random":
            yield str(random.random())
        elif HOW == "sets":
            yield " ".join({"ant", "bee", "cow", "dog", "emu", ctx.key})
        elif HOW == "fails" and record["t"] > 560:
            raise ValueError("too many")
        elif HOW == "twice":
            self.count.value += 1
        else:
            yield f"{ctx.key} {self.count.value}"


def visit(number):
    return {"user": "abc"[number % 3], "t": number}


def main():
    env = hg.Environment(executor=MiniCluster(), config={
        "execution.checkpointing.interval": "20ms",
        "execution.checkpointing.dir": "checkpoints",
        "execution.checkpointing.num-retained": 1000,
    })
    visits = env.from_source(generator_source(visit, 600, 600, splits=1), uid="in").with_event_time("t")
    visits.key_by("user").process(Count(), uid="count").sink_to(CountingSink(), uid="out")
    env.execute("visits")


if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a program that has run."""
    folder = tmp_path_factory.mktemp("command")
    (folder / "job.py").write_text(JOB, encoding="utf-8")
    subprocess.run([sys.executable, "job.py"], cwd=folder, check=True)
    return folder


def replay(job: Path, *more: str, to: bool = True) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command, from the second checkpoint on."""
    _, first, second, *_ = kept(job)
    command = ["replay", str(job / "job.py"), "--uid", "count", "--key", "b", "--from", first]
    result = CliRunner().invoke(app, [*command, *(["--to", second] if to else []), *more])
    return result.exit_code, result.stdout, result.stderr


def test_each_step_is_shown(job: Path) -> None:
    """The record, what it changed, its output, and at the end the verdict."""
    code, out, err = replay(job, "--once")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("Count (count), key 'b': key group ")
    begun = int(lines[1].removeprefix("  count: "))
    assert lines[3].startswith("1. record {'user': 'b', 't': ")
    assert lines[3].endswith("from in-event-time[0]")
    assert lines[4:6] == [f"  count: {begun} -> {begun + 1}", f"  > 'b {begun + 1}'"]
    assert "byte for byte" in lines[-1]


def test_the_same_for_machines(job: Path) -> None:
    """One JSON object, of the fields of a report."""
    code, out, _ = replay(job, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["as_recorded"], found["differences"], found["unlike"]) == (True, [], [])
    assert found["steps"][0]["changes"][0]["state"] == "count"


def test_another_state_ends_with_code_1(job: Path) -> None:
    """Both values are shown."""
    code, out, _ = replay(job, "--once", "twice")
    assert code == 1
    assert "the state is not that of checkpoint" in out
    assert " recorded, " in out


@pytest.mark.parametrize("how", ["random", "sets"])
def test_functions_that_are_not_deterministic_are_found(job: Path, how: str) -> None:
    """Their state is as recorded, and a second replay has another output; without it nothing is seen."""
    code, out, _ = replay(job, how)
    assert code == 1
    assert "byte for byte" in out
    assert "a second replay did not do the same" in out
    assert replay(job, "--once", how)[0] == 0


def test_a_function_that_raises_ends_with_code_3(job: Path) -> None:
    """The last step is the record, and the traceback is the user's."""
    code, out, _ = replay(job, "--once", "fails", to=False)
    assert code == 3
    assert "raised ValueError: too many" in out
    assert "ValueError: too many" in out


def test_what_is_missing_is_asked_for(job: Path) -> None:
    """The key, the operator and the checkpoint have to be given."""
    result = CliRunner().invoke(app, ["replay", str(job / "job.py"), "--uid", "count", "--key", "b"])
    assert result.exit_code == 2
    assert "replay needs --from" in result.stderr


def test_a_debugger_opens_at_the_function_and_where_it_raises(job: Path) -> None:
    """At the first record of the key, where state can be looked at, and in the frame that raised."""
    command = ["--uid", "count", "--key", "b", "--from", kept(job)[1], "--pdb", "fails"]
    typed = "p 'key is ' + ctx.key\nclear\ny\nc\np 'then %d' % self.count.value\nq\n"
    ended = subprocess.run(
        [sys.executable, "-m", "headgate", "replay", "job.py", *command],
        cwd=job,
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "--- record {'user': 'b'" in ended.stdout
    assert "'key is b'" in ended.stdout
    assert "--- ValueError: too many" in ended.stdout
    assert re.search(r"'then \d+'", ended.stdout)
    assert ended.returncode == 3


def test_a_debugger_can_be_left(job: Path) -> None:
    """Then nothing has failed."""
    command = ["--uid", "count", "--key", "b", "--from", kept(job)[1], "--pdb"]
    ended = subprocess.run(
        [sys.executable, "-m", "headgate", "replay", "job.py", *command],
        cwd=job,
        input="q\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the debugger was left" in ended.stdout
    assert ended.returncode == 0


def test_a_replay_is_saved_as_a_test(job: Path, tmp_path: Path) -> None:
    """It passes without the job's storage; with another function it fails."""
    saved = tmp_path / "test_key.py"
    code, _, err = replay(job, "--once", "--save", str(saved))
    assert (code, err) == (0, "")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(saved)]
    passed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in passed.stdout, passed.stdout
    text = saved.read_text(encoding="utf-8")
    assert "from job import Count" in text
    other = text.replace("'b ", "'c ", 1)
    assert other != text
    saved.write_text(other, encoding="utf-8")
    failed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed" in failed.stdout
