"""Two checkouts compared: the interval of the median ratio, and what is run against which package."""

from __future__ import annotations

import ast
import importlib.util
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import data, pair
from bench.machine import ROOT
from bench.measure import Run, run


def test_the_interval_holds_the_median_of_most_samples() -> None:
    """Of 2,000 samples of skewed noise at least 95 % have the true median in their interval."""
    chance = random.Random(7)
    held = 0
    for _ in range(2_000):
        # Half of the noise lies below 1 and half above, the upper half ten times as far out.
        sample = [1 + (1 if chance.random() < 0.5 else -0.1) * chance.random() for _ in range(25)]
        found = pair.interval(sample)
        held += found.low <= 1 <= found.high
    assert 0.95 <= held / 2_000 <= 0.99


def test_the_interval_narrows_with_more_pairs() -> None:
    """Four times the pairs give about half the width."""
    chance = random.Random(3)
    sample = [chance.gauss(1, 0.05) for _ in range(100)]
    few, many = pair.interval(sample[:25]), pair.interval(sample)
    assert many.width < 0.75 * few.width
    assert many.low <= many.middle <= many.high


def test_a_folder_without_the_package_is_refused(tmp_path: Path) -> None:
    """Whoever names a wrong folder must not compare a package with itself."""
    with pytest.raises(SystemExit, match="is no checkout of Headgate"):
        pair.check_package(tmp_path, ROOT)


def test_the_table_holds_the_limit_against_the_upper_end() -> None:
    """A median within the limit is not enough."""
    row = {"job": "J2", "pairs": 20, "old": 1.0, "new": 1.01, "failed": []}
    row |= {"median": 1.01, "low": 0.99, "high": 1.04}
    assert "| no (1.03) |" in pair.table([{**row, "limit": 0.03}], "a", "b")
    assert "| yes (1.05) |" in pair.table([{**row, "limit": 0.05}], "a", "b")


def test_events_may_cost_less_more_than_what_happens_seldom() -> None:
    """The limits of J0, J2, codec and loop, and those of checkpoints, recovery and start-up."""
    limits = {name: job.limit for name, job in pair.JOBS.items()}
    assert limits == {
        "j0": 0.03, "j2": 0.03, "wire": 0.03, "loop": 0.01, "checkpoints": 0.1, "recovery": 0.1,
        "start-up": 0.1, "start-up-cpu": 0.1,
    }  # fmt: skip


def test_no_fewer_pairs_end_a_measurement_than_an_interval_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One ratio alone has no width, and that is no narrow interval."""
    monkeypatch.setattr(pair, "_run_once", lambda *_: Run("wire", result={"workers_cpu_us": 1.0}))
    asked = pair.arguments(["old", "new", "--least", "1", "--most", "9"])
    (row,) = pair.measure(pair.JOBS["wire"], Path("old"), Path("new"), asked, lambda _: None)
    assert (row["pairs"], row["low"], row["high"]) == (6, 1.0, 1.0)


def test_every_job_is_a_module_with_its_arguments() -> None:
    """Each gets the folder of the bids and their number, and names a module that is there."""
    for job in pair.JOBS.values():
        switch, module, *rest = job.arguments("bids", 7)
        assert switch == "-m"
        assert importlib.util.find_spec(module) is not None
        assert "bids" in rest or not job.needs_bids


@pytest.mark.timeout(700)
@pytest.mark.proof
def test_the_wire_job_runs_against_another_checkout(tmp_path: Path) -> None:
    """The command runs pairs, prints the table and keeps it."""
    kept = tmp_path / "pair.md"
    command = [sys.executable, "-m", "bench", "pair", str(ROOT), str(ROOT), "--job", "wire"]
    command += ["--least", "6", "--most", "6", "--events", "60000", "--limit", "9", "--table", str(kept)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows through an exchange's codec: workers' CPU us per event | 6 |" in kept.read_text()
    assert kept.read_text() in done.stdout


def ran(module: str, *arguments: str) -> dict[str, Any]:
    """What one run of a job file says."""
    command = [sys.executable, "-m", f"bench.jobs.{module}", *arguments]
    done = run(module, command, 600, pair.variables(ROOT, ROOT))
    assert done.failure is None, done.failure
    assert done.result["failures"] == []
    return done.result


@pytest.mark.timeout(700)
@pytest.mark.ci
def test_checkpoints_of_a_resting_job_are_timed() -> None:
    """Each is complete, and costs time and CPU time."""
    found = ran("checkpoint_time", "--keys", "200", "--checkpoints", "3")
    assert found["answer"] == {"keys": 200, "completed": 4}
    assert found["checkpoint_ms"] > 0
    assert found["checkpoint_cpu_ms"] > 0


@pytest.mark.timeout(700)
@pytest.mark.proof
def test_recoveries_from_killed_workers_are_timed() -> None:
    """Each kill is one restart."""
    found = ran("recovery_time", "--keys", "200", "--kills", "2")
    assert found["answer"] == {"restarts": 2}
    assert len(found["recoveries_s"]) == 2
    assert found["recovery_s"] > 0
    assert found["recovery_cpu_s"] > 0


@pytest.mark.timeout(700)
@pytest.mark.proof
@pytest.mark.spark
def test_starts_of_a_local_job_are_timed() -> None:
    """By itself and by the command; both count from the start of the interpreter to the first record."""
    found = ran("start_up")
    assert found["script_s"] > 0
    assert found["command_s"] > 0


@pytest.mark.timeout(700)
@pytest.mark.ci
@pytest.mark.spark
def test_bids_are_read_and_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are read, and none is looked at."""
    monkeypatch.setenv("HEADGATE_BENCH_CACHE", str(tmp_path))
    found = ran("read_only", str(data.data_set(2_000, (pair.LAYOUT,)).layout(pair.LAYOUT)))
    assert found["answer"] == {"records": 2_000, "total": 0, "highest": 0}
    assert found["workers_cpu_us"] >= 0  # the clocks of processes are coarse


STAYING = {
    "headgate", "headgate.testing", "headgate.api.sink", "headgate.api.source", "headgate.common.errors",
    "headgate.connectors.committed", "headgate.connectors.files", "headgate.connectors.generator",
    "headgate.deploy.spark.executor", "headgate.records.row_batch",
}  # fmt: skip
"""Modules that older packages have under the same names."""


def test_jobs_import_what_older_packages_have_too() -> None:
    """Job files of the newer checkout run against the older package, so they name no moved module."""
    files = {f"bench/jobs/{job.arguments('x', 1)[1].rpartition('.')[2]}.py" for job in pair.JOBS.values()}
    for file in [*sorted(files), "bench/jobs/support.py"]:
        tree = ast.parse((ROOT / file).read_text())
        named = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
        assert {name for name in named if name.startswith("headgate")} <= STAYING, file
