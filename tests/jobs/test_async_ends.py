"""How jobs with asynchronous functions end: in order, with marks, by a drain, by kill -9, and with a call
that keeps its thread.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, environment, json_lines, running_counts
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.sink import Sink, SinkWriter, SinkWriterContext
from headgate.api.tables.updating import folded
from headgate.testing import MiniCluster, ProcessCluster, simulate
from sim.store import EventSource

NAMES = itertools.count(225_000)


async def slow(record: tuple[str, int]) -> tuple[str, int]:
    """Longer than anything else of the job."""
    await asyncio.sleep(0.15)
    return record


@pytest.mark.parametrize("ordered", [True, False])
def test_the_end_waits_for_all_in_flight(tmp_path: Path, ordered: bool) -> None:
    """Event time ends after the last result, and the last checkpoint comes after that."""
    records = [(f"k{n % 3}", n) for n in range(40)]
    env = environment(2, TINY)
    env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
    asked = env.from_collection(records, uid="in").map_async(slow, uid="asked", ordered=ordered)
    counts = asked.key_by(lambda record: record[0]).process(Count(), uid="counts").collect_later("out")
    env.execute("ends")
    assert sorted(counts.records) == running_counts(key for key, _ in records)


class Times(hg.KeyedProcessFunction[str, tuple[str, int], dict[str, Any]]):
    """Tells at the end of event time what it has got."""

    sum: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: tuple[str, int], ctx: hg.KeyedContext[str]) -> Iterator[dict[str, Any]]:
        self.sum.value += record[1]
        ctx.timers.register_event_time(1_000_000)
        return iter(())

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[str]) -> Iterator[dict[str, Any]]:
        yield {"key": ctx.key, "sum": self.sum.value}


def test_a_drain_waits_for_all_in_flight(tmp_path: Path) -> None:
    """A savepoint that ends event time: nothing is left to ask for, and timers see all results."""
    records = [(f"k{n % 3}", n) for n in range(60)]
    valve = Valve(next(NAMES), 30, records)
    env = environment(2, TINY)
    env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
    timed = env.from_source(valve, uid="in").with_event_time(lambda record: record[1])
    asked = timed.map_async(slow, uid="asked", capacity=7)
    sums = asked.key_by(lambda record: record[0]).process(Times(), uid="sums")
    sums.write_json(str(tmp_path / "out"), uid="out")
    with env.execute_async("drained") as handle:
        wait_until(lambda: handle.done or _read(handle, "in") == 30, "the valve's records came")
        handle.stop(str(tmp_path / "savepoints"), drain=True)
        handle.result()
    wanted = {f"k{key}": sum(n for name, n in records[:30] if name == f"k{key}") for key in range(3)}
    assert {line["key"]: line["sum"] for line in json_lines(tmp_path / "out")} == wanted


def _read(handle: Any, uid: str) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if uid in vertex.uids)


class Marked(Sink[Any]):
    """Keeps in memory what its one writer gets: changes and marks, in order."""

    story: ClassVar[list[Any]] = []

    def create_writer(self, context: SinkWriterContext, restored: Any) -> SinkWriter[Any]:
        return _MarkedWriter()


class _MarkedWriter(SinkWriter[Any]):
    accepts_columns = True

    def write(self, records: Any) -> None:
        Marked.story.append(records.to_pylist())

    def mark(self, rows: Mapping[tuple[str, str], int]) -> None:
        Marked.story.append(dict(rows))

    def prepare_commit(self) -> list[Any]:
        return []


BID = pa.schema([("auction", pa.int64()), ("price", pa.int64())])


async def priced(bid: Any) -> dict[str, int]:
    """A few answers are slow."""
    if bid["price"] % 50 == 0:
        await asyncio.sleep(random.random() * 0.02)
    return {"auction": bid["auction"], "price": 2 * bid["price"]}


@pytest.mark.parametrize("ordered", [True, False])
def test_each_mark_is_the_answer_of_the_rows_before_it(tmp_path: Path, ordered: bool) -> None:
    """Also of those whose answers were slow; with the barriers of checkpoints between them."""
    (tmp_path / "bids").mkdir()
    files = {}
    for number in range(3):
        rows = [{"auction": (index + number) % 10, "price": index % 100} for index in range(4_000)]
        files[str(tmp_path / "bids" / f"{number}.parquet")] = rows
        path = tmp_path / "bids" / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=BID), path, row_group_size=200)
    Marked.story = []
    env = hg.Environment(parallelism=2, executor=MiniCluster())
    env.config("execution.mark-interval", "5ms").checkpoints(every="30ms", storage=str(tmp_path / "cp"))
    bids = env.read_parquet(str(tmp_path / "bids"), uid="bids")
    asked = bids.map_async(priced, uid="asked", ordered=ordered).to_table(BID)
    totals = asked.group_by("auction").agg(F.count("*").alias("n"), F.sum("price").alias("s"), uid="totals")
    totals.to_changes().sink_to(Marked(), uid="sink").set_parallelism(1)
    env.execute("marked")
    changes, read, checked = list[dict[str, Any]](), dict[str, int](), 0
    for entry in Marked.story:
        if isinstance(entry, list):
            changes += entry
            continue
        read |= {split: rows for (source, split), rows in entry.items() if source == "bids"}
        got = Counter((row["auction"], row["n"], row["s"]) for row in folded(map(dict, changes)))
        before = [row for path, rows in files.items() for row in rows[: read.get(path, 0)]]
        assert got == _totals(before)
        checked += bool(before)
    assert checked >= 3
    final = Counter((row["auction"], row["n"], row["s"]) for row in folded(map(dict, changes)))
    assert final == _totals([row for rows in files.values() for row in rows])


def _totals(rows: list[dict[str, int]]) -> Counter[tuple[int, int, int]]:
    counts = Counter(row["auction"] for row in rows)
    sums = Counter[int]()
    for row in rows:
        sums[row["auction"]] += 2 * row["price"]
    return Counter((auction, count, sums[auction]) for auction, count in counts.items())


class Leaves:
    """A call that keeps the thread of its event loop."""

    may: ClassVar[threading.Event]
    inside: ClassVar[threading.Event]


async def keep_the_thread(n: int) -> int:
    """What no coroutine should do."""
    if n == 0:
        Leaves.inside.set()
        Leaves.may.wait(30)
    return n


def test_a_call_that_keeps_its_thread_does_not_hold_the_end_up() -> None:
    """The job is cancelled; the thread stays under a name that says whose it is, and ends with the call."""
    Leaves.may, Leaves.inside = threading.Event(), threading.Event()
    valve = Valve(next(NAMES), 20, range(100))
    env = environment(1)
    env.from_source(valve, uid="in").map_async(keep_the_thread, uid="asked").print()
    try:
        with env.execute_async("kept") as handle:
            assert Leaves.inside.wait(30)
            began = time.monotonic()
            handle.cancel()
            with pytest.raises(hg.JobCancelledError):
                handle.result()
        assert time.monotonic() - began < 15
        assert [thread.name for thread in threading.enumerate() if "asynchronous function" in thread.name]
    finally:
        Leaves.may.set()


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that takes its time, and doubles numbers, one a line."""
    try:
        while line := await reader.readline():
            await asyncio.sleep(random.random() * 0.01)
            writer.write(f"{2 * int(line)}\n".encode())
            await writer.drain()
    except ConnectionError:
        pass  # the worker was killed
    finally:
        writer.close()


class Server:
    """A TCP server in a thread of this process."""

    def __enter__(self) -> int:
        self.loop = asyncio.new_event_loop()
        self.server = self.loop.run_until_complete(asyncio.start_server(answers, "127.0.0.1", 0))
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        port: int = self.server.sockets[0].getsockname()[1]
        return port

    def __exit__(self, *error: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.run_until_complete(self._closed())
        self.loop.close()

    async def _closed(self) -> None:
        self.server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class Client(hg.AsyncFunction[int, dict[str, int]]):
    """A pool of connections; one call kills its process, once."""

    def __init__(self, port: int, killed: Path, at: int) -> None:
        self.port, self.killed, self.at = port, killed, at

    async def open(self, context: hg.RuntimeContext) -> None:
        self.free: asyncio.Queue[Any] = asyncio.Queue()
        for _ in range(4):
            self.free.put_nowait(await asyncio.open_connection("127.0.0.1", self.port))

    async def call(self, record: int) -> dict[str, int]:
        if record == self.at and not self.killed.exists():
            self.killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        reader, writer = await self.free.get()
        writer.write(f"{record}\n".encode())
        answer = await reader.readline()
        self.free.put_nowait((reader, writer))
        return {"n": record, "twice": int(answer)}

    async def close(self) -> None:
        while not self.free.empty():
            self.free.get_nowait()[1].close()


@pytest.mark.parametrize("ordered", [True, False])
def test_a_killed_worker_loses_and_doubles_nothing(tmp_path: Path, ordered: bool) -> None:
    """By kill -9 while calls are in flight; the file sink has one result for each record."""
    (tmp_path / "in").mkdir()
    for number in range(4):
        lines = (json.dumps({"n": n}) for n in range(number, 1_200, 4))
        (tmp_path / "in" / f"{number}.jsonl").write_text("\n".join(lines))
    with Server() as port:
        config = {**RESTART_AT_ONCE, "execution.checkpointing.unaligned.enabled": not ordered}
        env = hg.Environment(parallelism=2, executor=ProcessCluster(), config=config)
        env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
        numbers = env.read_json(str(tmp_path / "in"), uid="in").map(lambda line: int(line["n"]))
        client = Client(port, tmp_path / "killed", 800)
        asked = numbers.map_async(client, uid="asked", capacity=20, ordered=ordered)
        asked.write_json(str(tmp_path / "out"), uid="out")
        result = env.execute("killed")
    assert (tmp_path / "killed").exists()
    assert result.restarts >= 1
    out = json_lines(tmp_path / "out")
    assert sorted(line["n"] for line in out) == list(range(1_200))
    assert all(line["twice"] == 2 * line["n"] for line in out)


async def fork_once(n: int) -> int:
    """A child by fork comes back out of the function; tells its exit code."""
    if n != 3:
        return n
    child = os.fork()
    if child == 0:
        return -n
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    return 100 * os.waitstatus_to_exitcode(status)


def test_a_forked_child_does_not_go_on_with_the_loop() -> None:
    """It ends with the call that made it; the parent goes on."""
    env = hg.Environment(parallelism=1, executor=ProcessCluster(), config={"restart-strategy.type": "none"})
    assert env.from_collection(range(6)).map_async(fork_once).collect() == [0, 1, 2, 100, 4, 5]


class Square(hg.AsyncFunction[int, int]):
    """Waits, and at some records fails the first time; on virtual time."""

    async def open(self, context: hg.RuntimeContext) -> None:
        await asyncio.sleep(0.01)
        self.tried: set[int] = set()

    async def call(self, record: int) -> int:
        await asyncio.sleep(record % 5 / 1000)
        if record % 11 == 0 and record not in self.tried:
            self.tried.add(record)
            raise ConnectionError("the first time")
        return record * record


@pytest.mark.parametrize("ordered", [True, pytest.param(False, marks=pytest.mark.ci)])
@pytest.mark.parametrize("unaligned", [True, pytest.param(False, marks=pytest.mark.ci)])
def test_asynchronous_functions_under_faults(ordered: bool, unaligned: bool) -> None:
    """In the simulator, with kills, pauses, cuts and slow disks: exactly once, whenever calls return."""

    def build(env: hg.Environment) -> None:
        numbers = env.from_source(EventSource(range(120), 7), uid="numbers")
        timed = numbers.with_event_time(lambda n: n, out_of_orderness=10_000)
        again = hg.retry(3, "3ms", on=ConnectionError)
        squares = timed.map_async(Square(), "squares", capacity=9, ordered=ordered, retry=again, timeout="2s")
        squares.key_by(lambda n: n % 7).process(Total(), uid="totals").collect_later(uid="out")

    report = simulate(build, seeds=range(8), config={"execution.checkpointing.unaligned.enabled": unaligned})
    assert report.faults > 0
    assert report.restarts > 0
    assert report.checkpoints > 0


class Total(hg.KeyedProcessFunction[int, int, tuple[int, int]]):
    """The sum per key, told by a timer at the end of event time."""

    total: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[tuple[int, int]]:
        self.total.value += record
        ctx.timers.register_event_time(1_000_000)
        return iter(())

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[int]) -> Iterator[tuple[int, int]]:
        yield ctx.key, self.total.value
