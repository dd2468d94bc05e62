"""Structured Streaming feeds a dataflow: each test is a failure at that border, on a real query.

All but the last play the job master's part by hand, because only so the moment of a failure can be chosen.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import headgate as hg
from headgate.api.source import PollStatus, SourceReader, SourceReaderContext
from headgate.common.errors import OperatingError, UsageError
from headgate.connectors.dataframe import spark_source
from headgate.connectors.dataframe.staged_files import STAGING, read, stage
from headgate.connectors.dataframe.stream_plan import forgets_nothing
from headgate.deploy.spark.executor import SparkExecutor
from headgate.runtime.job.listener import JobListener

pytestmark = [pytest.mark.ci, pytest.mark.spark]

PATIENCE_S = 120
READERS = 2


@pytest.fixture(scope="module")
def spark(open_spark: Callable[..., Any]) -> Any:
    """A session with four slots, in which tasks may be tried twice."""
    settings = {"spark.scheduler.mode": "FAIR", "spark.sql.streaming.fileSource.log.compactInterval": "3"}
    return open_spark("local[4,2]", settings, log_level="OFF")


BOTH_WAYS = pytest.mark.parametrize("driver", [0, 1], ids=["one at a time", "one ahead"], indirect=True)
"""Epochs staged one at a time, as for sources that forget, and one ahead."""


@pytest.fixture
def driver(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """Makes drivers over one folder of input; their queries end with the test."""
    made: list[Driver] = []

    def make(folder: str = "in", **options: Any) -> Driver:
        name = f"{folder}-{len(made)}"
        staging, logs = tmp_path / STAGING / "job" / name, tmp_path / "logs"
        made.append(
            Driver(spark, tmp_path / folder, staging, logs, ahead=getattr(request, "param", 0), **options)
        )
        return made[-1]

    yield make
    for each in made:
        each.source.finish()


def put(folder: Path, *numbers: int) -> None:
    """One more input file, which becomes one more epoch."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{len(list(folder.iterdir())):03}.json"
    hidden = file.with_name(f".{file.name}")
    hidden.write_text("".join(json.dumps({"n": n}) + "\n" for n in numbers))
    at = 1_700_000_000 + len(list(folder.iterdir()))  # Spark takes the oldest first
    os.utime(hidden, (at, at))
    hidden.rename(file)


class Driver:
    """A source in one driver, and what the job master does with it: readers, checkpoints, attempts."""

    def __init__(
        self,
        spark: Any,
        folder: Path,
        staging: Path,
        logs: Path,
        trigger: str | None = None,
        change: Any = None,
        ahead: int = 0,
    ) -> None:
        folder.mkdir(exist_ok=True)
        frame = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(str(folder))
        self.source: Any = spark_source(frame if change is None else change(frame), folder.name, trigger)
        self.source.lasting_folder = str(logs)
        self.source.prepare(spark, str(staging))
        self.source._input = dataclasses.replace(self.source._input, ahead=ahead)
        self.folder, self.staging, self.logs = folder, staging, logs

    def begin(self, restored: Any = None) -> None:
        """An attempt."""
        plain = msgspec.msgpack.decode(msgspec.msgpack.encode(restored))
        self.enumerator = self.source.create_enumerator(plain)
        self.readers: list[SourceReader[Any]] = [
            self.source.create_reader(SourceReaderContext("uid", subtask, READERS))
            for subtask in range(READERS)
        ]
        self.over: set[int] = set()

    def turn(self) -> list[int]:
        """Every reader reads one batch, or asks for more; the rows."""
        rows: list[int] = []
        for subtask, reader in enumerate(self.readers):
            polled = reader.poll(2)
            if not isinstance(polled, PollStatus):
                rows += polled.column("n").to_pylist()
            elif subtask not in self.over and not reader.snapshot():
                splits = self.enumerator.next_splits(subtask)
                if splits is None:
                    self.over.add(subtask)
                else:
                    reader.add_splits(splits)
        return rows

    def read_epoch(self) -> list[int]:
        """Turn until an epoch is read that wants a checkpoint; its rows, sorted."""
        rows: list[int] = []
        self.until(lambda: rows.extend(self.turn()) or self.enumerator.wants_checkpoint())
        assert all(reader.snapshot() == [] for reader in self.readers)
        return sorted(rows)

    def draw(self, checkpoint: int) -> Any:
        """A checkpoint begins; the source's part of it."""
        assert self.enumerator.ready_to_snapshot()
        return self.enumerator.snapshot_for(checkpoint)

    def checkpoint(self, checkpoint: int) -> Any:
        """A checkpoint, drawn and complete."""
        position = self.draw(checkpoint)
        self.enumerator.checkpoint_complete(checkpoint)
        return position

    def committed(self) -> list[int]:
        """What the newest query has committed in Spark's own log; several queries would be several logs."""
        logs = sorted(self.logs.glob("*/*/commits"), key=lambda path: path.stat().st_ctime_ns)
        return sorted(int(path.name) for path in logs[-1].iterdir() if path.name.isdigit()) if logs else []

    def until(self, condition: Callable[[], Any]) -> None:
        """Wait for something that happens in the query's threads."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, self.enumerator.report()
            time.sleep(0.02)


def test_declined_checkpoint(driver: Callable[..., Driver], tmp_path: Path) -> None:
    """An epoch whose checkpoint came to nothing is held by the next one, and Spark waits for that one."""
    job = driver()
    put(job.folder, 1, 2, 3)
    put(job.folder, 4)
    job.begin()
    assert job.read_epoch() == [1, 2, 3]
    job.draw(7)
    assert not job.enumerator.wants_checkpoint()
    job.enumerator.checkpoint_aborted(7)
    assert job.enumerator.wants_checkpoint()
    assert (job.turn(), job.committed()) == ([], [])
    job.checkpoint(8)
    job.enumerator.checkpoint_complete(7)  # too late, and about nothing
    assert job.read_epoch() == [4]
    assert job.committed() == [0]


def test_two_spark_sources(driver: Callable[..., Driver], tmp_path: Path) -> None:
    """Two queries of one session count their epochs apart; one checkpoint holds both, and both go on."""
    left, right = driver("left"), driver("right")
    for number in range(3):
        put(left.folder, number)
    put(right.folder, 100)
    left.begin()
    right.begin()
    assert (left.read_epoch(), right.read_epoch()) == ([0], [100])
    left.checkpoint(1)
    assert left.read_epoch() == [1]
    positions = left.checkpoint(2), right.checkpoint(2)
    assert [position["epoch"] for position in positions] == [1, 0]
    put(right.folder, 101)
    again = driver("left"), driver("right")
    for job, position in zip(again, positions, strict=True):
        job.begin(position)
    assert [job.read_epoch() for job in again] == [[2], [101]]


def test_idle_query(driver: Callable[..., Driver], tmp_path: Path) -> None:
    """Without new input every checkpoint is possible, none is wanted, and each has the same position."""
    job = driver()
    job.begin()
    before = job.checkpoint(1)
    put(job.folder, 1)
    job.read_epoch()
    first = job.checkpoint(2)
    job.until(lambda: job.committed() == [0])
    assert not job.enumerator.wants_checkpoint()
    assert job.checkpoint(3) == first != before
    put(job.folder, 2)
    assert job.read_epoch() == [2]
    again = driver()
    again.begin(before)
    assert again.read_epoch() == [1]


@BOTH_WAYS
def test_savepoint_between_epochs(driver: Callable[..., Driver], tmp_path: Path) -> None:
    """A savepoint holds whole epochs, acknowledges nothing, and is good when the job has gone on for long."""
    job = driver()
    for number in range(5):  # Spark compacts the log of what was seen every three
        put(job.folder, number)
    job.begin()
    positions = []
    for number in range(5):
        assert job.read_epoch() == [number]
        positions.append(job.draw(2 * number))
        job.enumerator.checkpoint_aborted(2 * number)  # so the job master tells that a savepoint is whole
        assert job.enumerator.wants_checkpoint()
        job.checkpoint(2 * number + 1)
    assert any("compact" in name for name in positions[3]["log"])
    for saved in (1, 3):
        other = driver()
        other.begin(positions[saved])
        assert other.read_epoch() == [saved + 1]
        other.source.finish()


@BOTH_WAYS
def test_restore_of_the_checkpoint_before_the_last(driver: Callable[..., Driver], tmp_path: Path) -> None:
    """In the driver that drew it, and in another one: the same epochs come again, with the same rows."""
    job = driver()
    for number in range(3):
        put(job.folder, number, number + 10)
    job.begin()
    seen, positions = [], []
    for number in range(3):
        seen.append(job.read_epoch())
        positions.append(job.checkpoint(number))
    for other in (job, driver()):
        other.begin(positions[0])
        assert other.read_epoch() == seen[1]
        other.checkpoint(10)
        assert other.read_epoch() == seen[2]
        other.source.finish()


@BOTH_WAYS
def test_restart_of_an_attempt(driver: Callable[..., Driver], tmp_path: Path) -> None:
    """The living query stays: the epoch that waits is read again from its files; not if it is restored."""
    job = driver()
    for number in range(3):
        put(job.folder, number)
    job.begin()
    job.read_epoch()
    first = job.checkpoint(1)
    assert job.read_epoch() == [1]
    staged = sorted(job.staging.rglob("*.arrow"))
    job.begin(first)
    assert job.read_epoch() == [1]
    assert sorted(job.staging.rglob("*.arrow")) == staged
    second = job.draw(2)  # complete, but the attempt ends before the source is told
    job.begin(second)
    assert job.read_epoch() == [2]
    job.until(lambda: not any(path.exists() for path in staged))
    assert len(list(job.logs.glob("*/*"))) == 1


def test_retried_feeder_task(spark: Any, tmp_path: Path) -> None:
    """A task that failed after having written leaves files behind; only those of its second try are named."""
    folder = tmp_path / "staged"

    def fails_once(batches: Any) -> Any:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        for number, batch in enumerate(batches):
            if number == 4 and task.partitionId() == 1 and task.attemptNumber() == 0:
                while len(list(folder.glob("00001-*.arrow"))) < 2:
                    time.sleep(0.02)
                raise RuntimeError("lost")
            yield batch

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    try:
        # Rows so long that none waits in a buffer between Spark's processes.
        wide = spark.range(0, 100, 1, 2).selectExpr("id", "repeat('x', 20000) as x")
        files = stage(wide.mapInArrow(fails_once, "id long, x string"), str(folder), max_rows_per_file=10)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    rows = [n for f in files for batch in read(str(folder), f) for n in batch.column("id").to_pylist()]
    assert rows == list(range(100))
    assert {file.attempt for file in files if file.partition == 1} == {1}
    assert len({path.name for path in folder.iterdir()} - {file.path for file in files}) >= 2


def test_data_no_longer_in_the_source(driver: Callable[..., Driver], tmp_path: Path) -> None:
    """A file that was read behind the restored checkpoint and is gone is named, and so are the offsets."""
    job = driver()
    for number in range(3):
        put(job.folder, number)
    job.begin()
    positions = []
    for number in range(3):
        job.read_epoch()
        positions.append(job.checkpoint(number))
    (job.folder / "000.json").unlink()  # before the position: not needed
    job.begin(positions[0])
    assert job.read_epoch() == [1]
    (job.folder / "002.json").unlink()
    again = driver()
    again.begin(positions[0])
    with pytest.raises(UsageError, match=r"after epoch 0 .*logOffset.*gone: .*/002\.json; put them back"):
        again.read_epoch()


def test_failing_query(driver: Callable[..., Driver], tmp_path: Path) -> None:
    """What ends the query ends the attempt, with Spark's reason; the next attempt begins it anew."""
    broken = tmp_path / "broken"
    broken.touch()

    def check(batches: Any) -> Any:
        for batch in batches:
            if broken.exists():
                raise ValueError("out of order")
            yield batch

    job = driver(change=lambda frame: frame.mapInArrow(check, "n long"))
    put(job.folder, 1)
    job.begin()
    with pytest.raises(OperatingError, match=r"source 'in' failed after epoch -1: ValueError: out of order"):
        job.read_epoch()
    broken.unlink()
    job.begin()
    assert job.read_epoch() == [1]


@BOTH_WAYS
def test_next_epoch_is_staged_while_one_is_read(driver: Callable[..., Driver]) -> None:
    """Where nothing is forgotten: one, and no more, and it is handed out behind the checkpoint only."""
    job = driver()
    for number in range(4):
        put(job.folder, number)
    job.begin()
    assert job.read_epoch() == [0]
    ahead = job.source._input.ahead
    query = job.source._query
    job.until(lambda: len(query._staged) == 1 + ahead)
    time.sleep(0.5)
    assert [epoch.number for epoch in query._staged] == list(range(1 + ahead))
    assert job.turn() == []
    assert len(list(job.staging.glob("*-*"))) == 1 + ahead
    for number in range(1, 4):
        job.checkpoint(number)
        assert job.read_epoch() == [number]


def test_sources_that_forget_nothing(spark: Any, tmp_path: Path) -> None:
    """Files that stay, and the rate sources; not files that are cleaned up, nor what is not known."""
    (tmp_path / "in").mkdir()

    def files(**options: str) -> Any:
        reader = spark.readStream.schema("n long")
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.json(str(tmp_path / "in"))

    rate = spark.readStream.format("rate").load().selectExpr("value AS n")
    socket = spark.readStream.format("socket").option("host", "localhost").option("port", "9").load()
    assert forgets_nothing(files())
    assert forgets_nothing(files(cleanSource="off").where("n > 1"))
    assert forgets_nothing(rate.union(files()))
    assert not forgets_nothing(files(cleanSource="delete"))
    assert not forgets_nothing(files(cleanSource="ARCHIVE", sourceArchiveDir=str(tmp_path / "old")))
    assert not forgets_nothing(rate.union(files(cleanSource="delete")))
    assert not forgets_nothing(socket)


@BOTH_WAYS
@pytest.mark.parametrize("trigger", [None, "available-now"])
def test_query_stopped_by_somebody_else(
    driver: Callable[..., Driver], spark: Any, trigger: str | None
) -> None:
    """It is a failure and not the end of the input; the next attempt reads everything."""
    job = driver(trigger=trigger)
    put(job.folder, 1)
    put(job.folder, 2)
    put(job.folder, 3)
    put(job.folder, 4)
    job.begin()
    job.read_epoch()
    first = job.checkpoint(1)
    assert job.read_epoch() == [2]
    # Between two epochs Spark tells an end by this from its own end by nothing.
    job.until(lambda: job.source._query._newest == 1 + job.source._input.ahead)
    for query in spark.streams.active:
        query.stop()
    with pytest.raises(OperatingError, match="source 'in' was stopped after epoch 0, and not by its job"):
        job.until(job.turn)
    job.begin(first)
    assert job.read_epoch() == [2]


@BOTH_WAYS
def test_query_that_ends(driver: Callable[..., Driver], tmp_path: Path) -> None:
    """With "available-now" the source ends when the last epoch is in a checkpoint, and not before."""
    job = driver(trigger="available-now")
    put(job.folder, 1)
    put(job.folder, 2)
    job.begin()
    assert job.read_epoch() == [1]
    job.checkpoint(1)
    assert job.read_epoch() == [2]
    assert (job.turn(), job.over) == ([], set())
    job.checkpoint(2)
    put(job.folder, 3)  # too late
    job.until(lambda: job.turn() == [] and len(job.over) == READERS)


STATEFUL = {
    "an aggregation": lambda frame: frame.groupBy("n").count(),
    "dropDuplicates": lambda frame: frame.dropDuplicates(["n"]),
    "withWatermark": lambda frame: frame.selectExpr("timestamp_millis(n) as t").withWatermark(
        "t", "1 second"
    ),
    "a join of two streams": lambda frame: frame.crossJoin(frame.selectExpr("n as m")),
    "limit": lambda frame: frame.limit(3),
}


@pytest.mark.parametrize("what", STATEFUL)
def test_stateful_sql(spark: Any, tmp_path: Path, what: str) -> None:
    """State that Spark would keep apart from the checkpoints is refused by its operator's name."""
    frame = spark.readStream.schema("n long").json(str(tmp_path))
    with pytest.raises(UsageError, match=rf"with {what}.*, Spark's operator \w+, .*do it in the dataflow"):
        hg.Environment().from_spark(STATEFUL[what](frame), uid="input")


def test_stateless_sql_with_tables(driver: Callable[..., Driver], spark: Any) -> None:
    """A join with a table, itself aggregated, is no state of the stream."""
    table = spark.range(10).groupBy("id").count()
    job = driver(change=lambda frame: frame.join(table, frame.n == table.id).select("n"))
    put(job.folder, 3, 30)
    job.begin()
    assert job.read_epoch() == [3]
    job.checkpoint(1)
    put(job.folder, 30)  # an epoch without rows is one all the same
    assert job.read_epoch() == []


def test_jobs_that_could_not_flow(spark: Any, tmp_path: Path) -> None:
    """Without checkpoints nothing is ever acknowledged, without a slot nothing is fed: refused at once."""
    frame = spark.readStream.schema("n long").json(str(tmp_path))
    with pytest.raises(UsageError, match="trigger='available-now' with what is no streaming DataFrame"):
        hg.Environment().from_spark(spark.range(3), trigger="available-now")
    for settings, reason in (
        ({}, "no periodic"),
        ({"headgate.spark.reserved-slots": 0}, "reserved-slots is 0"),
    ):
        env = hg.Environment(parallelism=1, config=settings, executor=SparkExecutor(JobListener()))
        env.from_spark(frame, uid="input").write_json(str(tmp_path / "out"))
        with pytest.raises(UsageError, match=reason):
            env.execute("refused")


class Count(hg.KeyedProcessFunction):
    """How often each key came."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: object) -> Any:
        self.count.value += 1
        yield {"key": record["n"] % 5, "count": self.count.value, "n": record["n"]}


def written(folder: Path) -> list[dict[str, int]]:
    """What was committed."""
    return [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


def test_another_driver(spark: Any, tmp_path: Path) -> None:
    """A job that was stopped with a savepoint goes on in another run; its status has told of epochs."""
    for number in range(2):
        put(tmp_path / "in", number)

    def job(trigger: str | None) -> hg.Environment:
        frame = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
        env = hg.Environment(parallelism=1, executor=SparkExecutor(JobListener()), spark=spark)
        env.checkpoints(every="100ms", storage=str(tmp_path / "checkpoints"))
        counts = env.from_spark(frame, uid="input", trigger=trigger).key_by(lambda record: record["n"] % 5)
        counts.process(Count(), uid="counts").write_json(str(tmp_path / "out"), uid="out")
        return env

    with job(None).execute_async("first") as first:
        deadline = time.monotonic() + PATIENCE_S
        while (report := first.status().sources.get("input")) is None or report.epoch != 1:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        savepoint = first.stop(str(tmp_path / "savepoint"))
    assert (report.rows, report.rate_per_s > 0) == (1, True)
    for number in range(5, 7):
        put(tmp_path / "in", number)
    job("available-now").execute("second", restore_from=savepoint)
    rows = sorted((row["n"], row["count"]) for row in written(tmp_path / "out"))
    assert rows == [(0, 1), (1, 1), (5, 2), (6, 2)]


def test_killed_worker(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A worker dies in the middle: the output is what a batch job computes from the same files."""
    for number in range(8):
        put(tmp_path / "in", *range(number * 50, number * 50 + 50))

    struck = tmp_path / "struck"

    def strike(record: Any) -> Any:
        if record["n"] == 211 and not struck.exists():
            struck.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"n": record["n"]}

    frame = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    env = hg.Environment(parallelism=2, executor=SparkExecutor(JobListener()), spark=spark)
    env.checkpoints(every="100ms", storage=str(tmp_path / "checkpoints"))
    env.config("restart-strategy.type", "fixed-delay").config("restart-strategy.fixed-delay.delay", "100ms")
    stream = env.from_spark(frame.where("n % 7 != 0"), uid="input", trigger="available-now").map(strike)
    stream.key_by(lambda record: record["n"] % 5).process(Count(), uid="counts").write_json(
        str(tmp_path / "out")
    )
    with caplog.at_level(logging.INFO, "headgate.sources"):
        result = env.execute("killed")
    batch = spark.read.schema("n long").json(str(tmp_path / "in")).where("n % 7 != 0")
    expected = Counter(row["n"] % 5 for row in batch.collect())
    rows = written(tmp_path / "out")
    assert result.restarts == 1
    assert sorted(row["n"] for row in rows) == sorted(row["n"] for row in batch.collect())
    assert {key: max(r["count"] for r in rows if r["key"] == key) for key in expected} == dict(expected)
    assert "epoch 7, 42 rows in" in caplog.text
    assert list((tmp_path / "checkpoints").glob(".headgate-staging*")) == []
