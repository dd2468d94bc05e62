"""What user code prints in real worker processes: to a terminal, and to the log where there is none."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

PROGRAM = """
import sys
import headgate as hg
from headgate.testing import ProcessCluster

def show(number):
    for piece in ("number", " ", str(number)):
        sys.stdout.write(piece)
    print()
    return {"n": number, "filler": "x" * 300}

def on(record):
    return record

class Told(hg.KeyedProcessFunction):
    def process(self, record, ctx):
        print("key", ctx.key)
        yield record["n"]

if __name__ == "__main__":
    from headgate.display.progress import listener_for

    class Shown(ProcessCluster):
        def execute(self, job):
            self._listener = listener_for(job.config, job.name, job.plan)
            return super().execute(job)

    env = hg.Environment(parallelism=2, executor=Shown())
    numbers = env.generate(int, 300, uid="numbers").rebalance()
    numbers = numbers.map(show, uid="show").map(on, uid="on").rebalance()
    numbers.key_by(lambda record: record["n"] % 5).process(Told(), uid="told").print(uid="seen")
    print("before")
    env.execute("printing")
    print("after")
"""
LINES = re.compile(r"^(show\[[01]\]: number \d+|told\[[01]\]: key [0-4]|seen\[[01]\]: \d+)$")


def environment_variables() -> dict[str, str]:
    """Of the child."""
    source = str(Path(__file__).resolve().parents[2] / "src")
    return {**os.environ, "PYTHONPATH": source, "TERM": "xterm", "COLUMNS": "60", "LINES": "24"}


def on_terminal(program: Path) -> str:
    """Everything that a person would have seen, with the escape sequences."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def read() -> None:
        while True:
            try:
                data = os.read(ours, 65_536)
            except OSError:  # nobody has the other end any more
                return
            seen.append(data)

    reader = threading.Thread(target=read)
    child = subprocess.Popen(
        [sys.executable, str(program)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment_variables(),
        cwd=program.parent,
    )
    os.close(theirs)
    reader.start()
    assert child.wait(50) == 0, b"".join(seen).decode()
    reader.join()
    os.close(ours)
    return b"".join(seen).decode()


def final_lines(seen: str) -> list[str]:
    """What each line holds once all that was drawn over is gone."""
    lines = [re.split(r"\x1b\[2K|\r(?!\n)", line)[-1] for line in seen.replace("\r\n", "\n").split("\n")]
    return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip("\r") for line in lines]


def test_on_a_terminal_every_line_is_whole_and_named(tmp_path: Path) -> None:
    """Above the line of progress, which stays one line; nothing is torn, nothing is lost."""
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    lines = final_lines(on_terminal(program))
    printed = [line for line in lines if line.startswith(("show[", "told[", "seen["))]
    assert [line for line in printed if not LINES.match(line)] == []
    assert len(printed) == 900
    assert len([line for line in printed if line.startswith("show[")]) == 300
    assert len([line for line in printed if line.startswith("seen[")]) == 300
    others = [line for line in lines if line and line not in printed]
    assert [line for line in others if "number" in line or "key " in line] == []
    assert {"before", "after"} <= set(others)
    assert any("finished after" in line for line in others)


def test_without_a_terminal_lines_are_in_the_log(tmp_path: Path) -> None:
    """Each an entry, and the standard output is the program's own; progress is a plain line now and then."""
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    ended = subprocess.run(
        [sys.executable, str(program)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment_variables(),
        cwd=tmp_path,
        check=True,
        timeout=50,
    )
    assert ended.stdout == "before\nafter\n"
    entries = [line for line in ended.stderr.splitlines() if " headgate.print: " in line]
    shown = [line.partition(" headgate.print: ")[2] for line in entries]
    assert [line for line in shown if not LINES.match(line)] == []
    assert len(shown) == 900
    plain = [line for line in ended.stderr.splitlines() if line.startswith("printing: ")]
    assert plain[-1].startswith("printing: finished after")


@pytest.mark.spark
@pytest.mark.ci
def test_on_spark_as_well(tmp_path: Path) -> None:
    """The executor that a newcomer has."""
    program = tmp_path / "job.py"
    program.write_text(PROGRAM.replace(", executor=Shown()", ""))
    lines = final_lines(on_terminal(program))
    assert len([line for line in lines if LINES.match(line)]) == 900
