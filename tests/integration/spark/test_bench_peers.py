"""`python -m bench peers`: real runs of Headgate and of the peers whose environments are on this machine.

Nothing is installed here: a peer that is absent is skipped, and so says its cell.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the answers are DuckDB's")

from bench.cache import cache_folder
from bench.compare.systems import BYTEWAX, FLINK, PATHWAY, SPARK, System
from bench.machine import ROOT, import_path
from bench.peers.environments import AbsentError

EVENTS = 20_000
LIMIT_S = 500

pytestmark = [pytest.mark.ci, pytest.mark.spark, pytest.mark.timeout(LIMIT_S + 60)]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data of the test's own, and the machine's environments of peers."""
    environments = cache_folder() / "peers"
    environments.mkdir(exist_ok=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "peers").symlink_to(environments)
    monkeypatch.setenv("HEADGATE_BENCH_CACHE", str(tmp_path / "cache"))


def record(folder: Path, *words: str) -> dict[str, Any]:
    """The record of a short run, whose exit code was 0."""
    command = [sys.executable, "-m", "bench", "peers", "--smoke", "--events", str(EVENTS), *words]
    files = ["--json", str(folder / "record.json"), "--svg", str(folder / "chart.svg")]
    environment = {**os.environ, **import_path()}
    done = subprocess.run(
        [*command, *files],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=environment,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "chart.svg").is_file()
    found: dict[str, Any] = json.loads((folder / "record.json").read_text())
    return found


def test_headgate_gives_the_right_rows(cache: None, tmp_path: Path) -> None:
    """Columns, windows, and state in Python; the checksums of every column, and then every row."""
    found = record(tmp_path, "--systems", "headgate", "--queries", "q14,J2,J4")
    assert [(cell["query"], cell["status"], cell["checked"]) for cell in found["cells"]] == [
        ("q14", "measured", "all rows"),
        ("J2", "measured", "all rows"),
        ("J4", "measured", "all rows"),
    ]
    for cell in found["cells"]:
        assert cell["events"] == EVENTS * 46 // 50
        assert cell["rate"] > 0
        assert cell["cpu_us"][0] > 0
        assert cell["starts_s"][0] > 0
        assert cell["checkpoints"] >= 1
        assert cell["runs"][0]["checksums"]
        assert "headgate" in cell["versions"]
    assert found["machine"]["java"]


@pytest.mark.parametrize("system", [FLINK, SPARK, BYTEWAX, PATHWAY], ids=lambda system: system.key)
def test_a_peer_gives_the_right_rows(system: System, cache: None, tmp_path: Path) -> None:
    """Where it is installed; of Spark the closed windows count."""
    try:
        system.command(install=False)
    except AbsentError as error:
        pytest.skip(str(error))
    found = record(tmp_path, "--systems", system.key, "--queries", "J3")
    (cell,) = found["cells"]
    assert (cell["status"], cell["reason"]) == ("measured", "")
    assert cell["checked"].startswith("closed windows" if system.closed_only else "all rows")
    assert cell["versions"]
