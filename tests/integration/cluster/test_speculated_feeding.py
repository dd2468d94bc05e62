"""Spark runs a feeding task twice at once, on two machines: the rows of one of the two are read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from running import own_session, program

from proof.standalone import StandaloneCluster

pytestmark = [pytest.mark.ci, pytest.mark.spark, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).parent / "programs" / "speculated_feeding.py"


def test_speculative_feeder_task(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """One try stands still behind its first rows, and the other one overtakes it; no row is there twice."""
    with program([sys.executable, str(PROGRAM), str(tmp_path), cluster.url], variables=own_session()) as run:
        lines = run.ended()
    assert "rows True" in lines
    assert "attempts of task 0: [1]" in lines
    assert "one stood still: True" in lines
