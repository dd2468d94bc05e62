"""A driver that waits costs next to nothing, whatever it waits for."""

from __future__ import annotations

import sys

import pytest

from bench import pair
from bench.machine import ROOT
from bench.measure import run

SHARE_MAX = 0.01
"""Of a core."""


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_the_driver_idles_in_every_phase_of_a_jobs_life() -> None:
    """Workers that do not register, open, end or leave; a pause; a job that runs; lost peers; a fence."""
    command = [sys.executable, "-m", "bench.jobs.driver_idle", "--window", "1.5"]
    done = run("driver_idle", command, 500, pair.variables(ROOT, ROOT))
    assert done.failure is None, done.failure
    phases = done.result["phases"]
    assert {phase.partition(":")[0] for phase in phases} == {
        "starting", "deploying", "running", "recovering", "rescaling", "cancelling", "finishing", "failing",
        "fenced",
    }  # fmt: skip
    assert {phase: share for phase, share in phases.items() if share >= SHARE_MAX} == {}
