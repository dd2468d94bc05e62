"""Jobs on real Spark in processes of their own: they finish, survive a kill, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

PROGRAM = Path(__file__).with_name("counting_program.py")
SOURCE = Path(__file__).parents[3] / "src"
PATIENCE_S = 120


class Run:
    """One running program with all processes that it ever had below it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.family: set[psutil.Process] = set()

    def look(self) -> None:
        """Note the processes that are there now."""
        self.family.update(psutil.Process(self.process.pid).children(recursive=True))

    def wait_for(self, word: str) -> str:
        """The next line of output that begins with `word`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(word):
                return line.strip()
        raise AssertionError(f"the program ended with {self.process.wait()} before it said {word!r}")

    def exit_code(self) -> int:
        """Wait for the end of the program."""
        return self.process.wait(PATIENCE_S)

    def survivors(self) -> list[str]:
        """Command lines of noted processes that still run; none may, as soon as the program has ended."""
        alive = [process for process in self.family if process.is_running()]
        return [" ".join(process.cmdline()) for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@contextmanager
def program(mode: str, folder: Path, *more: str) -> Iterator[Run]:
    """The program in a process group of its own, with a folder of its own for temporary files."""
    temporary = folder / "tmp"
    temporary.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "TMPDIR": str(temporary),
        "SPARK_LOCAL_DIRS": str(temporary),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), mode, str(folder), *more],
        stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        yield Run(process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        with process:  # closes the pipe and waits
            pass


@pytest.mark.ci
def test_a_killed_worker_is_replaced_and_nothing_is_left(tmp_path: Path) -> None:
    """A killed worker's job goes on from the checkpoint, counts exactly, and leaves no process or file."""
    with program("killed", tmp_path) as run:
        run.wait_for("running 1")
        run.look()
        failure = run.wait_for("failed 1")
        run.wait_for("running 2")
        run.look()
        result = run.wait_for("last")
        code = run.exit_code()
    assert (code, result) == (0, "last (9, 400) restarts 1"), failure
    assert run.survivors() == []
    assert len(run.family) >= 4  # JVM, daemon, workers: the look was a real one
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, -signal.SIGINT), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.ci)],
)
def test_signals_end_the_job_and_all_its_processes(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Ctrl-C, which reaches the whole process group, and SIGTERM cancel the job: nothing is left."""
    with program("endless", tmp_path) as run:
        run.wait_for("running 1")
        time.sleep(1)  # into the middle of work and checkpoints
        run.look()
        if number is signal.SIGINT:
            os.killpg(run.process.pid, number)
        else:
            run.process.send_signal(number)
        ended = run.exit_code()
    # Python lets itself be killed by the SIGINT that it did not handle, so that shells notice.
    assert ended == code
    assert run.survivors() == []
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.ci
def test_a_killed_driver_takes_its_processes_along(tmp_path: Path) -> None:
    """After SIGKILL of the driver neither the JVM nor a worker lives longer than a few seconds."""
    with program("endless", tmp_path) as run:
        run.wait_for("running 1")
        run.look()
        run.process.kill()
        run.exit_code()
    assert len(run.family) >= 4
    psutil.wait_procs(run.family, timeout=20)
    assert run.survivors() == []
