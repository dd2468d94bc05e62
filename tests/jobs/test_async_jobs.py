"""Jobs with asynchronous functions: order, exactly-once, failures, time, and other parallelism."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, Halting, environment, json_lines, running_counts
from running_jobs import Valve, wait_until

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint

NAMES = itertools.count(224_000)
"""Of sources that crash once, or have a valve, in the life of this process."""
UNALIGNED = "execution.checkpointing.unaligned.enabled"
NO_RESTART = {"restart-strategy.type": "none"}


async def doubled(n: int) -> int:
    """An answer after a random while."""
    await asyncio.sleep(random.random() * 0.004)
    return 2 * n


def loops_alive() -> list[str]:
    """The threads of event loops in this process."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("headgate-async-")]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_results_leave_in_order(parallelism: int) -> None:
    """However long each answer takes; of several subtasks each keeps its own order."""
    env = environment(parallelism, TINY)
    numbers = env.from_source(Halting(next(NAMES), 10_000, *[list(range(300))] * parallelism))
    results = numbers.map_async(doubled, capacity=20).collect()
    assert sorted(results) == sorted([2 * n for n in range(300)] * parallelism)
    if parallelism == 1:
        assert results == [2 * n for n in range(300)]


class InFlight:
    """How many calls run at a time."""

    now: ClassVar[int] = 0
    most: ClassVar[int] = 0


async def counting(n: int) -> int:
    """Notes the greatest number of calls at a time."""
    InFlight.now += 1
    InFlight.most = max(InFlight.most, InFlight.now)
    await asyncio.sleep(0.001)
    InFlight.now -= 1
    return n


@pytest.mark.parametrize("capacity", [1, 7])
def test_so_many_calls_run_at_once(capacity: int) -> None:
    """As the capacity says, and not one more."""
    InFlight.now = InFlight.most = 0
    assert environment(1).from_collection(range(60)).map_async(counting, capacity=capacity).collect()
    assert InFlight.most == capacity


async def slow_first(n: int) -> int:
    """The first of ten takes longest."""
    await asyncio.sleep(0.05 if n % 10 == 0 else 0.001)
    return n


def test_results_may_leave_as_they_come() -> None:
    """A slow answer does not hold others up; without order all are there."""
    results = environment(1).from_collection(range(40)).map_async(slow_first, ordered=False).collect()
    assert sorted(results) == list(range(40))
    assert results[:3] == [1, 2, 3]


async def three(n: int) -> list[str] | None:
    """No, or some outputs."""
    await asyncio.sleep(0)
    return None if n % 2 else [f"{n}a", f"{n}b"]


def test_an_answer_may_be_many_outputs() -> None:
    """Or none."""
    assert environment(1).from_collection(range(4)).flat_map_async(three).collect() == [
        "0a",
        "0b",
        "2a",
        "2b",
    ]


class Session(hg.AsyncFunction[int, int]):
    """Notes what happens to it, and in which thread."""

    story: ClassVar[list[str]] = []
    threads: ClassVar[set[int]] = set()

    async def open(self, context: hg.RuntimeContext) -> None:
        await asyncio.sleep(0)
        self.open_for = context.subtask
        self._note("open")

    async def call(self, record: int) -> int:
        await asyncio.sleep(0.001)
        if record == 7:
            raise ValueError("no answer for seven")
        Session.threads.add(threading.get_ident())
        return record + self.open_for

    async def close(self) -> None:
        await asyncio.sleep(0)
        self._note("close")

    def _note(self, what: str) -> None:
        Session.threads.add(threading.get_ident())
        Session.story.append(what)


def test_a_session_is_opened_and_closed_in_one_thread() -> None:
    """Once for a subtask, and after the last call; nothing is left."""
    Session.story, Session.threads = [], set()
    assert environment(1).from_collection(range(5)).map_async(Session()).collect() == list(range(5))
    assert Session.story == ["open", "close"]
    assert len(Session.threads) == 1
    assert threading.get_ident() not in Session.threads
    assert loops_alive() == []


def test_a_failure_names_record_and_line() -> None:
    """As that of any other function; the session is closed, and its thread ends."""
    Session.story = []
    env = environment(1, NO_RESTART)
    with pytest.raises(hg.UserFunctionError) as caught:
        env.from_collection(range(50)).map_async(Session(), uid="asking").collect()
    assert (caught.value.operator, caught.value.record) == ("operator 'map_async' (uid 'asking')", "7")
    assert "in call" in caught.value.traceback_text
    assert "test_async_jobs.py" in str(caught.value)
    assert Session.story == ["open", "close"]
    wait_until(lambda: not loops_alive(), "the end of the thread")


async def never(n: int) -> int:
    """No answer for one of the records."""
    if n == 3:
        await asyncio.sleep(1_000)
    return n


def test_a_call_without_an_answer_fails_the_job() -> None:
    """The message names record, time and line."""
    env = environment(1, NO_RESTART)
    with pytest.raises(hg.UserFunctionError, match="no answer within 50ms") as caught:
        env.from_collection(range(10)).map_async(never, timeout="50ms").collect()
    assert caught.value.record == "3"
    assert "test_async_jobs.py" in str(caught.value)


def test_something_may_stand_for_an_answer_that_does_not_come() -> None:
    """What the program gives, at the place of the record."""
    env = environment(1, NO_RESTART)
    results = (
        env.from_collection(range(6)).map_async(never, timeout="50ms", on_timeout=lambda n: -n).collect()
    )
    assert results == [0, 1, 2, -3, 4, 5]


class Patient(hg.AsyncFunction[int, int]):
    """Answers at the third attempt, and only to some."""

    tries: ClassVar[dict[int, list[float]]] = {}

    async def call(self, record: int) -> int:
        tries = Patient.tries.setdefault(record, [])
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise ConnectionError("try again")
        if record == 5:
            await asyncio.sleep(1_000)
        return record

    async def on_timeout(self, record: int) -> int:
        return -record


def test_calls_are_repeated() -> None:
    """With growing pauses; the timeout counts all attempts together."""
    Patient.tries = {}
    again = hg.retry(attempts=3, delay="10ms", factor=3, on=ConnectionError)
    numbers = environment(1, NO_RESTART).from_collection(range(8))
    assert numbers.map_async(Patient(), retry=again, timeout="300ms").collect() == [0, 1, 2, 3, 4, -5, 6, 7]
    for first, second, third in Patient.tries.values():
        assert second - first >= 0.009
        assert third - second >= 0.029


def test_errors_that_are_not_named_are_not_repeated() -> None:
    """And the last attempt's error is the job's."""
    for wanted, again in (1, hg.retry(5, "1ms", on=KeyError)), (2, hg.retry(2, "1ms")):
        Patient.tries = {}
        with pytest.raises(hg.UserFunctionError, match="try again"):
            environment(1, NO_RESTART).from_collection([4]).map_async(Patient(), retry=again).collect()
        assert len(Patient.tries[4]) == wanted


async def counted(n: int) -> int:
    """How often it was asked for."""
    tries = Patient.tries.setdefault(n, [])
    tries.append(0.0)
    return len(tries)


def test_a_wrong_answer_is_asked_for_once_more() -> None:
    """As long as there are attempts; the last answer is taken as it is."""
    for attempts, results in (5, [3, 3]), (2, [2, 2]):
        Patient.tries = {}
        again = hg.retry(attempts, "1ms", if_result=lambda answer: answer < 3)
        assert environment(1).from_collection([1, 2]).map_async(counted, retry=again).collect() == results


class Recalled:
    """How often each record was called for."""

    calls: ClassVar[list[int]] = []


async def recorded(record: dict[str, Any]) -> dict[str, Any]:
    """Changes its record, waits, and answers."""
    Recalled.calls.append(record["n"])
    n = record.pop("n")
    await asyncio.sleep(random.random() * 0.04)
    return {"n": n, "twice": 2 * n}


@pytest.mark.parametrize("unaligned", [False, True], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_restarts_are_exact(tmp_path: Path, ordered: bool, unaligned: bool) -> None:
    """The records in flight at the barrier are called for again; each has one result in the output."""
    Recalled.calls = []
    splits = [[{"n": n} for n in range(start, start + 400)] for start in (0, 400)]
    env = environment(2, {**TINY, **RESTART_AT_ONCE, UNALIGNED: unaligned})
    env.checkpoints(every="5ms", storage=str(tmp_path / "checkpoints"))
    source = env.from_source(Halting(next(NAMES), 170, *splits), uid="in")
    results = source.map_async(recorded, uid="asked", capacity=30, ordered=ordered)
    results.write_json(str(tmp_path / "out"), uid="out")
    assert env.execute("exact").restarts >= 1
    out = json_lines(tmp_path / "out")
    assert sorted(line["n"] for line in out) == list(range(800))
    assert all(line["twice"] == 2 * line["n"] for line in out)


class Gate:
    """Calls wait for it."""

    open: ClassVar[bool] = False


async def gated(n: int) -> int:
    """Waits until the test says so."""
    while not Gate.open:
        await asyncio.sleep(0.002)
    return await counting(n)


@dataclass
class Bid:
    """A record with a declared type."""

    n: int
    note: str | None = None


def as_bid(n: int) -> Bid:
    """Says what it makes."""
    return Bid(n)


KINDS: dict[str, Any] = {
    "numbers": lambda n: n,
    "records": as_bid,
    "rows": lambda n: hg.Row.of(n=n, note=None),
    "dicts": lambda n: {"n": n},
}


async def number_of(record: Any) -> int:
    """Of any kind of record."""
    assert isinstance(record, (int, Bid, hg.Row, dict))
    n: int = record if isinstance(record, int) else record.n if isinstance(record, Bid) else record["n"]
    return await gated(n)


def job_behind_a_gate(
    folder: Path, valve: Valve, parallelism: int, capacity: int, kind: str
) -> hg.Environment:
    """Records of a kind, of which those in flight wait for the gate."""
    env = environment(parallelism, NO_RESTART)
    env.checkpoints(every="1h", storage=str(folder / "checkpoints"))
    records = env.from_source(valve, uid="in").map(KINDS[kind])
    asked = records.map_async(number_of, uid="asked", capacity=capacity, timeout=None)
    asked.map(lambda n: {"n": n}).write_json(str(folder / "out"), uid="out")
    return env


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_what_is_in_flight_is_in_the_savepoint(tmp_path: Path, parallelism: int, kind: str) -> None:
    """In order, with names and types; at another parallelism all of it is called for again, and no more at a
    time than fit in.
    """
    Gate.open = False
    valve = Valve(next(NAMES), 10, range(30), range(30, 60))
    with job_behind_a_gate(tmp_path, valve, 2, 25, kind).execute_async("first") as handle:
        wait_until(lambda: handle.done or _asked(handle) == 20, "the valve's records are asked for")
        uri = handle.stop(str(tmp_path / "savepoints"))
        handle.result()
    _, cut = open_checkpoint(uri)
    held = [state for subtask in cut.operators["asked"] for state in subtask.operator_state]
    assert [(state.name, state.mode, state.count) for state in held] == [("in_flight", "split", 10)] * 2
    assert json_lines(tmp_path / "out") == []
    Gate.open, InFlight.most = True, 0
    valve.open_to()
    job_behind_a_gate(tmp_path, valve, parallelism, 4, kind).execute("second", restore_from=uri)
    assert InFlight.most <= 4 * parallelism
    assert sorted(line["n"] for line in json_lines(tmp_path / "out")) == list(range(60))


def later_bid() -> Any:
    """The class as a later version of the program has it: one field more, and one less."""

    @dataclass
    class Bid:
        n: int
        more: int = 5

    Bid.__qualname__ = "Bid"

    def made(n: int) -> Bid:
        return Bid(n)

    made.__annotations__["return"] = Bid
    return made


def test_records_in_flight_change_their_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As other state does: a call gets a record of the class that the program has now."""
    Gate.open = False
    valve = Valve(next(NAMES), 10, range(30))
    with job_behind_a_gate(tmp_path, valve, 1, 25, "records").execute_async("first") as handle:
        wait_until(lambda: handle.done or _asked(handle) == 10, "the valve's records are asked for")
        uri = handle.stop(str(tmp_path / "savepoints"))
        handle.result()
    monkeypatch.setitem(KINDS, "records", later_bid())
    Gate.open = True
    valve.open_to()
    env = environment(1, NO_RESTART)
    records = env.from_source(valve, uid="in").map(KINDS["records"])

    async def more(bid: Any) -> dict[str, int]:
        return {"n": bid.n, "more": bid.more}

    records.map_async(more, uid="asked").write_json(str(tmp_path / "out"), uid="out")
    env.execute("second", restore_from=uri)
    out = json_lines(tmp_path / "out")
    assert sorted(line["n"] for line in out) == list(range(30))
    assert {line["more"] for line in out} == {5}


def test_records_of_a_class_that_nobody_declares_are_refused() -> None:
    """At the first of them, not at some checkpoint; the message says what to annotate."""
    env = environment(1, NO_RESTART)
    with pytest.raises(
        hg.UsageError, match=r"while a record is called for, is to keep a Bid.* to return Bid"
    ):
        env.from_collection([1, 2]).map(lambda n: Bid(n)).map_async(number_of, uid="asked").collect()


def _asked(handle: Any) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if "asked" in vertex.uids)


async def pair(record: tuple[str, int]) -> tuple[str, int]:
    """An answer after a random while."""
    await asyncio.sleep(random.random() * 0.003)
    return record


class Late(hg.KeyedProcessFunction[str, tuple[str, int], tuple[str, int]]):
    """Counts records, and those that a watermark has overtaken."""

    late: ClassVar[list[Any]] = []
    fired: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: tuple[str, int], ctx: hg.KeyedContext[str]) -> Iterator[tuple[str, int]]:
        if ctx.timestamp <= ctx.timers.current_watermark:
            Late.late.append((record, ctx.timestamp, ctx.timers.current_watermark))
        ctx.timers.register_event_time(ctx.timestamp)
        return iter(())

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[str]) -> Iterator[tuple[str, int]]:
        yield ctx.key, timestamp


@pytest.mark.parametrize("ordered", [True, False])
def test_no_watermark_overtakes_a_record(ordered: bool) -> None:
    """No record becomes late by its call; all timers fire, the last at the end of the input."""
    Late.late = []
    records = [(f"k{n % 5}", n) for n in range(400)]
    env = environment(2, TINY)
    timed = env.from_source(Halting(next(NAMES), 10_000, records)).with_event_time(
        lambda record: record[1], out_of_orderness=3
    )
    asked = timed.map_async(pair, ordered=ordered, capacity=15)
    assert sorted(asked.key_by(lambda record: record[0]).process(Late()).collect()) == sorted(records)
    assert Late.late == []


def test_a_job_with_state_after_it_is_exact(tmp_path: Path) -> None:
    """Behind an exchange, with restarts."""
    records = [(f"k{n % 5}", n) for n in range(300)]
    env = environment(2, {**TINY, **RESTART_AT_ONCE})
    env.checkpoints(every="5ms", storage=str(tmp_path / "checkpoints"))
    source = env.from_source(Halting(next(NAMES), 90, records[:150], records[150:]), uid="in")
    asked = source.map_async(pair, uid="asked")
    counts = asked.key_by(lambda record: record[0]).process(Count(), uid="counts").collect_later("out")
    assert env.execute("counted").restarts >= 1
    assert sorted(counts.records) == running_counts(key for key, _ in records)
