"""Programs of the tests in processes of their own: what they say, line by line, and what ends them."""

from __future__ import annotations

import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from proof.standalone import PATIENCE_S

BIN: Final = Path(sys.executable).parent
SOURCE: Final = Path(__file__).parents[3] / "src"
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SMALL: Final = (
    "--conf", "spark.executor.memory=512m", "--conf", f"spark.executor.extraJavaOptions={_QUICK}",
    "--conf", "spark.ui.port=0",
)  # fmt: skip


class Run:
    """One running program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._coming: queue.Queue[str | None] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def wait_for(self, word: str, within_s: float = PATIENCE_S) -> str:
        """What follows in the next line that has `word` in it."""
        deadline = time.monotonic() + within_s
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self._coming.get(timeout=left)
            except queue.Empty:
                break
            if line is None:
                break
            _, found, rest = line.partition(word)
            if found:
                return rest.strip()
        raise AssertionError(f"no {word!r} in: {self.lines}")

    def ended(self) -> list[str]:
        """All lines of a program that ends well."""
        assert self.process.wait(PATIENCE_S) == 0, self.lines
        while self._coming.get(timeout=PATIENCE_S) is not None:
            pass
        return self.lines

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            self._coming.put(line.rstrip())
        self._coming.put(None)


@contextmanager
def program(
    command: Sequence[str], address: str = "127.0.0.1", variables: Mapping[str, str] | None = None
) -> Iterator[Run]:
    """A driver on the machine with this address; it is ended with the body."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": address,
        **(variables or {}),
    }
    process = subprocess.Popen(
        list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        start_new_session=True,
    )  # fmt: skip
    run = Run(process)
    try:
        yield run
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        run.reader.join(20)  # JVMs hold the pipe, too
        with process:
            pass


def own_session() -> dict[str, str]:
    """Variables for a program whose Spark Headgate opens: a small one."""
    return {"PYSPARK_SUBMIT_ARGS": shlex.join([*_SMALL, "pyspark-shell"])}


def submitted(master: str, script: Path, *options: str) -> list[str]:
    """The command that submits a script in client mode; its arguments come behind."""
    return [
        str(BIN / "spark-submit"),
        "--master",
        master,
        "--driver-java-options",
        _QUICK,
        *_SMALL,
        *options,
        str(script),
    ]


def headgate(*arguments: str) -> str:
    """What the command prints."""
    done = subprocess.run(
        [str(BIN / "headgate"), *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
