"""The README's first program, exactly as printed, in an empty folder, as an ordinary user runs it."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEADGATE = Path(sys.executable).with_name("headgate")
CELLS = """
import sys
for number, cell in enumerate(open(sys.argv[1]).read().split("\\n\\n\\n"), 1):
    exec(compile(cell, f"<cell {number}>", "exec"), globals())
"""
"""What a notebook does: one piece after the other, in the namespace of `__main__`, from no file."""


def printed_program() -> str:
    """The first Python block of the README."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def ordinary_user(command: list[str]) -> list[str]:
    """The command without the rights of root, where the tests run as root."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return command
    return ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", *command]


def run(command: list[str], folder: Path) -> str:
    """Run a command in the folder; what it printed."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        ordinary_user(command), cwd=folder, env=variables, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.spark
@pytest.mark.ci
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["python", "headgate run", "notebook"])
def test_the_first_program_runs_as_printed(how: str, tmp_path: Path) -> None:
    """Every author's last standing is what a batch over the same file says."""
    assert "commits.jsonl.gz" in run([str(HEADGATE), "example", "commits"], tmp_path)
    (tmp_path / "standings.py").write_text(printed_program())
    command = {
        "python": [sys.executable, "standings.py"],
        "headgate run": [str(HEADGATE), "run", "standings.py"],
        "notebook": [sys.executable, "-c", CELLS, "standings.py"],
    }[how]
    run(command, tmp_path)
    with gzip.open(tmp_path / "commits.jsonl.gz", "rt") as lines:
        events = [json.loads(line) for line in lines]
    commits, files = Counter(e["author"] for e in events), Counter[str]()
    for event in events:
        files[event["author"]] += event["files"]
    parts = (tmp_path / "out").rglob("part-*")
    out = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    standings = sorted((row["author"], row["commits"]) for row in out if not row["quiet"])
    assert standings == sorted((author, n + 1) for author, count in commits.items() for n in range(count))
    last = {row["author"]: row for row in sorted(out, key=lambda row: row["commits"])}
    assert {author: row["commits"] for author, row in last.items()} == commits
    assert {author: row["files"] for author, row in last.items()} == files
    assert any(row["quiet"] for row in out)


@pytest.mark.spark
@pytest.mark.ci
@pytest.mark.timeout(300)
def test_the_first_hour_goes_as_recorded() -> None:
    """Install, a mistake, run, look, upgrade of the running job: every commit is counted once."""
    command = [sys.executable, str(ROOT / "examples" / "first_hour" / "session.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "did you mean 'author'?" in done.stdout
    assert done.stdout.endswith("every commit was counted once, across the upgrade\n")
