"""What user code does to its process: descriptors closed behind our back, limits that would meet the next."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest
from mini_jobs import RESTART_AT_ONCE, json_lines

import headgate as hg
from headgate.common.errors import HeadgateError, OperatingError
from headgate.runtime.job.listener import JobListener
from headgate.testing import ProcessCluster


class Told(JobListener):
    """Keeps notes and failures."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.failures: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        self.failures.append(str(error))


@pytest.mark.parametrize("waits", [False, pytest.param(True, marks=pytest.mark.ci)])
def test_descriptors_that_user_code_closes(waits: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """One cause, told once, and no tracebacks of network threads."""

    def close_all(record: int) -> int:
        if record == 2:
            os.closerange(3, 256)
            time.sleep(1.5 if waits else 0)
        return record

    told = Told()
    settings = {"heartbeat.interval": "100ms"}
    env = hg.Environment(parallelism=2, executor=ProcessCluster(told), config=settings)
    closing = env.from_collection(list(range(6)), uid="numbers").map(close_all, uid="closing")
    with pytest.raises(OperatingError, match=r"has closed \d+ descriptors of Headgate") as failed:
        closing.key_by(lambda n: n % 2).process(Same(), uid="same").collect()
    printed = capfd.readouterr().err
    assert "Traceback" not in printed
    assert "Bad file descriptor" not in str(failed.value)
    assert len(told.failures) == 1


class Same(hg.KeyedProcessFunction[int, int, int]):
    """Gives what it takes."""

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> list[int]:
        return [record]


def test_limits_that_user_code_sets(tmp_path: Path) -> None:
    """The failure names the limit and not the disk; the next attempt gets new workers, and is told why."""
    once = tmp_path / "once"

    def limit(record: int) -> str:
        if record == 2 and not once.exists():
            once.touch()
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        return "x" * 5000

    told = Told()
    env = hg.Environment(parallelism=1, executor=ProcessCluster(told), config=RESTART_AT_ONCE)
    env.from_collection([1, 2, 3], uid="numbers").map(limit, uid="limiting").write_json(
        tmp_path / "out", uid="out"
    )
    env.execute("limited")
    assert json_lines(tmp_path / "out") == ["x" * 5000] * 3
    (failure,) = told.failures
    assert "RLIMIT_FSIZE of this process is 1000" in failure
    assert "make room" not in failure
    (note,) = [note for note in told.notes if "limits" in note]
    assert "(RLIMIT_FSIZE is 1000 and was unlimited); starting new workers" in note
