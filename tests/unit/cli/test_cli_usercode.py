"""``headgate usercode``: what it prints, for people and for machines, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli import usercode
from headgate.cli.main import app
from headgate.usercode import explaining


def headgate(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `headgate usercode`."""
    result = CliRunner().invoke(app, ["usercode", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A program that must not be run, beside a package that the framework has, too."""
    (tmp_path / "rich").mkdir()
    for name in ("job.py", "rich/__init__.py"):
        (tmp_path / name).write_text("raise SystemExit('it was run')\n")
    return str(tmp_path / "job.py")


def test_an_explanation_for_people(program: str) -> None:
    """One row for each module: whose copy, which file, and the rule."""
    code, out, err = headgate("explain", program, "rich", "json")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["module", "copy", "file", "why"]
    assert rows[2] == ["rich", "user", program.replace("job.py", "rich/__init__.py"), "child-first:",
                       "the", "user's", "copy"]  # fmt: skip
    assert rows[3][:2] == ["json", "framework"]


def test_an_explanation_for_machines(program: str, tmp_path: Path) -> None:
    """One JSON object; settings count, and what is brought beside the program."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "extra.py").touch()
    setting = "classloader.parent-first-patterns.default=rich"
    code, out, _ = headgate(
        "explain", program, "rich", "extra", "--with", str(tmp_path / "more"), "-D", setting, "--json"
    )
    found = json.loads(out)
    assert code == 0
    assert set(found) == {"isolated", "modules", "native_packages", "own_processes", "warnings"}
    assert "brings packages" in found["isolated"]
    assert [(one["module"], one["copy"]) for one in found["modules"]] == [
        ("rich", "framework"),
        ("extra", "user"),
    ]
    assert set(found["modules"][0]) == {"module", "copy", "file", "reason", "native"}
    assert found["modules"][1]["file"] == str(tmp_path / "more" / "extra.py")
    assert "stay parent-first" in found["warnings"][0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-D", "classloader.resolve-order=sideways"], "expected child-first or parent-first"),
        (["-D", "parallelism.default=2"], "none of user code's"),
        (["-D", "classloader.resolve-order"], "expected key=value"),
        (["--with", "nowhere"], "neither a folder nor an archive"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(program: str, arguments: list[str], said: str) -> None:
    """On the standard error, with the code of a refusal."""
    code, out, err = headgate("explain", program, "json", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_rows_of_native_packages() -> None:
    """Where their compiled parts run has a column; processes of the job's own are told below."""
    native = [{"package": "numpy", "version": "2.1", "runs": "a process of its own", "reason": "it clashes"}]
    row = {"module": "numpy", "copy": "user", "file": None, "reason": "child-first: the user's copy"}
    found = {
        "modules": [{**row, "native": native}],
        "isolated": None,
        "own_processes": True,
        "warnings": ["so"],
    }
    lines = usercode.render(found).splitlines()
    assert lines[0].split() == ["module", "copy", "file", "why", "compiled", "parts", "run"]
    assert lines[2].endswith("numpy 2.1: a process of its own (it clashes)")
    assert lines[-2:] == ["the job needs worker processes of its own", "warning: so"]


def test_both_sides_agree_on_the_answers_line() -> None:
    """The command and its child, which import nothing of each other."""
    assert usercode._ANSWER == explaining.ANSWER
