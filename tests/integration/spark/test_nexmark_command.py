"""`headgate nexmark` on local Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def nexmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, to its end."""
    command = [sys.executable, "-m", "headgate", "nexmark", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


@pytest.mark.ci
@pytest.mark.spark
def test_queries_are_run_and_compared(tmp_path: Path) -> None:
    """Two in one process; results are kept where the user says."""
    pytest.importorskip("duckdb", reason="the answers are DuckDB's")
    done = nexmark("q2", "q12", "--events", "20000", "--check", "--json", "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(each["query"], each["right"]) for each in found] == [("q2", True), ("q12", True)]
    assert all(each["rows"] > 0 for each in found)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["q12", "q2"]


def test_an_unknown_query_is_refused() -> None:
    """Before anything is generated or started."""
    done = nexmark("q99")
    assert done.returncode == 2
    assert "there is no query 'q99'; expected all, or some of q0, q1, q2" in done.stderr
