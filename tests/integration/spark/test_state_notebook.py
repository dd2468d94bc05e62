"""The notebook about state: its cells run, and give what is stored in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from notebook_runner import stored

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOK = ROOT / "examples" / "state_analysis.ipynb"


@pytest.mark.spark
@pytest.mark.ci
@pytest.mark.timeout(900)
def test_the_notebook_gives_what_is_stored_in_it() -> None:
    """Every cell, in order, in a process of its own; the runner renews what is stored with `--write`."""
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("notebook_runner.py"), NOTEBOOK],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    expected = stored(json.loads(NOTEBOOK.read_text()))
    assert any("image/svg+xml" in output.get("data", {}) for outputs in expected for output in outputs)
    assert json.loads(done.stdout.splitlines()[-1]) == expected
