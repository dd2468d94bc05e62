"""Jobs in a session that the program has opened: slots, DataFrames in and out, refusals."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.common.errors import UsageError
from headgate.deploy.spark.executor import SparkExecutor
from headgate.runtime.job.listener import JobListener


@pytest.fixture(scope="module")
def spark(open_spark: Callable[..., Any]) -> Any:
    """A session with three slots."""
    return open_spark("local[3]")


def environment(parallelism: int = 2, **config: Any) -> hg.Environment:
    """On Spark, without a display."""
    return hg.Environment(parallelism=parallelism, config=config, executor=SparkExecutor(JobListener()))


def test_a_dataframe_goes_through_the_dataflow_and_comes_out(spark: Any, tmp_path: Path) -> None:
    """Every row once, with its types; the staged input is gone."""
    frame = spark.sql(
        "select id, id % 7 as k, timestamp_micros(id) as at, cast(id as string) as text "
        "from range(0, 5000, 1, 3)"
    )
    env = environment()
    env.checkpoints(every="200ms", storage=str(tmp_path))
    schema = "id long, k long, at timestamp, text string"
    out = env.from_spark(frame, uid="rows").rebalance().to_dataframe(schema)
    assert out.schema.simpleString() == frame.schema.simpleString()
    assert (out.count(), out.exceptAll(frame).count()) == (5000, 0)
    staged = [path.parent.name for path in tmp_path.glob(".headgate-staging*/*")]
    assert len(staged) == 1  # the output, which is the program's as long as it runs
    assert staged[0].startswith(".headgate-staging-")


@pytest.mark.proof
@pytest.mark.ci
def test_another_job_goes_on_in_the_staged_rows_of_a_savepoint(spark: Any, tmp_path: Path) -> None:
    """Nothing is computed or read twice, and the rows stay as long as the savepoint may need them."""
    storage, out = str(tmp_path / "checkpoints"), str(tmp_path / "out")

    def program(frame: Any, pause_s: float) -> hg.Environment:
        env = environment()
        env.checkpoints(every="1h", storage=storage)

        def number(row: Any) -> dict[str, int]:
            time.sleep(pause_s)
            return {"id": row["id"]}

        env.from_spark(frame, uid="rows").map(number).write_json(out, uid="out")
        return env

    with program(spark.range(0, 3000, 1, 4), pause_s=0.005).execute_async("first") as job:
        while job.status().state != "running" or not job.status().vertices[0].records_in:
            time.sleep(0.05)
        savepoint = job.stop(str(tmp_path / "savepoints"))
    uncomputable = spark.range(1).selectExpr("raise_error('computed again') as id")
    rest = program(uncomputable, pause_s=0)
    rest.execute("second", restore_from=savepoint)
    lines = [json.loads(line) for file in Path(out).glob("*.jsonl") for line in file.read_text().splitlines()]
    assert sorted(line["id"] for line in lines) == list(range(3000))
    assert rest.result is not None
    assert 0 < rest.result.records_in["rows"] <= 3000

    (folder,) = (tmp_path / "checkpoints" / ".headgate-staging").iterdir()
    shutil.rmtree(folder)
    with pytest.raises(UsageError, match=r"rows were staged in '.*', and .* is not there .*start without"):
        program(uncomputable, pause_s=0).execute("third", restore_from=savepoint)


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


@pytest.mark.ci
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


@pytest.mark.ci
def test_a_stage_that_somebody_kills_is_submitted_again(spark: Any, tmp_path: Path) -> None:
    """As by a click in Spark's own page: the job goes on from its checkpoint, and every record comes once."""
    gangs: list[int] = []

    class Killing(JobListener):
        def gang_submitted(self, gang: int, slots: int) -> None:
            gangs.append(gang)

        def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
            if len(gangs) == 1:
                threading.Thread(target=kill).start()

    def kill() -> None:
        for stage in spark.sparkContext.statusTracker().getActiveStageIds():
            spark.sparkContext._jsc.sc().cancelStage(stage)

    restarts = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 3,
        "restart-strategy.fixed-delay.delay": "10ms",
    }
    env = hg.Environment(parallelism=2, config=restarts, executor=SparkExecutor(Killing()))
    env.checkpoints(every="300ms", storage=str(tmp_path / "checkpoints"))
    numbers = env.generate(int, 60, rate_per_s=20, uid="numbers")
    numbers.map(lambda n: {"n": n}).write_json(str(tmp_path / "out"), uid="out")
    result = env.execute("killed")
    lines = [line for file in (tmp_path / "out").rglob("part-*") for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["n"] for line in lines) == list(range(60))
    assert result.restarts >= 1
    assert len(gangs) >= 2


def test_an_error_of_the_program_is_the_programs_own(spark: Any) -> None:
    """What a user's function raises in a worker arrives as that, not as an error of Spark."""

    def wrong(record: int) -> float:
        return 1 / (record - 3)

    with pytest.raises(hg.UserFunctionError, match="ZeroDivisionError") as error:
        environment().from_collection(range(5)).map(wrong).collect()
    assert error.value.record == "3"
