"""Jobs with blocking functions: what is beside them goes on, and nothing else about a job changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, Halting, environment, running_counts

import headgate as hg
from headgate.runtime.job.listener import JobListener
from headgate.runtime.worker import worker
from headgate.testing import MiniCluster, simulate
from sim.store import EventSource

WAIT_S = 30
"""How long somebody waits for what happens at once, unless the loop stands still."""


class Story(JobListener):
    """What happened to a job, for its own functions to see: workers are threads of this process."""

    now: ClassVar[Story]

    def __init__(self) -> None:
        Story.now = self
        self.checkpoints = self.gangs = 0
        self.failed_once, self.fast_done = threading.Event(), threading.Event()

    def gang_submitted(self, gang: int, slots: int) -> None:
        self.gangs += 1

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        self.checkpoints += 1

    def failed(self, attempt: int, error: hg.HeadgateError, restart_in_ms: int | None) -> None:
        self.failed_once.set()


def watched(parallelism: int, config: dict[str, Any], folder: Path, every: str = "20ms") -> hg.Environment:
    """An environment with checkpoints, whose job tells its story."""
    env = hg.Environment(parallelism=parallelism, executor=MiniCluster(Story()), config=config)
    return env.checkpoints(every=every, storage=folder.as_uri())


@hg.blocking
def answer_when_the_others_are_done(n: int) -> int:
    """Waits for the job's other records, which pass through the same worker."""
    assert Story.now.fast_done.wait(WAIT_S), "the loop stood still"
    return -n


def note_the_last(n: int) -> int:
    """Tells when all of the fast records have come through."""
    if n == 4_999:
        Story.now.fast_done.set()
    return n


def test_others_go_on_while_a_function_waits(tmp_path: Path) -> None:
    """One worker, one loop: a call that waits until all others are done does come to its end."""
    env = watched(1, {}, tmp_path)
    slow = env.from_collection([1, 2, 3], uid="slow").map(answer_when_the_others_are_done)
    fast = env.from_collection(range(5_000), uid="fast").rebalance().map(note_the_last)
    slow_out, fast_out = slow.collect_later("slow-out"), fast.collect_later("fast-out")
    env.execute("beside")
    assert (slow_out.records, fast_out.records) == ([-1, -2, -3], list(range(5_000)))


@hg.blocking
def note_checkpoints(n: int) -> int:
    """Slow; says how many checkpoints had completed."""
    time.sleep(0.05)
    return Story.now.checkpoints


def test_checkpoints_complete_while_slow_records_wait(tmp_path: Path) -> None:
    """A barrier that overtakes waits for one call only, however many records wait for theirs."""
    env = watched(1, {"execution.checkpointing.unaligned.enabled": True}, tmp_path)
    seen = env.from_collection(range(20), uid="in").map(note_checkpoints).collect_later("out")
    env.execute("overtaken")
    assert len(seen.records) == 20
    assert seen.records == sorted(seen.records)
    assert seen.records[-1] >= seen.records[0] + 3


@hg.blocking
def ask(pair: tuple[str, int]) -> tuple[str, int]:
    """A short wait."""
    time.sleep(0.001)
    return pair


@hg.blocking
class SlowCount(Count):
    """A running count per key that waits, and tells by a timer when a key was quiet."""

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        time.sleep(0.0005)
        ctx.timers.register_event_time(record[1] + 1_000_000)
        yield from super().process(record, ctx)

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[Any]) -> Iterator[Any]:
        yield ctx.key, -self.count.value


@pytest.mark.parametrize("unaligned", [False, True])
def test_restarts_are_exact(tmp_path: Path, unaligned: bool, request: Any) -> None:
    """State, timers and output of blocking functions go on from the checkpoint like those of others."""
    records = [(f"k{n % 5}", n) for n in range(120)]
    config = {**TINY, **RESTART_AT_ONCE, "execution.checkpointing.unaligned.enabled": unaligned}
    env = watched(2, config, tmp_path)
    source = Halting(hash(request.node.name), 40, records[:60], records[60:])
    counts = (
        env.from_source(source, uid="in")
        .with_event_time(lambda pair: pair[1], out_of_orderness=1_000)
        .map(ask)
        .key_by(lambda pair: pair[0])
        .process(SlowCount(), uid="counts")
        .collect_later("out")
    )
    result = env.execute("exact")
    assert result.restarts >= 1
    quiet = [(f"k{n % 5}", -24) for n in range(120)]
    assert sorted(counts.records) == sorted([*running_counts(key for key, _ in records), *quiet])


class Once:
    """What happens in the first attempt only."""

    calls: ClassVar[int] = 0
    inside: ClassVar[threading.Event]
    leave: ClassVar[threading.Event]


@hg.blocking
def linger(n: int) -> int:
    """In the first attempt it is inside when the other pipeline fails, and stays until it is let out."""
    Once.calls += 1
    if Once.calls == 1:
        Once.inside.set()
        assert Once.leave.wait(WAIT_S)
    return n


@hg.blocking
def fail_once(n: int) -> int:
    """Raises while the other function is inside."""
    if not Story.now.failed_once.is_set():
        assert Once.inside.wait(WAIT_S)
        raise RuntimeError("the other pipeline fails")
    return n


class LettingOut(Story):
    """Lets the function that lingers return as soon as the failure is known."""

    def failed(self, attempt: int, error: hg.HeadgateError, restart_in_ms: int | None) -> None:
        super().failed(attempt, error, restart_in_ms)
        Once.leave.set()


@pytest.mark.parametrize("returns", [True, False])
def test_a_call_that_outlives_its_attempt(returns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it returns in time the workers are used again, otherwise replaced; its result is nobody's."""
    Once.calls, Once.inside, Once.leave = 0, threading.Event(), threading.Event()
    monkeypatch.setattr(worker, "LEAVING_MS", 20_000 if returns else 50)
    story = LettingOut() if returns else Story()
    env = hg.Environment(
        parallelism=1,
        executor=MiniCluster(story),
        config={**RESTART_AT_ONCE, "headgate.spark.redeploy-timeout": "20s"},
    )
    slow = env.from_collection([1, 2, 3], uid="slow").map(linger).collect_later("slow-out")
    fast = env.from_collection([4], uid="fast").rebalance().map(fail_once).collect_later("fast-out")
    try:
        env.execute("outlived")
    finally:
        Once.leave.set()
    assert (slow.records, fast.records) == ([1, 2, 3], [4])
    assert story.gangs == (1 if returns else 2)


@hg.blocking
def fail_for_two(n: int) -> int:
    """Raises for one record."""
    if n == 2:
        raise ValueError("no answer")
    return n


def test_a_failure_names_operator_and_record() -> None:
    """An exception beside the loop is shown like any other."""
    env = environment(1, {"restart-strategy.type": "none"})
    with pytest.raises(hg.UserFunctionError) as caught:
        env.from_collection([1, 2, 3]).map(fail_for_two, uid="asking").collect()
    assert (caught.value.operator, caught.value.record) == ("operator 'map' (uid 'asking')", "2")
    assert "in fail_for_two" in caught.value.traceback_text


@pytest.mark.parametrize("unaligned", [False, pytest.param(True, marks=pytest.mark.ci)])
def test_blocking_functions_under_faults(unaligned: bool) -> None:
    """In the simulator, with kills, pauses, cuts and slow disks: exactly once, whenever calls return."""

    @hg.blocking
    def square(n: int) -> int:
        return n * n

    def build(env: hg.Environment) -> None:
        squares = env.from_source(EventSource(range(80), 7), uid="numbers").map(square).rebalance()
        timed = squares.with_event_time(lambda n: n, out_of_orderness=10_000)
        timed.key_by(lambda n: n % 7).process(Quiet(), uid="counts").collect_later(uid="out")

    report = simulate(build, seeds=range(8), config={"execution.checkpointing.unaligned.enabled": unaligned})
    assert report.faults > 0
    assert report.restarts > 0
    assert report.checkpoints > 0


@hg.blocking
class Quiet(hg.KeyedProcessFunction[int, int, tuple[int, int, int]]):
    """The sum per key, told by a timer at the end of event time, and once per record without order."""

    total: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[tuple[int, int, int]]:
        self.total.value += record
        ctx.timers.register_event_time(1_000_000)
        yield ctx.key, record, 0

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[int]) -> Iterator[tuple[int, int, int]]:
        yield ctx.key, self.total.value, timestamp
