"""Jobs in a session that the program has opened: slots, DataFrames in and out, refusals."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.common.errors import UsageError
from headgate.deploy.spark.executor import SparkExecutor
from headgate.runtime.events import JobListener


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session as a notebook would have it, with three slots; its JVM ends with the tests."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[3]").appName("tests").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(20)


def environment(parallelism: int = 2, **config: Any) -> hg.Environment:
    """On Spark, without a display."""
    return hg.Environment(parallelism=parallelism, config=config, executor=SparkExecutor(JobListener()))


def test_a_dataframe_goes_through_the_dataflow_and_comes_out(spark: Any, tmp_path: Path) -> None:
    """Every row once, with its types; the staged input is gone and the session's settings are as before."""
    frame = spark.sql(
        "select id, id % 7 as k, timestamp_micros(id) as at, cast(id as string) as text "
        "from range(0, 5000, 1, 3)"
    )
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    env = environment()
    env.checkpoints(every="200ms", storage=str(tmp_path))
    schema = "id long, k long, at timestamp, text string"
    out = env.from_spark(frame, uid="rows").rebalance().to_dataframe(schema)
    assert out.schema.simpleString() == frame.schema.simpleString()
    assert (out.count(), out.exceptAll(frame).count()) == (5000, 0)
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == before
    staged = [path.name for path in tmp_path.glob(".headgate-staging-*/*")]
    assert staged == ["1"]  # the output, which is the program's as long as it runs


def test_a_checkpoint_with_a_position_in_a_dataframe_is_refused_in_another_run(
    spark: Any, tmp_path: Path
) -> None:
    """Nothing is staged and nothing starts; the sentence says what to do."""
    frame = spark.range(100)
    env = environment()
    env.checkpoints(every="100ms", storage=str(tmp_path))
    assert len(env.from_spark(frame, uid="rows").map(lambda row: row["id"]).collect()) == 100
    assert env.result is not None
    checkpoint = str(sorted((tmp_path / env.result.job_id).glob("chk-*"))[-1])
    again = environment()
    again.from_spark(frame, uid="rows").map(lambda row: row["id"]).collect_later()
    with pytest.raises(UsageError, match=r"position of source 'rows' in a DataFrame.*read_parquet"):
        again.execute("again", restore_from=checkpoint)


def test_an_empty_stream_needs_a_schema(spark: Any) -> None:
    """Without records the columns are unknown unless they are given."""
    nothing = environment().from_collection([("a", 1)]).filter(lambda record: False)
    assert nothing.to_dataframe("name string, n long").collect() == []
    nothing = environment().from_collection([("a", 1)]).filter(lambda record: False)
    with pytest.raises(UsageError, match="gave no records"):
        nothing.to_dataframe()


def test_too_few_slots_are_refused_in_one_line(spark: Any) -> None:
    """Before anything starts, with what is missing; the session is not touched."""
    with pytest.raises(UsageError, match=r"needs 5 task slots .* local\[3\] has 3; .*local\[5\]"):
        environment(4).from_collection([1]).collect()
    assert spark.range(3).count() == 3


def test_two_jobs_share_the_slots_of_a_session(spark: Any) -> None:
    """A second job that finds too few left is refused at once and does not wait for the first."""
    started, finish = threading.Event(), threading.Event()

    class Watching(JobListener):
        def running(self, attempt: int) -> None:
            started.set()

    def first() -> None:
        env = hg.Environment(parallelism=2, executor=SparkExecutor(Watching()))
        env.generate(int, 4, rate_per_s=1).collect()
        finish.set()

    thread = threading.Thread(target=first)
    thread.start()
    assert started.wait(60)
    with pytest.raises(UsageError, match="of which other Headgate jobs hold 2"):
        environment(1).from_collection([1]).collect()
    thread.join(60)
    assert finish.is_set()
    assert environment(1).from_collection([1]).collect() == [1]


def test_an_error_of_the_program_is_the_programs_own(spark: Any) -> None:
    """What a user's function raises in a worker arrives as that, not as an error of Spark."""

    def wrong(record: int) -> float:
        return 1 / (record - 3)

    with pytest.raises(hg.UserFunctionError, match="ZeroDivisionError") as error:
        environment().from_collection(range(5)).map(wrong).collect()
    assert error.value.record == "3"
