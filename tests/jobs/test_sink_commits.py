"""Output of two-phase sinks is exact, wherever the driver is struck while it commits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from committing_jobs import ALL, DIED, PLACES, WORDS, Dribbling, Strike, committing_job
from mini_jobs import json_lines, running_counts

HERE = Path(__file__).parent


def published(folder: Path) -> list[tuple[Any, ...]]:
    """What the sink has committed."""
    return sorted(tuple(line) for line in json_lines(folder / "out"))


@pytest.mark.parametrize("place", PLACES)
def test_a_commit_that_failed_is_repeated_by_the_restart(tmp_path: Path, place: str) -> None:
    """The driver lives: it restarts the job, which begins with the commit."""
    Strike.arm(place, kills=False)
    result = committing_job(tmp_path, Dribbling(4300 + PLACES.index(place), 5, *WORDS)).execute("words")
    assert (Strike.done, result.restarts) == (True, 1)
    assert published(tmp_path) == running_counts(ALL)
    assert [*tmp_path.glob("out/_pending/*/*")] == []


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=[pytest.mark.ci] if number != 1 else [])
        for number, place in enumerate(PLACES)
    ],
)
def test_a_commit_of_a_driver_that_died_is_repeated_by_the_next(tmp_path: Path, place: str) -> None:
    """The process is gone in the middle; another job goes on from the last entry of its log."""
    path = os.pathsep.join([str(HERE), *sys.path])
    program = [sys.executable, str(HERE / "committing_jobs.py"), str(tmp_path), place]
    died = subprocess.run(program, env={**os.environ, "PYTHONPATH": path}, timeout=60, check=False)
    assert died.returncode == DIED
    before = published(tmp_path)
    (job,) = [folder for folder in (tmp_path / "checkpoints").iterdir() if not folder.name.startswith(".")]
    Strike.arm("", kills=False)
    env = committing_job(tmp_path, Dribbling(4310 + PLACES.index(place), 5, *WORDS))
    env.execute("words", restore_from=str(job))
    assert 0 < len(before) < len(ALL)
    assert published(tmp_path) == running_counts(ALL)
