"""The tutorial on windows is true, from the first look at the events to the changed job."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import headgate as hg
from headgate.testing import MiniCluster

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial-windows.md"
EVENTS = ROOT / "src" / "headgate" / "cli" / "examples" / "commits.jsonl.gz"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
HEADGATE = """#!{python}
import sys
from headgate.common import registry
executors = registry.BUILT_IN[registry.Kind.EXECUTOR]
executors["spark"] = executors["process-cluster"]
from headgate.cli.main import main
sys.exit(main())
"""
"""The command, with processes in place of Spark's workers."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the reader, with the events in it."""
    (tmp_path / EVENTS.name).symlink_to(EVENTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_typed_in_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the mini cluster in place of Spark."""
    monkeypatch.setattr(hg, "Environment", partial(hg.Environment, executor=MiniCluster()))
    examples = doctest.DocTestParser().get_doctest(PAGE.read_text(), {}, PAGE.name, str(PAGE), 0)
    assert len(examples.examples) > 20
    told: list[str] = []
    results = doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(examples, out=told.append)
    assert results.failed == 0, "".join(told)


def commands() -> list[tuple[str, str]]:
    """What is typed in the shell, each with what the page shows of its output."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    pieces = [piece for block in blocks for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(piece.partition("\n")[0], piece.partition("\n")[2]) for piece in pieces]


def program(path: Path, text: str) -> None:
    """Write a program that can be called by its name."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_what_is_typed_in_a_shell(folder: Path) -> None:
    """One after the other: the kill is a real one, and the job goes on from what it had stored."""
    printed = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert printed is not None
    (folder / "weeks.py").write_text(printed[1])
    program(folder / "bin" / "headgate", HEADGATE.format(python=sys.executable))
    program(folder / "bin" / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    typed, shown = zip(*commands(), strict=True)
    script = "".join(f"{line}\nprintf '\\n<end>\\n'\n" for line in typed)
    variables = {
        **os.environ,
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HEADGATE_HOME": str(folder / "home"),
        "COLUMNS": "160",
    }
    done = subprocess.run(
        ["bash"], input=script, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=580, check=False,
    )  # fmt: skip
    # That the shell says of the job that was killed, in words of its own.
    said = re.sub(r"^bash: line \d+: .*Killed.*\n", "", done.stdout, flags=re.MULTILINE)
    given = said.split("\n<end>\n")[:-1]
    assert len(given) == len(typed), done.stdout
    same = doctest.OutputChecker().check_output
    wrong = [
        f"$ {line}\n{got}" for line, want, got in zip(typed, shown, given, strict=True)
        if not same(want, f"{got}\n" if got.strip() else "", FLAGS)
    ]  # fmt: skip
    assert wrong == [], "\n".join([*wrong, *(log.read_text() for log in sorted(folder.glob("*.log")))])
