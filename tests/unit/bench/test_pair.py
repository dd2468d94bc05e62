"""Two checkouts compared: the interval of the median ratio, and what is run against which package."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench import pair
from bench.machine import ROOT


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
    row = {"job": "J2", "pairs": 20, "old_us": 1.0, "new_us": 1.01, "failed": []}
    row |= {"median": 1.01, "low": 0.99, "high": 1.04}
    assert "| no (1.03) |" in pair.table([row], "a", "b", 0.03)
    assert "| yes (1.05) |" in pair.table([row], "a", "b", 0.05)


def test_every_job_is_a_module_with_its_arguments() -> None:
    """Each gets the folder of the bids and their number, and names a module that is there."""
    for job in pair.JOBS.values():
        switch, module, *rest = job.arguments("bids", 7)
        assert switch == "-m"
        assert importlib.util.find_spec(module) is not None
        assert rest


@pytest.mark.ci
def test_the_wire_job_runs_against_another_checkout(tmp_path: Path) -> None:
    """The command runs pairs, prints the table and keeps it."""
    kept = tmp_path / "pair.md"
    command = [sys.executable, "-m", "bench", "pair", str(ROOT), str(ROOT), "--job", "wire"]
    command += ["--least", "6", "--most", "6", "--events", "60000", "--limit", "9", "--table", str(kept)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows through an exchange's codec | 6 |" in kept.read_text()
    assert kept.read_text() in done.stdout
