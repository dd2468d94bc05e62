"""SIGTERM to real processes: the job stops with a savepoint where that is configured, and goes on from it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import json_lines
from running_jobs import PATIENCE_S, wait_until
from terminated_program import RECORDS

import headgate as hg

PROGRAM = str(Path(__file__).with_name("terminated_program.py"))
SAVES = {"headgate.on-sigterm": "savepoint"}
RUN = [sys.executable, "-c", "from headgate.cli.main import main; main()", "run"]
CALL = [sys.executable, "-c", "import sys, headgate; headgate.run_program(sys.argv[1], sys.argv[2:])"]
BEGINNINGS = [
    (RUN, "execute"), (RUN, "background"), ([], "execute"), ([], "background"), ([], "left"),
]  # fmt: skip


def arguments(
    folder: Path, begins: str, settings: dict[str, Any], cluster: str = "mini-cluster"
) -> list[str]:
    return [PROGRAM, str(folder), cluster, begins, json.dumps(settings)]


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process whose job has processed something."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: process.poll() is not None or (folder / "begun").exists(), "the job runs")
            assert process.poll() is None, process.communicate()
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def savepoints(folder: Path) -> list[Path]:
    return [file.parent for file in folder.glob("savepoints/*/_metadata")]


def finish_from(savepoint: Path, folder: Path) -> None:
    """Run the rest; every record is there once, with the count that it has without any interruption."""
    (folder / "rest").touch()
    command = [*RUN, "--from", str(savepoint), *arguments(folder, "execute", {})]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(json_lines(folder / "out")) == [[n, n // 7 + 1] for n in range(RECORDS)]


@pytest.mark.parametrize(("how", "begins"), BEGINNINGS)
def test_sigterm_stops_with_a_savepoint(tmp_path: Path, how: list[str], begins: str) -> None:
    """Under the command and without it; a job of the main thread's and one in the background, also of a main
    thread that is over. Nothing of the program runs after it.
    """
    command = [*(how or [sys.executable]), *arguments(tmp_path, begins, SAVES)]
    with running(command, tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        code, out, err = ended(process)
    assert (code, out) == (143, "")
    assert "Traceback" not in err
    (savepoint,) = savepoints(tmp_path)
    if how:
        assert re.search(r"stopped by a signal; `headgate run --from file://\S+savepoint-\S+` goes on\n", err)
    before = len(json_lines(tmp_path / "out"))
    assert 0 < before < RECORDS
    finish_from(savepoint, tmp_path)


def test_a_program_that_survives_the_signal_is_told_again(tmp_path: Path) -> None:
    """Its next job stops with a savepoint, too: the second signal is the first one for that job."""
    with running([sys.executable, *arguments(tmp_path, "survives", SAVES)], tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: (tmp_path / "other" / "begun").exists(), "the next job runs")
        process.send_signal(signal.SIGTERM)
        code, out, _ = ended(process)
    assert (code, out) == (143, "")
    assert (len(savepoints(tmp_path)), len(savepoints(tmp_path / "other"))) == (1, 1)


@pytest.mark.parametrize(("how", "begins"), [(CALL, "both"), ([sys.executable], "within")])
def test_a_job_in_the_background_of_another_has_its_time(tmp_path: Path, how: list[str], begins: str) -> None:
    """The job of the main thread ends first, and does not cancel the other one's savepoint by that."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "stuck").touch()
    with running([*how, *arguments(tmp_path, begins, SAVES)], tmp_path) as process:
        wait_until(lambda: (other / "begun").exists(), "the job in the background runs")
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: savepoints(tmp_path), "the first savepoint")
        time.sleep(1)
        (other / "stuck").unlink()
        code, out, _ = ended(process)
    assert (code, out) == (143, "")
    assert (len(savepoints(tmp_path)), len(savepoints(other))) == (1, 1)


@pytest.mark.ci
@pytest.mark.spark
def test_on_spark_too(tmp_path: Path) -> None:
    """The gang of Spark ends by itself; who reads JSON lines is told of the savepoint, and how it ended."""
    with running([*RUN, "--json", *arguments(tmp_path, "execute", SAVES, "spark")], tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        code, out, _ = ended(process)
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, lines[-1]["event"], lines[-1]["job"]) == (143, "finished", "slow")
    notes = [line["text"] for line in lines if line["event"] == "note"]
    assert notes[-1].startswith("stopped with savepoint file://")
    (savepoint,) = savepoints(tmp_path)
    finish_from(savepoint, tmp_path)


@pytest.mark.parametrize(("how", "begins"), BEGINNINGS)
def test_a_second_signal_ends_at_once(tmp_path: Path, how: list[str], begins: str) -> None:
    """The savepoint cannot come while a function stands still; who insists does not wait for it."""
    (tmp_path / "stuck").touch()
    with running([*(how or [sys.executable]), *arguments(tmp_path, begins, SAVES)], tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        (tmp_path / "stuck").unlink()  # a worker is a thread here, and can only end between records
        code, _, _ = ended(process)
    assert code == 143
    assert savepoints(tmp_path) == []
    assert json_lines(tmp_path / "out") == []


def test_time_is_bounded(tmp_path: Path) -> None:
    """Where the savepoint does not come in time the job is cancelled."""
    (tmp_path / "stuck").touch()
    settings = {**SAVES, "headgate.on-sigterm.timeout": "500ms"}
    with running([*RUN, *arguments(tmp_path, "execute", settings)], tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        time.sleep(1)
        (tmp_path / "stuck").unlink()
        code, _, err = ended(process)
    assert code == 143
    assert err.endswith("headgate: cancelled by a signal\n")
    assert json_lines(tmp_path / "out") == []


def test_without_the_option_it_is_cancelled(tmp_path: Path) -> None:
    """As ever; and so does SIGHUP with it."""
    for number, settings, code in ((signal.SIGTERM, {}, 143), (signal.SIGHUP, SAVES, 129)):
        folder = tmp_path / number.name
        folder.mkdir()
        with running([*RUN, *arguments(folder, "execute", settings)], folder) as process:
            process.send_signal(number)
            assert ended(process)[0] == code
        assert (savepoints(folder), json_lines(folder / "out")) == ([], [])


def test_a_savepoint_needs_a_place() -> None:
    """Refused when the job is to begin, and not when the signal comes."""
    env = hg.Environment(config=SAVES, executor="mini-cluster")
    with pytest.raises(hg.ConfigError, match="there is no place for the savepoint; set execution"):
        env.from_collection([1]).collect()
