"""Reslicing needs no more memory for more state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WRITER = Path(__file__).with_name("large_snapshot.py")
FEW, MANY = 250_000, 1_000_000
GROWTH_MAX_MB = 40
"""The state grows by 75 MB of bytes, and by 250 MB of objects."""


def run(*arguments: object) -> str:
    """What the script printed, in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(WRITER), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.proof
@pytest.mark.parametrize(("before", "after"), [("native", "native"), ("canonical", "canonical")])
def test_the_peak_does_not_grow_with_the_state(before: str, after: str, tmp_path: Path) -> None:
    """A million keys take as much as a quarter of them; tables are compressed to a tenth here."""
    peaks = []
    for keys in (FEW, MANY):
        source, target = tmp_path / f"source-{keys}", tmp_path / f"target-{keys}"
        run("write", source, keys, before)
        entries, peak = map(int, run("reslice", source, target, 256, after).split())
        assert entries == keys
        peaks.append(peak)
    assert peaks[1] - peaks[0] < GROWTH_MAX_MB
