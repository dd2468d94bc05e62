"""What user code does to Spark's Python workers: the cause is told, and the next job does not meet it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("spoiling_program.py")
KINDS = ["fork", "exit", "kill", "crash", "close", "stays", "limit", "none"]

pytestmark = [pytest.mark.spark, pytest.mark.ci]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Kind -> what its job told; all in one session."""
    folder = tmp_path_factory.mktemp("spoiled")
    with (folder / "stderr").open("w+") as stderr:
        done = subprocess.run(
            [sys.executable, PROGRAM, folder, *KINDS],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=200,
            check=False,
        )
        stderr.seek(0)
        printed = stderr.read()
    assert done.returncode == 0, printed
    found = {each["kind"]: each for each in map(json.loads, done.stdout.splitlines())}
    return found | {"": {"printed": printed}}


def test_a_forked_child_harms_nothing(told: dict[str, dict[str, Any]]) -> None:
    """It ends by sys.exit(0) in a worker of Spark, and the job goes on to its exact output."""
    assert (told["fork"]["told"], told["fork"]["records"]) == ("", 4)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("exit", ["os._exit(3) was called", "in harm", "about to leave"]),
        ("kill", ["the Python worker of slot"]),
        ("crash", ["Segmentation fault", "in harm"]),
        ("close", ["descriptors of Headgate's files and connections"]),
        ("stays", ["the worker of slot"]),
    ],
)
def test_a_death_is_explained(told: dict[str, dict[str, Any]], kind: str, parts: list[str]) -> None:
    """By its cause, where it is known, and always by the operator at work."""
    for part in [*parts, "it was at work for subtask", "(uid 'harming')"]:
        assert part in told[kind]["told"]
    assert "control connection" not in told[kind]["told"]


def test_network_threads_end_without_tracebacks(told: dict[str, dict[str, Any]]) -> None:
    """Descriptors closed by user code have one cause, told once."""
    printed = told[""]["printed"]
    assert "Exception in thread headgate-" not in printed
    assert printed.count("headgate: this worker stops: code in this process has closed") == 1


def test_limits_do_not_meet_the_next_job(told: dict[str, dict[str, Any]]) -> None:
    """The failure names the limit; the process is mended or replaced, with a word, and the next job runs."""
    assert "RLIMIT_FSIZE of this process is 1000" in told["limit"]["told"]
    assert "user code has set limits of this Python worker (RLIMIT_FSIZE is 1000" in told[""]["printed"]
    assert (told["none"]["told"], told["none"]["records"]) == ("", 4)
