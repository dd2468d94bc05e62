"""Windows of rows in whole jobs: the batch answer, across savepoints, crashes and backends; late records."""

from __future__ import annotations

import datetime as dt
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.checkpoint.opening import open_checkpoint, verify_files
from headgate.connectors.generator import generator_source
from headgate.metrics.metric_table import NUMBERS as SERIES
from headgate.offline.judging import Judgement
from headgate.offline.upgrade import Verdict
from headgate.testing import Counters, JobListener, MiniCluster, ProcessCluster

NUMBERS = count(9800)
ROWS = [
    [{"at": 100 * n + 50 * split, "user": f"u{(n * n + split) % 7}", "price": n % 13} for n in range(120)]
    for split in range(2)
]
ALL = sorted([row for split in ROWS for row in split], key=lambda row: row["at"])
GAP = 700
SCHEMA = pa.schema({"at": pa.int64(), "user": pa.string(), "price": pa.int64()})
Spans = Callable[[Sequence[dict[str, Any]]], dict[tuple[int, int], list[int]]]


def sliding(rows: Sequence[dict[str, Any]]) -> dict[tuple[int, int], list[int]]:
    """The prices of one user's windows of 4 s every second."""
    found = defaultdict(list)
    for row in rows:
        for start in range(row["at"] // 1_000 * 1_000, row["at"] - 4_000, -1_000):
            found[start, start + 4_000].append(row["price"])
    return found


def cumulative(rows: Sequence[dict[str, Any]]) -> dict[tuple[int, int], list[int]]:
    """The prices of one user's windows of up to 4 s that grow by 2 s."""
    found = defaultdict(list)
    for row in rows:
        start = row["at"] // 4_000 * 4_000
        for end in (start + 2_000, start + 4_000):
            if row["at"] < end:
                found[start, end].append(row["price"])
    return found


def sessions(rows: Sequence[dict[str, Any]]) -> dict[tuple[int, int], list[int]]:
    """The prices of one user's sessions."""
    found: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        last = next(reversed(found), None)
        start, prices = row["at"], [row["price"]]
        if last is not None and row["at"] <= last[1]:
            start, prices = last[0], found.pop(last) + prices
        found[start, row["at"] + GAP] = prices
    return found


def aggregated(windows: Any, uid: str = "windows") -> Any:
    """Number and sum, as one number each."""
    found = windows.aggregate(uid=uid, n=hg.count(), total=hg.sum("price"))
    return found.map(lambda row: [row["user"], *edges(row["window"]), row["n"], row["total"]], uid="flat")


def processed(windows: Any) -> Any:
    """The same of whole windows."""

    def whole(user: str, window: hg.Window, records: Iterable[Any], ctx: hg.WindowContext) -> Any:
        prices = [record["price"] for record in records]
        yield [user, window.start, window.end, len(prices), sum(prices)]

    return windows.process(whole, uid="windows")


def edges(window: dict[str, dt.datetime]) -> list[int]:
    """Start and end in ms."""
    return [round(window[edge].timestamp() * 1000) for edge in ("start", "end")]


class Kind(NamedTuple):
    """A kind of windows: how a program has it, and the batch answer."""

    assigner: Callable[[], Any]
    results: Callable[[Any], Any]
    spans: Spans


KINDS = {
    "sliding": Kind(lambda: hg.sliding("4s", "1s"), aggregated, sliding),
    "cumulative": Kind(lambda: hg.cumulative("4s", "2s"), processed, cumulative),
    "sessions": Kind(lambda: hg.session(GAP), aggregated, sessions),
    "whole sessions": Kind(lambda: hg.session(GAP), processed, sessions),
}


def answer(kind: str, all_rows: Sequence[dict[str, Any]] = ALL) -> list[Any]:
    """The batch answer: user, start, end, number, sum."""
    users = sorted({row["user"] for row in all_rows})
    return sorted(
        [user, *span, len(prices), sum(prices)]
        for user in users
        for span, prices in KINDS[kind].spans([row for row in all_rows if row["user"] == user]).items()
    )


def add_job(env: hg.Environment, folder: Path, kind: str, source: hg.Source[Any]) -> None:
    """Windows over a source, into files."""
    stream = env.from_source(source, uid="in").with_event_time("at", out_of_orderness="13s")
    windows = stream.key_by("user").window(KINDS[kind].assigner())
    KINDS[kind].results(windows).write_json(str(folder / "out"), uid="out")


def published(folder: Path) -> list[Any]:
    """What the sink has committed."""
    return sorted(json_lines(folder / "out"))


class Job:
    """Windows over the rows, which come through a valve."""

    def __init__(
        self, folder: Path, kind: str, parallelism: int, limit: float = float("inf"), backend: str = "hashmap"
    ) -> None:
        self.valve = Valve(next(NUMBERS), limit, *ROWS)
        settings = {**TINY, "restart-strategy.type": "none", "state.backend.type": backend}
        self.env = environment(parallelism, settings)
        self.env.checkpoints(every="20ms", storage=str(folder / "checkpoints"))
        add_job(self.env, folder, kind, self.valve)


def stopped(folder: Path, kind: str, form: str, backend: str = "hashmap") -> Path:
    """The folder of a savepoint that a job with a third of the input was stopped with."""
    job = Job(folder, kind, 2, 40, backend)
    with job.env.execute_async("windows") as handle:
        wait_until(lambda: handle.done or handle.status().checkpoints_completed > 1, "checkpoints complete")
        wait_until(lambda: handle.done or _read(handle) == 80, "the valve's records came")
        uri = handle.stop(str(folder / "savepoints"), format=form)
        handle.result()
    return Path(unquote(urlsplit(uri).path))


def _read(handle: Any) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if "in" in vertex.uids)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("parallelism", "backend"), [(1, "hashmap"), (3, "hashmap"), (2, "rocksdb")])
def test_windows_are_those_of_the_batch_answer(
    tmp_path: Path, kind: str, parallelism: int, backend: str
) -> None:
    """At any parallelism and on any backend."""
    Job(tmp_path, kind, parallelism, backend=backend).env.execute("windows")
    assert published(tmp_path) == answer(kind)


@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("form", "parallelism", "backends"),
    [
        ("canonical", 3, ("hashmap", "rocksdb")),
        ("native", 1, ("hashmap", "hashmap")),
        ("native", 3, ("rocksdb", "rocksdb")),
    ],
)
def test_windows_go_on_across_a_savepoint(
    tmp_path: Path, kind: str, form: str, parallelism: int, backends: tuple[str, str]
) -> None:
    """Open windows are in the savepoint; both jobs together give the batch answer."""
    folder = stopped(tmp_path, kind, form, backends[0])
    verify_files(*open_checkpoint(str(folder)))
    again = Job(tmp_path, kind, parallelism, backend=backends[1])
    again.env.execute("windows", restore_from=str(folder))
    assert published(tmp_path) == answer(kind)


def test_windows_are_a_table_in_a_savepoint(tmp_path: Path) -> None:
    """A row for each key and window, with a column for each value that the aggregates keep."""
    folder = stopped(tmp_path, "sliding", "canonical")
    stored = pa.concat_tables(pq.read_table(file) for file in (folder / "state/windows/windows").iterdir())
    assert {"n_count", "total_sum"} <= set(_flat(stored).column_names)
    assert stored.num_rows > 0


def _flat(table: pa.Table) -> pa.Table:
    while any(pa.types.is_struct(column.type) for column in table.columns):
        table = table.flatten()
    return table.rename_columns([name.rpartition(".")[2] for name in table.column_names])


@pytest.mark.parametrize("kind", KINDS)
def test_windows_are_whole_after_a_crash(tmp_path: Path, kind: str) -> None:
    """A reader raises after a checkpoint; the job goes on from it."""
    env = environment(2, {**TINY, **RESTART_AT_ONCE})
    env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
    add_job(env, tmp_path, kind, Halting(next(NUMBERS), 60, *ROWS))
    assert env.execute("windows").restarts > 0
    assert published(tmp_path) == answer(kind)


COUNT = 1_500


def record(index: int) -> dict[str, Any]:
    """One every 10 ms of event time; each user pauses for longer than the gap now and then."""
    return {"at": 10 * index, "user": f"u{index // 40 % 5}", "price": index % 7}


@pytest.mark.parametrize("unaligned", [pytest.param(False, marks=pytest.mark.ci), True])
def test_sessions_are_whole_after_a_worker_was_killed(tmp_path: Path, unaligned: bool) -> None:
    """Kill -9 of the process that sends results out, twice, between checkpoints."""
    env = hg.Environment(parallelism=2, executor=ProcessCluster(), config={**TINY, **RESTART_AT_ONCE})
    env.checkpoints("30ms", storage=str(tmp_path / "checkpoints"), unaligned=unaligned)

    def kill(row: list[Any]) -> list[Any]:
        for number, at in enumerate((4_000, 9_000)):
            mark = tmp_path / f"killed-{number}"
            if row[2] > at and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return row

    stream = env.from_source(generator_source(record, COUNT, 2_000, splits=1), uid="in")
    windows = stream.with_event_time("at", out_of_orderness="1s").key_by("user").window(hg.session(GAP))
    aggregated(windows).map(kill, uid="step").write_json(str(tmp_path / "out"), uid="out")
    env.execute("windows")
    assert (tmp_path / "killed-1").exists()
    assert published(tmp_path) == answer("sessions", [record(index) for index in range(COUNT)])


def test_late_records_come_to_the_side_output_with_their_time() -> None:
    """And results with the last ms of their window, so that windows of windows are exact."""
    env = environment(1)
    late = hg.OutputTag[dict[str, Any]]("late")
    rows = [{"at": at, "user": "u", "price": at} for at in (0, 5_000, 900, 5_100, 1_900, 9_000)]
    stream = env.from_collection(rows).with_event_time("at")
    counted = stream.key_by("user").window(hg.tumbling("1s")).late_to(late).aggregate(n=hg.count())
    coarse = counted.key_by("user").window(hg.tumbling("6s")).aggregate(windows=hg.count(), n=hg.sum("n"))
    dropped = counted.side_output(late).collect_later(uid="dropped")
    results = coarse.map(lambda row: (edges(row["window"]), row["windows"], row["n"])).collect_later(
        uid="all"
    )
    env.execute("late")
    assert [row["at"] for row in dropped.records] == [900, 1_900]
    assert results.records == [([0, 6_000], 2, 3), ([6_000, 12_000], 1, 1)]


@pytest.mark.parametrize("kind", ["plain", "declared"])
def test_a_function_of_windows_may_wait(kind: str) -> None:
    """Marked as blocking, it gets a thread of its own; what its records are does not matter."""

    @hg.blocking
    def slow(key: int, window: hg.Window, records: list[Any], ctx: hg.WindowContext) -> Any:
        time.sleep(0.01)
        yield key, window.start, len(records)

    env = environment(2)
    numbers = env.from_collection(range(100))
    rows = numbers.map(lambda n: {"n": n}) if kind == "plain" else numbers.map(Numbered)
    timed = rows.with_event_time("n", out_of_orderness=100).key_by(
        (lambda row: row["n"] % 2) if kind == "plain" else (lambda row: row.n % 2)
    )
    found = timed.window(hg.tumbling(50)).process(slow).collect()
    assert sorted(found) == [(key, start, 25) for key in (0, 1) for start in (0, 50)]


@dataclass
class Numbered:
    """A record whose type the program declares."""

    n: int


class Dropped(JobListener):
    """Keeps the greatest number of late records that a subtask has told."""

    records = 0

    def progress(self, counters: Sequence[Counters]) -> None:
        place = SERIES.index("headgate_late_records_dropped_total")
        self.records = max(self.records, *(each.values[place] for each in counters))


def test_dropped_records_are_counted_in_the_metric() -> None:
    """By the name that windows of columns have."""
    told = Dropped()
    config = {**TINY, "heartbeat.interval": "5ms"}
    env = hg.Environment(parallelism=1, executor=MiniCluster(told), config=config)
    rows = [{"at": at, "user": "u"} for at in (0, 9_000, 500, 700, *range(9_000, 9_100))]
    stream = env.from_collection(rows).with_event_time("at").filter(lambda _: time.sleep(0.003) is None)
    stream.key_by("user").window(hg.tumbling("1s")).aggregate(n=hg.count(), uid="w").collect()
    assert told.records == 2


def by_user(stream: Any, assigner: Any = None) -> Any:
    """The windows of the savepoint, or others."""
    return stream.key_by("user").window(assigner or hg.sliding("4s", "1s"))


EARLY = hg.after_watermark(early="1min")
CHANGES: dict[str, tuple[Callable[[Any], Any], Verdict]] = {
    "the same": (lambda stream: aggregated(by_user(stream)), Verdict.AS_IS),
    "another trigger and lateness": (
        lambda stream: aggregated(by_user(stream).lateness("1s").trigger(EARLY)),
        Verdict.AS_IS,
    ),
    "an aggregate more": (
        lambda stream: by_user(stream).aggregate(
            uid="windows", n=hg.count(), total=hg.sum("price"), top=hg.max("price")
        ),
        Verdict.INCOMPATIBLE,
    ),
    "another slide": (
        lambda stream: aggregated(by_user(stream, hg.sliding("4s", "2s"))),
        Verdict.INCOMPATIBLE,
    ),
    "the way of columns": (
        lambda stream: (
            stream.to_table(SCHEMA)
            .group_by("user", F.window("at", "4s", "1s"))
            .agg(F.count("*").alias("n"), uid="windows")
        ),
        Verdict.INCOMPATIBLE,
    ),
    "an aggregate less": (
        lambda stream: by_user(stream).aggregate(uid="windows", n=hg.count()),
        Verdict.AFTER_MIGRATION,
    ),
}


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A savepoint with open windows."""
    return str(stopped(tmp_path_factory.mktemp("old"), "sliding", "canonical"))


@pytest.mark.parametrize("change", CHANGES)
def test_the_verdict_on_windows_is_what_a_restore_does(change: str, savepoint: str, tmp_path: Path) -> None:
    """Other windows and aggregates: refused where open windows would be wrong."""
    results, expected = CHANGES[change]
    env = environment(2, {**TINY, "restart-strategy.type": "none"})
    env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
    stream = env.from_source(Valve(next(NUMBERS), float("inf"), *ROWS), uid="in")
    timed = stream.with_event_time("at", out_of_orderness="13s")
    results(timed).write_json(str(tmp_path / "out"), uid="out")
    disk, metadata = open_checkpoint(savepoint)
    judgement = Judgement(disk, metadata, env.program.nodes(), env.plan("windows"), False)
    report = judgement.report(savepoint, "windows")
    found = {item.verdict for each in report.operators if each.uid == "windows" for item in each.items}
    assert expected in found
    if report.restorable:
        env.execute("windows", restore_from=savepoint)
        return
    with pytest.raises(hg.HeadgateError, match=r"checkpoint|savepoint"):
        env.execute("windows", restore_from=savepoint)
