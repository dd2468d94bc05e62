"""Metrics of whole jobs: whatever the table names is measured, and the page's example runs."""

from __future__ import annotations

import doctest
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mini_jobs import TINY, Count

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.connectors.files import json_source
from headgate.metrics import of_rocksdb as r
from headgate.metrics.metric_table import NUMBERS, TABLE
from headgate.testing import Counters, JobListener, MiniCluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
RECORDS = 200
MANY_RECORDS = 3 * RECORDS
"""More than a source takes at first, before it knows what a record costs: it gives them in many batches."""
HOUR_MS = 3_600_000


class Latest(JobListener):
    """Keeps the last and the greatest value of each series of each subtask."""

    def __init__(self) -> None:
        self.last: dict[tuple[int, int], Counters] = {}
        self.greatest: dict[tuple[int, int], list[int]] = {}

    def progress(self, counters: Sequence[Counters]) -> None:
        for each in counters:
            subtask = each.vertex, each.subtask
            before = self.greatest.get(subtask, each.values)
            self.greatest[subtask] = list(map(max, before, each.values))
            self.last[subtask] = each


class Reminded(hg.KeyedProcessFunction[int, Any, int]):
    """Timers in both domains: soon, and after the last record."""

    def process(self, record: Any, ctx: hg.KeyedContext[int]) -> Iterator[int]:
        ctx.timers.register_event_time(record["n"] + 2)
        # This one waits while the job runs, however seldom the job tells its metrics.
        ctx.timers.register_event_time(record["n"] + HOUR_MS)
        ctx.timers.register_processing_time(ctx.timers.now_ms() + 1)
        ctx.timers.register_processing_time(ctx.timers.now_ms() + HOUR_MS)
        # So many take `slower` longer than a record takes here: they wait, on any machine.
        yield from [record["n"]] * 3

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        """Nothing."""


def slow(record: Any) -> Any:
    """Takes a millisecond."""
    time.sleep(0.001)
    return record


def picky(record: Any) -> Any:
    """Fails on two records."""
    if record["n"] in (11, 12):
        raise ValueError(record["n"])
    return record


def one_of_each(call: hg.FailedCall) -> hg.OnError:
    """Skips one of them."""
    return hg.skip if call.record["n"] == 11 else hg.quarantine


def slower(record: Any) -> Any:
    """Takes two, so that a step takes one record."""
    time.sleep(0.002)
    return record


class Failing(Count):
    """Fails on a record, so that others of its key are held."""

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        if record["n"] == 8:
            raise ValueError("8")
        yield from super().process(record, ctx)


@pytest.fixture
def job(tmp_path: Path) -> Latest:
    """What a job has told that reads, skips, waits, fires timers and is held up."""
    lines = [json.dumps({"n": n}) if n % 50 != 7 else "{broken" for n in range(MANY_RECORDS)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    told = Latest()
    config = {**TINY, "heartbeat.interval": "10ms", "quarantine.dir": str(tmp_path / "quarantine")}
    env = hg.Environment(parallelism=1, executor=MiniCluster(told), config=config)
    records = env.from_source(json_source(str(tmp_path / "in.jsonl"), on_error="skip"), uid="in").map(slow)
    records = records.map(picky, on_error=one_of_each)
    timed = records.with_event_time("n", out_of_orderness="0ms")
    numbers = timed.key_by(lambda record: record["n"] % 5).process(Reminded(), uid="reminded")
    numbers.rebalance().map(slower).collect()
    return told


@pytest.fixture
def late() -> Latest:
    """What a job has told that counts in windows, and gets a record after its window has ended."""
    told = Latest()
    env = hg.Environment(
        parallelism=1, executor=MiniCluster(told), config={**TINY, "heartbeat.interval": "5ms"}
    )
    times = [{"at": at} for at in (0, 9_000, 500)] + [{"at": 9_000 + n} for n in range(100)]
    stream = env.from_collection(times).with_event_time("at").filter(slow)
    table = stream.to_table(pa.schema({"at": pa.int64()}))
    counted = table.group_by(F.window("at", "1s")).agg(F.count("*").alias("n"), uid="counted")
    counted.to_stream().map(slower).collect()
    return told


@pytest.fixture
def stored(tmp_path: Path) -> Latest:
    """What a job has told whose state is in RocksDB, and whose output waits for checkpoints."""
    told = Latest()
    config = {**TINY, "heartbeat.interval": "5ms", "state.backend.type": "rocksdb"}
    config["state.backend.rocksdb.statistics"] = True
    env = hg.Environment(parallelism=1, executor=MiniCluster(told), config=config)
    env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
    records = env.from_collection([{"n": n} for n in range(RECORDS)]).map(slow)
    policy = hg.quarantine(hold=RECORDS, release="1")
    keyed = records.key_by(lambda record: record["n"] % 5)
    counted = keyed.process(Failing(), uid="counted", on_error=policy)
    counted.map(slower).collect()
    # Each is a new key, which is looked for in the files of the checkpoints before.
    records.key_by(lambda record: record["n"]).process(Count()).map(slower).collect()
    return told


def test_everything_in_the_table_is_measured(job: Latest, late: Latest, stored: Latest) -> None:
    """Each series moves in some subtask of three jobs that have all of it."""
    unknown = {series: metric.unknown or 0 for metric in TABLE for series in metric.series}
    # A database that falls behind its files is none that a test should wait for.
    behind = (r.COMPACTION_BYTES, r.STOPPED, r.RUNNING, r.WRITE_LIMIT, r.BACKGROUND_ERRORS)
    # Nor one that reads much from them; test_rocksdb_disk.py does.
    rare = {each.name for each in (*behind, *r.OF_STATISTICS)} - {r.CACHE_MISSES.name}
    told = [values for each in (job, late, stored) for values in each.greatest.values()]
    greatest = [max(values) for values in zip(*told, strict=True)]
    still = [series for series, value in zip(NUMBERS, greatest, strict=True) if value in (0, unknown[series])]
    assert {*still} <= rare
    assert all(each.steps.count for each in job.last.values())


def test_the_times_of_a_subtask_are_those_of_the_job(job: Latest) -> None:
    """All subtasks have lived for about the same time, and the slowest one was busy for most of it."""
    names = ("busy", "backpressured", "idle", "waiting")
    places = [NUMBERS.index(f"headgate_{name}_seconds_total") for name in names]
    lived = [sum(each.values[place] for place in places) for each in job.last.values()]
    assert max(lived) < 1.5 * min(lived) + 100
    busy = [each.busy_ms for each in job.last.values()]
    assert max(busy) >= 2 * RECORDS
    for each in job.last.values():
        assert each.longest_step_ms * 1000 == pytest.approx(each.steps.quantile(1.0), rel=0.13, abs=1)


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands there."""
    code = PAGE.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    exec(compile(code, PAGE.name, "exec", dont_inherit=True), {"__name__": "docs_metrics"})
    busy, steps = capsys.readouterr().out.splitlines()[-2:]
    assert busy.startswith("busy: {(0, 0): ")
    assert steps.startswith("99 of 100 steps took at most ")


def test_a_function_counts_as_the_page_shows() -> None:
    """The other examples of the page, too."""
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried > 4
    assert failed == 0
