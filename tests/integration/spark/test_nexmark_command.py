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
    """Three in one process; results are kept where the user says, also in folders by day and minute."""
    pytest.importorskip("duckdb", reason="the answers are DuckDB's")
    queries, out = ["q2", "q10", "q12"], tmp_path / "out"
    done = nexmark(*queries, "--events", "20000", "--check", "--json", "--output", str(out))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(each["query"], each["right"]) for each in found] == [(query, True) for query in queries]
    assert all(each["rows"] > 0 for each in found)
    assert sorted(path.name for path in out.iterdir()) == ["q10", "q12", "q2"]
    assert (out / "q10" / "dt=2015-07-15" / "hm=00%3A00").is_dir()


def test_an_unknown_query_is_refused() -> None:
    """Before anything is generated or started."""
    done = nexmark("q99")
    assert done.returncode == 2
    assert "there is no query 'q99'; expected all, or some of q0, q1, q2" in done.stderr
