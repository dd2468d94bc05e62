"""A job in another process under the commands: looked at, saved, changed, ended, and lost."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import json_lines
from running_jobs import PATIENCE_S, wait_until
from typer.testing import CliRunner

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.cli.main import app
from headgate.common.files.job_files import known_jobs

PROGRAM = Path(__file__).with_name("controlled_program.py")


def headgate(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def told(*arguments: str) -> Any:
    """What a command tells machines."""
    code, out, err = headgate(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of jobs of the test's own."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@contextmanager
def running(folder: Path, where: str = "mini") -> Iterator[subprocess.Popen[str]]:
    """The program in a process of its own, as soon as all words are counted."""
    log = (folder / "log").open("w")
    command = [sys.executable, str(PROGRAM), str(folder), where]
    with log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            wait_until(lambda: process.poll() is not None or counted(), "all words are counted")
            assert process.poll() is None, (folder / "log").read_text()
            yield process
        finally:
            process.kill()


def counted() -> bool:
    """Whether the job runs and has seen everything."""
    if not known_jobs():
        return False
    vertices = hg.connect("words").status().vertices
    return any("farewell" in vertex.uids and vertex.records_in == 20 for vertex in vertices)


def last_words(process: subprocess.Popen[str]) -> str:
    """What the program said in the end."""
    out, _ = process.communicate(timeout=PATIENCE_S)
    return out.strip()


def test_a_job_is_looked_at_changed_and_ended_from_outside(tmp_path: Path) -> None:
    """List, status, query, checkpoint, savepoint, rescale and stop --drain of one job, as a user would."""
    with running(tmp_path) as process:
        (listed,) = told("list")["jobs"]
        assert (listed["name"], listed["state"], listed["pid"]) == ("words", "running", process.pid)
        (file,) = (tmp_path / "home" / "jobs").iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert json.loads(file.read_text())["secret"] not in json.dumps(listed)

        code, out, err = headgate("list")
        assert (code, err) == (0, "")
        assert listed["job_id"] in out
        code, out, _ = headgate("status", listed["job_id"][:-2])
        assert "job 'words'" in out
        assert "is running" in out
        assert "farewell" in out

        assert headgate("query", "words", "farewell", "count", "w1")[1] == "4\n"
        assert told("query", "words", "farewell", "count", '"w1"')["value"] == 4
        code, _, err = headgate("query", "words", "farewell", "count", "nobody")
        assert (code, "holds nothing under key 'nobody'" in err) == (2, True)

        checkpoint = told("checkpoint", "create", "words")["checkpoint"]
        assert open_checkpoint(checkpoint)[1].kind == "checkpoint"
        savepoint = told("savepoint", "create", "words", "--format", "native")["savepoint"]
        assert open_checkpoint(savepoint)[1].kind == "savepoint"
        code, out, _ = headgate("savepoint", "create", "words", "--dir", str(tmp_path / "elsewhere"))
        assert out.startswith(f"savepoint file://{tmp_path}/elsewhere/savepoint-")

        code, out, err = headgate("rescale", "words", "--parallelism", "2")
        assert (code, out, err) == (0, "job 'words' runs at parallelism 2\n", "")
        assert told("status", "words")["parallelism"] == 2
        code, _, err = headgate("rescale", "words", "--parallelism", "17")
        assert code == 2
        assert "key groups" in err
        records = hg.connect("words").checkpoints()["checkpoints"]
        assert {record["kind"] for record in records} >= {"manual", "savepoint"}
        states = {
            operator["uid"]: operator["states"]
            for vertex in hg.connect("words").plan()["vertices"]
            for operator in vertex["operators"]
        }
        assert states["farewell"] == [{"name": "count", "kind": "value"}]

        assert json_lines(tmp_path / "out") == []
        stopped = told("stop", "words", "--drain")["savepoint"]
        assert last_words(process) == f"ended with {stopped}"
    assert open_checkpoint(stopped)[1].kind == "savepoint"
    assert sorted(line["count"] for line in json_lines(tmp_path / "out")) == [4] * 5
    assert list((tmp_path / "home" / "jobs").iterdir()) == []
    code, _, err = headgate("status", "words")
    assert (code, err) == (
        2, "headgate: there is no job 'words'; no job of yours is running on this machine\n",
    )  # fmt: skip


def test_a_job_is_cancelled_by_who_has_its_secret(tmp_path: Path) -> None:
    """A wrong secret harms nothing; the right one ends the job, and the command waits for that."""
    with running(tmp_path) as process:
        (known,) = known_jobs()
        text = known.path.read_text()
        known.path.write_text(text.replace(known.file.secret, "guessed"))
        code, _, err = headgate("cancel", "words")
        assert (code, "does not show the job's secret" in err) == (2, True)
        known.path.write_text(text)
        assert told("status", "words")["state"] == "running"
        assert told("cancel", "words") == {"job_id": known.file.job_id, "state": "cancelled"}
        assert last_words(process) == "ended: job 'words' was cancelled"
    assert told("list") == {"jobs": []}


def test_a_killed_driver_is_told_once_and_forgotten(tmp_path: Path) -> None:
    """It can tell nobody itself: its file is still there, and nobody holds it."""
    with running(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        code, _, err = headgate("savepoint", "create", "words")
        assert code == 1
        assert f"is gone: its driver, process {process.pid}, died" in err
        code, out, _ = headgate("list")
        assert code == 0
        assert f"its driver, process {process.pid}, died without cleaning up" in out
    assert told("list") == {"jobs": []}


@pytest.mark.ci
@pytest.mark.spark
def test_on_spark_the_endpoint_is_there_without_being_asked_for(tmp_path: Path) -> None:
    """The same commands, with workers in processes of their own."""
    with running(tmp_path, "spark") as process:
        assert headgate("query", "words", "farewell", "count", "w1")[1] == "4\n"
        savepoint = told("savepoint", "create", "words")["savepoint"]
        assert open_checkpoint(savepoint)[1].kind == "savepoint"
        assert told("stop", "words", "--drain")["savepoint"] in last_words(process)
    assert sorted(line["count"] for line in json_lines(tmp_path / "out")) == [4] * 5
