"""Children of user code, of every kind, cannot delete, commit, acknowledge or answer for their parent."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("forking_program.py")
EXPECTED = {"raises": "child: 1", "returns": "child: 1"}


def run(folder: Path, place: str, kind: str, backend: str = "hashmap") -> tuple[dict[str, object], str]:
    """What the program tells of its job, and its standard error."""
    with (folder / "stderr").open("w+") as stderr:
        done = subprocess.run(
            [sys.executable, PROGRAM, folder, place, kind, backend],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=50,
            check=False,
        )
        stderr.seek(0)
        told = stderr.read()
    lines = done.stdout.splitlines()
    assert done.returncode == 0, told
    assert len(lines) == 1, (lines, told)  # a child that went on would print a second one
    return json.loads(lines[0]), told


QUICK = [
    ("map", "leaves"),
    ("map", "returns"),
    ("blocking", "leaves"),
]
SLOWER = [
    ("map", "by_multiprocessing"),
    ("process", "raises"),
    ("map", "raises"),
    ("map", "by_pool"),
    ("map", "by_subprocess"),
    ("map", "by_spawn"),
    ("open", "leaves"),
    ("open", "returns"),
    ("blocking", "returns"),
    ("blocking", "raises"),
    ("process", "leaves"),
    ("process", "returns"),
    ("enumerator", "leaves"),
    ("enumerator", "returns"),
    ("driver", "leaves"),
    ("driver", "by_multiprocessing"),
]


@pytest.mark.parametrize(
    ("place", "kind"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.ci) for each in SLOWER)]
)
def test_the_job_does_not_notice_a_child(tmp_path: Path, place: str, kind: str) -> None:
    """However a child of user code ends, the job goes on without a restart and its output is exact."""
    told, stderr = run(tmp_path, place, kind)
    assert told == {"restarts": 0, "exactly": True}, stderr
    assert EXPECTED.get(kind, "child: 0") in stderr
    if kind == "returns":
        assert "which user code has forked, came back out of the user's function" in stderr
    if kind == "raises":
        assert "ValueError: of the child" in stderr


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["leaves", "returns"])
def test_with_state_on_disk(tmp_path: Path, kind: str) -> None:
    """A child removes no database of its parent and writes nothing into it."""
    pytest.importorskip("rocksdict")
    told, stderr = run(tmp_path, "process", kind, "rocksdb")
    assert told == {"restarts": 0, "exactly": True}, stderr


@pytest.mark.ci
def test_a_child_that_lives_on(tmp_path: Path) -> None:
    """A child that outlives the job keeps nobody waiting: no connection stays open through it."""
    began = time.monotonic()
    told, stderr = run(tmp_path, "map", "stays")
    assert told == {"restarts": 0, "exactly": True}, stderr
    assert time.monotonic() - began < 30
