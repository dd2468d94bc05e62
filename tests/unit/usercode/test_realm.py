"""The realm loader in interpreters of its own: names, imports of every kind, borders, options, the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreters import VERSIONS, run_program

pytestmark = pytest.mark.timeout(240)
EACH = pytest.mark.parametrize(
    "version", [VERSIONS[0], *(pytest.param(version, marks=pytest.mark.ci) for version in VERSIONS[1:])]
)


@EACH
def test_two_jobs_and_the_framework_keep_apart(version: str, tmp_path: Path) -> None:
    """Whatever way a module is asked for, each gets its own; nothing of a job reaches the others."""
    found = run_program("realm_program.py", tmp_path, version)
    assert {name: said for name, said in found.items() if said != "ok"} == {}
    assert len(found) >= 74


@EACH
def test_the_end_of_a_realm(version: str, tmp_path: Path) -> None:
    """What is released, what refuses, and who is named as the holder of the rest."""
    found = run_program("closing_program.py", tmp_path, version)
    assert {name: said for name, said in found.items() if said != "ok"} == {}
    assert len(found) >= 25
