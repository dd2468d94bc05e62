"""A worker process that dies: why, at what, with how much memory and which last lines, in one message."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.common.errors import OperatingError
from headgate.deploy.spark.reasons import shortened
from headgate.runtime.job.black_box import PREFIX, Remains, remains_of
from headgate.runtime.master.attempt.deaths import death_text
from headgate.testing import ProcessCluster

AT = 2


def crash(record: int) -> int:
    """A fatal signal out of native code."""
    if record == AT:
        ctypes.string_at(0)
    return record


def leave(record: int) -> int:
    """No cleaning up, no exception."""
    if record == AT:
        print("about to leave", file=sys.stderr)
        os._exit(3)
    return record


def be_killed(record: int) -> int:
    """What nobody can catch, after a heartbeat."""
    if record == AT:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    return record


def be_terminated(record: int) -> int:
    """What somebody could have caught."""
    if record == AT:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    return record


def leave_after_a_child(record: int) -> int:
    """A child by fork dies of a fatal signal; this process goes on, and leaves later."""
    if record == AT:
        pid = os.fork()
        if pid == 0:
            ctypes.string_at(0)
        os.waitpid(pid, 0)
        os._exit(4)
    return record


CASES: list[Any] = [
    (leave, ["ended with exit code 3", "os._exit(3) was called", "in leave", "about to leave"]),
    (be_killed, ["killed by SIGKILL", "MB of memory"]),
    pytest.param(crash, ["killed by SIGSEGV", "Segmentation fault", "in crash"], marks=pytest.mark.ci),
    pytest.param(be_terminated, ["killed by SIGTERM"], marks=pytest.mark.ci),
]


def test_a_childs_death_is_no_word_of_its_parent() -> None:
    """What the handler of fatal signals writes in a child does not reach the parent's box."""
    env = hg.Environment(parallelism=1, executor=ProcessCluster(), config={"restart-strategy.type": "none"})
    with pytest.raises(OperatingError) as failed:
        env.from_collection([1, AT], uid="numbers").map(leave_after_a_child, uid="deadly").collect()
    assert "os._exit(4) was called" in str(failed.value)
    assert "Segmentation fault" not in str(failed.value)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "Fatal Python error: Segmentation fault, in\n  there",
            "died: killed by SIGSEGV; Fatal",
        ),
        ("os._exit(3) was called, in\n  there", "died; os._exit(3) was called"),
        ("", "died: killed by a signal, out of memory, or stopped by itself"),
    ],
)
def test_what_a_worker_has_said_replaces_the_guess_of_who_ran_it(words: str, told: str) -> None:
    """Spark sees that a Python worker has ended, and not why."""
    spark_said = shortened("ResultTask(4, 1) finished ... Python worker exited unexpectedly (crashed)")
    message = death_text(1, None, "its gang ended", spark_said, Remains(words=words), oom=False)
    assert message.startswith(f"the worker of slot 1 was lost: the Python worker of slot 1 {told}")
    assert ("or stopped by itself" in message) is (not words)


def boxes_of(pid: str) -> list[Path]:
    """What a process left behind; other tests' workers have theirs in the same folder."""
    return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{pid}-*"))


@pytest.mark.parametrize(("function", "told"), CASES)
def test_the_death_of_a_worker_is_explained(function: Callable[[int], int], told: list[str]) -> None:
    """By signal or exit code, the operator at work, memory and last lines; nothing is left behind."""
    settings = {"heartbeat.interval": "100ms"}
    env = hg.Environment(parallelism=1, executor=ProcessCluster(), config=settings)
    numbers = env.from_collection([1, AT, 3], uid="numbers").map(function, uid="deadly")
    with pytest.raises(OperatingError) as failed:
        numbers.collect()
    message = str(failed.value)
    for part in [
        *told,
        "the worker of slot 0 (process ",
        "it was at work for subtask 0 of ",
        "(uid 'deadly')",
    ]:
        assert part in message
    assert "control connection" not in message
    process = re.search(r"the worker of slot 0 \(process (\d+)", message)
    assert process is not None
    assert boxes_of(process[1]) == []


def test_only_boxes_are_read(tmp_path: Path) -> None:
    """What a worker names as its box is neither read nor removed where it is none."""
    for path in (tmp_path / f"{PREFIX}1-a", Path(tempfile.gettempdir()) / "headgate-other"):
        path.write_text("precious")
        try:
            assert remains_of(str(path)) is None
            assert path.read_text() == "precious"
        finally:
            path.unlink()
