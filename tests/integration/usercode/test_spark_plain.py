"""Plain programs on Spark: their workers have no namespaces, and isolated programs take turns with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.ci, pytest.mark.timeout(300)]

JOB = """
import os
import sys

import headgate as hg
import helpers


def seen(n):
    namespaces = sum(name.startswith("headgate.usercode.namespaces") for name in sys.modules)
    return (helpers.WHOSE, type(sys.modules).__name__, namespaces > 0, os.getpid())


def look():
    env = hg.Environment(parallelism=1)
    kept = env.from_collection([1]).map(seen).collect_later()
    env.execute("look")
    print("saw", *kept.records[0])


look()
"""
HOST = (
    JOB
    + """
for other in sys.argv[1:]:
    hg.run_program(other, options=["headgate.progress=off"])
look()
"""
)


def program(folder: Path, text: str = JOB) -> str:
    """A program, and a module `helpers` beside it that knows whose it is."""
    folder.mkdir()
    (folder / "job.py").write_text(text)
    (folder / "helpers.py").write_text(f"WHOSE = {folder.name!r}\n")
    return str(folder / "job.py")


def seen(*command: str) -> list[list[str]]:
    """What the functions of a program saw in their worker, job by job."""
    variables = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    ended = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=variables, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return [line.split()[1:] for line in ended.stdout.splitlines() if line.startswith("saw ")]


def test_a_plain_program_on_spark(tmp_path: Path) -> None:
    """Its modules are found in the worker, whose table of modules is Python's own."""
    job = program(tmp_path / "plain")
    ((whose, table, namespaces, _),) = seen(*("-m", "headgate", "run", "-q", "--master", "local[2]", job))
    assert (whose, table, namespaces) == ("plain", "dict", "False")


def test_programs_take_turns_in_one_reused_worker(tmp_path: Path) -> None:
    """A plain one, two isolated ones, the plain one again: each finds its own `helpers`."""
    others = [program(tmp_path / name) for name in ("one", "two")]
    found = seen(program(tmp_path / "host", HOST), *others)
    assert [whose for whose, _, _, _ in found] == ["host", "one", "two", "host"]
    assert [table for _, table, _, _ in found] == ["dict", "ModuleTable", "ModuleTable", "ModuleTable"]
    assert len({pid for _, _, _, pid in found}) == 1
