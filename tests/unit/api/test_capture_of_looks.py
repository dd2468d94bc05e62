"""The plan of a program that looks at its streams: of what it executes, or for want of that, of its look."""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate as hg
from headgate.api.jobs.plan_capture import capture

BEGINNING = """
import headgate as hg
env = hg.Environment(parallelism=1)
numbers = env.from_collection([1, 2, 3], uid="in").map(str)
"""


def sinks(folder: Path, rest: str) -> tuple[str, list[str]]:
    """Job and uids of the sinks of the captured plan."""
    program = folder / "job.py"
    program.write_text(BEGINNING + rest)
    facts = capture(program)
    return facts["job"], [node["uid"] for node in facts["logical"] if node["kind"] == "Sink"]


def test_the_plan_is_that_of_the_execution(tmp_path: Path) -> None:
    """Looks before it run nothing and leave nothing in it."""
    looks = "print(numbers.preview())\nassert numbers.take(2) == []\nnumbers.print()\nenv.execute('all')\n"
    assert sinks(tmp_path, looks) == ("all", ["print"])


def test_a_program_that_only_looks_is_shown_with_its_last_look(tmp_path: Path) -> None:
    """What it would do with the records cannot be known, so that it fails for want of them is no error."""
    assert sinks(tmp_path, "print(numbers.collect('first')[0])\n") == ("first", ["collect"])


def test_a_wrong_program_is_refused_all_the_same(tmp_path: Path) -> None:
    """A look does not hide what is wrong with the rest."""
    with pytest.raises(hg.PlanError, match="the program has no sink"):
        sinks(tmp_path, "numbers.take(1)\nenv.execute('nothing')\n")
