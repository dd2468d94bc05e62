"""`headgate example`, `--version` and completion: what a newcomer types first."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli.main import app


def call(*arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the command."""
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.stdout, done.stderr


def test_the_example_is_put_into_a_folder(tmp_path: Path) -> None:
    """The file is there, holds what the sentence says, and is put there again without harm."""
    for _ in range(2):
        code, output, _ = call("example", "commits", str(tmp_path))
        assert code == 0
    with gzip.open(tmp_path / "commits.jsonl.gz", "rt") as lines:
        events = [json.loads(line) for line in lines]
    assert f"{len(events):,} commits" in output
    assert all({"author", "author_ms", "files"} <= event.keys() for event in events)


def test_another_file_of_the_name_stays(tmp_path: Path) -> None:
    """What somebody has written is not overwritten."""
    (tmp_path / "commits.jsonl.gz").write_bytes(b"mine")
    code, _, errors = call("example", "commits", str(tmp_path))
    assert code == 2
    assert "exists and is another file" in errors
    assert (tmp_path / "commits.jsonl.gz").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(["nothing"], "expected one of: commits"), (["commits", "no/such/folder"], "name a folder that exists")],
)
def test_wrong_names_are_refused_in_a_sentence(arguments: list[str], expected: str) -> None:
    """An unknown example and a folder that is not there."""
    code, _, errors = call("example", *arguments)
    assert code == 2
    assert expected in errors
    assert len(errors.splitlines()) == 1


def test_version_is_an_option_too() -> None:
    """`headgate --version` tells what `headgate version` tells."""
    assert call("--version") == call("version")
    assert call("--version")[1].startswith(f"headgate {importlib.metadata.version('headgate')}\n")


def test_the_shell_completes_commands() -> None:
    """The command answers what bash asks it for."""
    asked = {"_HEADGATE_COMPLETE": "complete_bash", "COMP_WORDS": "headgate savep", "COMP_CWORD": "1"}
    command = [str(Path(sys.executable).with_name("headgate"))]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True)
    assert done.stdout.split() == ["savepoint"]
