"""A function that does not return: the status names its operator and shows where in the code it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import environment

import headgate as hg
from headgate.api.jobs.executor_contract import JobStatus
from headgate.cli.pages.jobs_page import shown

released = threading.Event()


def spin(record: Any) -> Any:
    """Loops until it is released."""
    while not released.is_set():
        time.sleep(0)
    return record


def in_second_map(numbers: hg.DataStream[Any]) -> hg.DataStream[Any]:
    """In the middle of functions that run as one loop."""
    return numbers.map(lambda n: n + 1).map(spin, uid="spinning").filter(bool)


def in_keyed(numbers: hg.DataStream[Any]) -> hg.DataStream[Any]:
    """In a function with state."""

    class Spinning(hg.KeyedProcessFunction[Any, Any, Any]):
        seen: hg.ValueState[int] = hg.value_state(default=0)

        def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterable[Any]:
            self.seen.value += 1
            yield spin(record)

    return numbers.key_by(lambda n: 0).process(Spinning(), uid="spinning")


def in_blocking(numbers: hg.DataStream[Any]) -> hg.DataStream[Any]:
    """Beside the loop."""
    return numbers.map(hg.blocking(spin), uid="spinning")


def in_open(numbers: hg.DataStream[Any]) -> hg.DataStream[Any]:
    """Before the first record."""

    class Spinning(hg.ProcessFunction[Any, Any]):
        def open(self, context: hg.RuntimeContext) -> None:
            spin(None)

        def process(self, record: Any, ctx: Any) -> Iterable[Any]:
            yield record

    return numbers.process(Spinning(), uid="spinning")


def status_when(job: hg.JobHandle, found: Callable[[JobStatus], bool]) -> JobStatus:
    """The first status of which something is true."""
    deadline = time.monotonic() + 20
    while not found(status := job.status()):
        assert time.monotonic() < deadline, status
        time.sleep(0.05)
    return status


@pytest.mark.parametrize("place", [in_second_map, in_keyed, in_blocking, in_open])
def test_the_status_shows_a_call_that_does_not_return(
    place: Callable[[hg.DataStream[Any]], hg.DataStream[Any]],
) -> None:
    """Operator, subtask, how long, and the line of the loop; `headgate status` shows all of it."""
    released.clear()
    env = environment(1, {"heartbeat.interval": "100ms"})
    kept = place(env.from_collection([1], uid="numbers")).collect_later()
    with env.execute_async("spinning") as job:
        try:
            status = status_when(job, lambda status: bool(status.stuck))
        finally:
            released.set()
        (call,) = status.stuck
        assert "'spinning'" in call.operator
        assert (call.subtask, call.for_ms >= 1000) == (0, True)
        *_, last = call.stack.splitlines()
        assert last.startswith(f"{__file__}:")
        assert "in spin: " in last
        page = shown(status)
        assert "subtask 0: busy for " in page
        assert "without progress" in page
        assert last in page
    assert len(kept.records) == 1


def test_an_expired_checkpoint_names_operators(tmp_path: Path) -> None:
    """Who did not acknowledge is told by the operator's uid, never by a pair of numbers."""
    released.clear()
    config = {
        "execution.checkpointing.dir": str(tmp_path),
        "execution.checkpointing.interval": "50ms",
        "execution.checkpointing.timeout": "200ms",
        "execution.checkpointing.tolerable-failed-checkpoints": 1000,
    }
    env = environment(1, config)
    in_keyed(env.from_collection([1], uid="numbers")).collect_later()
    with env.execute_async("expiring") as job:
        try:
            status = status_when(job, lambda status: status.last_checkpoint_failure is not None)
        finally:
            released.set()
    assert status.last_checkpoint_failure is not None
    assert "no acknowledgement from" in status.last_checkpoint_failure
    assert "'spinning -> collect'[0]" in status.last_checkpoint_failure
    assert "(0, 0)" not in status.last_checkpoint_failure
