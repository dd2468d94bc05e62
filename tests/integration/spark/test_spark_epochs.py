"""Epochs of output in Spark: whole jobs that fail, writers that are repeated, PostgreSQL for real."""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer, driver_jar
from pyspark.sql import SparkSession

import headgate as hg
from headgate.api.sink import Lineage, SinkCommitterContext, SinkWriterContext
from headgate.common.errors import FencedError, HeadgateError, OperatingError, UsageError
from headgate.connectors.dataframe.to_spark import spark_sink
from headgate.connectors.dataframe.writers import EpochWriter, SparkEpoch, jdbc, parquet
from headgate.connectors.dataframe.writers.jdbc import JdbcWriter, staging_table
from headgate.connectors.dataframe.writers.parquet import ParquetWriter
from headgate.deploy.spark.executor import SparkExecutor
from headgate.runtime.job.listener import JobListener

pytestmark = [pytest.mark.spark, pytest.mark.ci]

RECORDS = 1_500


@pytest.fixture(scope="module")
def spark(open_spark: Callable[..., Any]) -> Any:
    """A session with PostgreSQL's driver where it can be had."""
    try:
        jar = str(driver_jar())
    except pytest.skip.Exception:
        jar = ""
    settings = {"spark.scheduler.mode": "FAIR", "spark.jars": jar}
    return open_spark("local[4]", settings, log_level="OFF")


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server for all tests of the file; each has tables of its own."""
    driver_jar()
    server = PostgresServer().start()
    yield server
    server.close()


def rows_of(spark: Any, path: Path) -> Any:
    """What readers see; without the answers that Spark keeps of its last look at the folder."""
    spark.catalog.clearCache()
    return spark.read.parquet(str(path))


class Job:
    """One job with one sink and one writer of rows, moved by hand in this process."""

    def __init__(self, spark: Any, folder: Path, write: Any, generation: int = 1) -> None:
        self.sink = spark_sink(write, "n long, half long")
        self.sink.prepare(spark, str(folder / "staged"))
        self.committer = self.sink.create_committer()
        self.committer.begin(SinkCommitterContext("out", "a", generation, Lineage("a")))
        self.writer = self.sink.create_writer(SinkWriterContext("out", 0, 1, 1, "a", generation), [])

    def draw(self, checkpoint: int, *numbers: int) -> list[Any]:
        """What a checkpoint holds."""
        self.writer.write([(number, number // 2) for number in numbers])
        return self.writer.prepare_commit_at(checkpoint)


# -- writers


@pytest.mark.proof
def test_what_is_published_can_be_read_by_line_and_epoch(spark: Any, tmp_path: Path) -> None:
    """Tries, marks and unfinished epochs are not seen; columns of partitions are as asked for."""
    out = tmp_path / "out"
    job = Job(spark, tmp_path, parquet(out, partition_by=["half"]))
    job.committer.commit(job.draw(3, 1, 2))
    spark.range(7).write.parquet(str(out / "_attempts" / "a+out" / "9-1-feed" / "half=4"))
    job.committer.commit(job.draw(4, 2))
    found = rows_of(spark, out)
    assert sorted((row.n, row._lineage, row._sink, row._epoch) for row in found.collect()) == [
        (1, "a", "out", 3), (2, "a", "out", 3), (2, "a", "out", 4),
    ]  # fmt: skip
    assert found.where("_epoch = 4").count() == 1
    later = Job(spark, tmp_path, parquet(out, partition_by=["half"]), generation=2)
    later.committer.commit(later.draw(5, 6))
    assert [path.name for path in (out / "_attempts" / "a+out").iterdir()] == []


def test_a_later_job_removes_what_a_job_before_it_has_left(tmp_path: Path) -> None:
    """Its own drivers are counted from 1 again; of the present epoch and later ones a newer driver's stay."""
    tries, later = tmp_path / "_attempts" / "a+out", SparkEpoch("a", "out", 5, "b", 1, 2, "here")
    for name in ("4-3-left", "5-1-left", "5-3-else", "6-2-else"):
        (tries / name).mkdir(parents=True)
    parquet(tmp_path).begin(None, later)  # type: ignore[arg-type]
    assert sorted(path.name for path in tries.iterdir()) == ["5-3-else", "6-2-else"]


def test_a_column_that_parquet_output_adds_itself_is_refused(spark: Any, tmp_path: Path) -> None:
    """Readers could not tell the two apart."""
    frame = spark.range(1).withColumnRenamed("id", "_epoch")
    with pytest.raises(UsageError, match="column '_epoch'"):
        parquet(tmp_path).write(frame, SparkEpoch("a", "out", 1, "a", 1, 1, "x"))
    with pytest.raises(UsageError, match=r"s3a://.*one rename"):
        parquet("s3a://bucket/out")


class Sleeping(EpochWriter):
    """Another writer whose Spark job takes a minute, if it is let."""

    def __init__(self, inner: EpochWriter) -> None:
        self.inner, self.writing = inner, threading.Event()

    def write(self, frame: Any, epoch: SparkEpoch) -> None:
        self.writing.set()
        nap = "java_method('java.lang.Thread', 'sleep', cast(60000 as bigint))"
        self.inner.write(frame.where(f"{nap} is null"), epoch)


def test_a_replaced_drivers_write_is_cancelled_and_stays_apart(spark: Any, tmp_path: Path) -> None:
    """The next driver publishes the epoch meanwhile; what the old one had begun is never seen."""
    sleeping = Sleeping(parquet(tmp_path / "out"))
    old = Job(spark, tmp_path, sleeping)
    drawn, failed = old.draw(7, 1, 2, 3), []

    def commit() -> None:
        try:
            old.committer.commit(drawn)
        except HeadgateError as error:
            failed.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    assert sleeping.writing.wait(60)
    new = Job(spark, tmp_path, parquet(tmp_path / "out"), generation=2)
    new.committer.commit(drawn)
    old.committer.interrupt()
    thread.join(50)
    assert not thread.is_alive()
    assert "cancelled" in str(failed)
    assert sorted(row.n for row in rows_of(spark, tmp_path / "out").collect()) == [1, 2, 3]
    with pytest.raises(FencedError):
        old.committer.commit(old.draw(8, 4))


# -- PostgreSQL


def select(spark: Any, postgres: PostgresServer, query: str) -> list[Any]:
    """Rows of the database."""
    read = spark.read.jdbc(postgres.url, f"({query}) as found", properties=postgres.properties)
    return sorted(tuple(row) for row in read.collect())


def epoch_of(number: int, token: str, generation: int = 1) -> SparkEpoch:
    """An epoch of a sink."""
    return SparkEpoch("a", "out", number, "a", generation, number, token)


def test_an_epoch_is_in_the_database_once(spark: Any, postgres: PostgresServer) -> None:
    """A repeat adds nothing, what broke-off tries have left is dropped, names are quoted."""
    left = staging_table(epoch_of(3, "left"))
    spark.range(1).write.jdbc(postgres.url, left, properties=postgres.properties)
    writer = jdbc(postgres.url, "public.quoted", postgres.properties)
    frame = spark.sql('select id as n, concat("x", id) as `Odd ""name` from range(3)')
    for number, token in ((4, "a"), (4, "b"), (5, "c")):
        writer.begin(spark, epoch_of(number, token))
        writer.write(frame, epoch_of(number, token))
    assert select(spark, postgres, "select n, count(*) as c from quoted group by n") == [
        (n, 2) for n in range(3)
    ]
    tables = "select table_name from information_schema.tables where table_name like 'headgate_stage%'"
    assert select(spark, postgres, tables) == []


def test_a_later_job_drops_staging_tables_of_a_job_before_it(spark: Any, postgres: PostgresServer) -> None:
    """Its own drivers are counted from 1 again; of the present epoch and later ones a newer driver's stay."""
    lineage = "before"
    for number, generation in ((4, 3), (5, 1), (5, 3), (6, 2)):
        left = staging_table(SparkEpoch(lineage, "out", number, lineage, generation, number, "left"))
        spark.range(1).write.jdbc(postgres.url, left, properties=postgres.properties)
    writer = jdbc(postgres.url, "later", postgres.properties)
    stages = "select table_name from information_schema.tables where table_name like 'headgate_stage%'"
    writer.begin(spark, SparkEpoch(lineage, "out", 5, "later", 1, 2, "here"))
    found = [name.split("_")[3:5] for (name,) in select(spark, postgres, stages)]
    assert found == [["5", "3"], ["6", "2"]]
    writer.begin(spark, SparkEpoch(lineage, "out", 7, "later", 1, 2, "here"))
    assert select(spark, postgres, stages) == []


class Twice(JdbcWriter):
    """Spark runs the tasks that fill the staging table again, after they have committed their rows."""

    again = ""

    def _fill(self, frame: Any, stage: str) -> None:
        super()._fill(frame, stage)
        if self.again == "when filled":
            frame.write.mode("append").jdbc(self.url, stage, properties=self.properties)

    def _note(self, connection: Any, epoch: SparkEpoch) -> None:
        super()._note(connection, epoch)
        if self.again == "when moved":
            spark, stage = SparkSession.active(), f"public.{staging_table(epoch)}"
            spark.range(1).toDF("n").write.mode("append").jdbc(self.url, stage, properties=self.properties)


@pytest.mark.parametrize("when", ["when filled", "when moved"])
def test_rows_that_a_repeated_task_staged_twice_are_not_published(
    spark: Any, postgres: PostgresServer, when: str
) -> None:
    """Not one row of the epoch is moved, nothing says that it is written, and the next try is whole."""
    table = when.replace("when ", "twice_")
    writer = Twice(postgres.url, f"public.{table}", postgres.properties)
    writer.again = when
    frame, epoch = spark.range(6).toDF("n"), SparkEpoch(table, "out", 1, "a", 1, 1, "a")
    writer.begin(spark, epoch)
    with pytest.raises(OperatingError, match=r"holds (12|7) rows.*expected 6.*written again"):
        writer.write(frame, epoch)
    assert select(spark, postgres, f"select n from {table}") == []
    stages = "select table_name from information_schema.tables where table_name like 'headgate_stage%'"
    assert select(spark, postgres, stages) == []
    whole = jdbc(postgres.url, f"public.{table}", postgres.properties)
    whole.write(frame, SparkEpoch(table, "out", 1, "a", 1, 1, "b"))
    assert select(spark, postgres, f"select n from {table}") == [(n,) for n in range(6)]


def test_of_two_tries_at_once_one_moves_its_rows(spark: Any, postgres: PostgresServer) -> None:
    """Both have staged before either notes the epoch."""
    writers = [jdbc(postgres.url, "public.raced", postgres.properties) for _ in range(4)]
    writers[0].begin(spark, epoch_of(1, "begin"))
    start, failed = threading.Barrier(4), []

    def write(number: int) -> None:
        frame = spark.range(100).withColumnRenamed("id", "n")
        start.wait()
        try:
            writers[number].write(frame, SparkEpoch("raced", "out", 1, "a", number, 1, f"t{number}"))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The first of all makes the table; who meets it in the making may fail, and would try again.
    assert len(failed) < 4
    assert select(spark, postgres, "select count(*) as n, count(distinct n) as m from raced") == [(100, 100)]


def test_a_crash_between_the_database_and_the_journal_repeats_nothing(
    spark: Any, postgres: PostgresServer, tmp_path: Path
) -> None:
    """The driver dies with its transaction done; the next one finds the epoch in the database."""
    writer = jdbc(postgres.url, "public.crashed", postgres.properties)

    class Dies(EpochWriter):
        def begin(self, spark: Any, epoch: SparkEpoch) -> None:
            writer.begin(spark, epoch)

        def write(self, frame: Any, epoch: SparkEpoch) -> None:
            writer.write(frame, epoch)
            raise ValueError("the machine is gone")

    job = Job(spark, tmp_path, Dies())
    drawn = job.draw(2, 1, 2)
    with pytest.raises(HeadgateError, match="the machine is gone"):
        job.committer.commit(drawn)
    later = Job(spark, tmp_path, writer, generation=2)
    later.committer.commit(drawn)
    later.committer.commit([*drawn, *later.draw(3, 3)])
    assert select(spark, postgres, "select n from crashed") == [(1,), (2,), (3,)]


# -- whole jobs


def environment(folder: Path, **config: Any) -> hg.Environment:
    """On Spark, without a display, with frequent checkpoints."""
    config["execution.checkpointing.num-retained"] = 100
    env = hg.Environment(parallelism=2, config=config, executor=SparkExecutor(JobListener()))
    env.checkpoints(every="200ms", storage=str(folder / "checkpoints"))
    return env


def dying(marker: Path) -> Callable[[int], int]:
    """A function whose worker is killed once, in the middle."""

    def pass_on(record: int) -> int:
        if record == RECORDS // 2 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return record

    return pass_on


def test_a_job_with_a_killed_worker_and_a_failing_write(
    spark: Any, postgres: PostgresServer, tmp_path: Path
) -> None:
    """The function sees epochs in order and repeats with the same rows; tables have every record once."""
    calls: list[tuple[int, tuple[int, ...]]] = []

    def note(frame: Any, epoch: SparkEpoch) -> None:
        calls.append((epoch.epoch, tuple(sorted(row.n for row in frame.collect()))))
        if len(calls) == 2:
            raise ValueError("not now")

    env = environment(tmp_path, **{"headgate.storage.permissions": "group"})
    numbers = env.generate(int, RECORDS, rate_per_s=500, uid="numbers")
    rows = numbers.map(dying(tmp_path / "died"), uid="die").rebalance().map(lambda n: {"n": n}, uid="rows")
    rows.to_spark(note, uid="note", schema="n long")
    rows.to_spark(parquet(tmp_path / "out"), uid="parquet")
    rows.to_spark(jdbc(postgres.url, "public.job", postgres.properties), uid="jdbc")
    env.execute("epochs")
    order = [epoch for epoch, _ in calls]
    assert order == sorted(order)
    assert calls[1] == calls[2]
    assert len(set(calls)) == len(set(order)) > 3
    everything = Counter(range(RECORDS))
    assert Counter(n for _, found in dict(calls).items() for n in found) == everything
    assert Counter(row.n for row in rows_of(spark, tmp_path / "out").collect()) == everything
    counts = "select count(*) as n, count(distinct n) as m from job"
    assert select(spark, postgres, counts) == [(RECORDS, RECORDS)]
    staging = tmp_path / "checkpoints" / ".headgate-to-spark"
    assert not list(staging.glob("_pending/*/part-*"))
    assert stat.S_IMODE(staging.stat().st_mode) & 0o777 == 0o770, "made before the job runs, as it says"


def saved(handle: hg.JobHandle, folder: Path) -> str:
    """A savepoint of a job that has begun a moment ago."""
    while True:
        try:
            return handle.savepoint(str(folder / "savepoints"))
        except OperatingError:
            if handle.done:
                raise
            time.sleep(0.05)


@pytest.mark.proof
def test_a_savepoint_whose_job_went_on(spark: Any, tmp_path: Path) -> None:
    """To go on from it is refused, or begins a line that readers can tell, or takes the rest back."""

    def started(begin: str | None = None, **config: Any) -> Any:
        env = environment(tmp_path, **config)
        numbers = env.generate(int, 400, rate_per_s=150, uid="numbers").map(lambda n: {"n": n}, uid="rows")
        numbers.to_spark(parquet(tmp_path / "out"), uid="out")
        return env.execute_async("line", restore_from=begin)

    handle = started()
    savepoint = saved(handle, tmp_path)
    first = handle.result().job_id
    with pytest.raises(UsageError, match="sink 'out' holds more than savepoint"):
        started(savepoint).result()
    second = started(savepoint, **{"execution.sinks.older-snapshot": "new-lineage"}).result().job_id
    found = rows_of(spark, tmp_path / "out")
    assert {row._lineage for row in found.select("_lineage").distinct().collect()} == {first, second}
    assert Counter(row.n for row in found.where(f"_lineage = '{first}'").collect()) == Counter(range(400))
    started(savepoint, **{"execution.sinks.older-snapshot": "take-back"}).result()
    again = rows_of(spark, tmp_path / "out").where(f"_lineage = '{first}'")
    assert Counter(row.n for row in again.collect()) == Counter(range(400))


def test_a_job_without_a_slot_for_spark_is_refused(tmp_path: Path, spark: Any) -> None:
    """Before anything starts; the epochs could never be written."""
    env = environment(tmp_path, **{"headgate.spark.reserved-slots": 0})
    env.from_collection([{"n": 1}], uid="in").to_spark(print, uid="out")
    with pytest.raises(UsageError, match="sink 'out' is written by tasks of Spark"):
        env.execute("none")


def test_explain_says_what_is_guaranteed(tmp_path: Path) -> None:
    """Of a function less than of a writer."""
    env = environment(tmp_path)
    rows = env.from_collection([{"n": 1}], uid="in")
    rows.to_spark(print, uid="function")
    rows.to_spark(parquet(tmp_path / "out"), uid="writer")
    told = env.explain()
    assert "at-least-once" in told
    assert "exactly-once (idempotent writes)" in told
    assert isinstance(parquet(tmp_path), ParquetWriter)
