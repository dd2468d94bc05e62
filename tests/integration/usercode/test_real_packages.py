"""Real packages in two and three versions in one process: what each gets, and what crosses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

pytestmark = [pytest.mark.ci, pytest.mark.timeout(900)]


def run(name: str, environments: Path, folder: Path) -> dict[str, Any]:
    """What a program of checks prints."""
    arguments = [str(ROOT / "src"), str(folder), str(environments)]
    ended = subprocess.run(
        [sys.executable, "-B", str(HERE / name), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "unit" / "usercode")},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_versions_that_conflict_side_by_side(environments: Path, tmp_path: Path) -> None:
    """attrs, requests with urllib3, six, pydantic 1 and 2, protobuf, numpy, pandas, pyarrow: each its own."""
    found = run("real_program.py", environments, tmp_path)
    assert {name: said for name, said in found.items() if said != "ok"} == {}
    assert len(found) >= 17


def test_jobs_come_and_go_over_a_layer_that_stays(environments: Path, tmp_path: Path) -> None:
    """Compiled packages are loaded once; a job's own modules are given back each time."""
    found = run("layer_program.py", environments, tmp_path)["checks"]
    assert {name: said for name, said in found.items() if said != "ok"} == {}
    assert len(found) == 5
