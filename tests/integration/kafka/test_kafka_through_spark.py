"""Spark reads Kafka, the dataflow counts: a real broker, its offsets in the position, its loss of data."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kafka_server import KafkaServer, spark_jars
from topics import Topics

import headgate as hg
from headgate.common.errors import HeadgateError

pytestmark = [pytest.mark.spark, pytest.mark.ci, pytest.mark.timeout(900)]  # with the fetching

PER_EPOCH = 400
PATIENCE_S = 120
SHORT_TIMEOUTS = {
    "kafka.request.timeout.ms": 2000,
    "kafka.default.api.timeout.ms": 4000,
    "kafkaConsumer.pollTimeoutMs": 4000,
    "fetchOffset.numRetries": 1,
}
"""A broker that is gone is noticed within seconds instead of minutes."""

ANEW = r"failed after epoch \d+: .*not available in Kafka any more.*from \d+ to \d"
OLD = r"failed after epoch \d+: .*Could not read records in offset \[\d+, \d+\) for topic partition old-"


class Counting(hg.KeyedProcessFunction[str, Any, dict[str, Any]]):
    """The running count of a key."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: hg.KeyedContext[str]) -> Iterator[dict[str, Any]]:
        self.count.value += 1
        yield {"key": ctx.key, "count": self.count.value}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker for all tests of this file."""
    server = KafkaServer(tmp_path_factory.mktemp("kafka") / "broker").start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def spark(open_spark: Callable[..., Any], kafka: KafkaServer) -> Any:
    """A session with Spark's package for Kafka."""
    return open_spark("local[4]", {"spark.jars": spark_jars()}, log_level="OFF")


@pytest.fixture
def topics(kafka: KafkaServer) -> Topics:
    """What happens to the broker's topics."""
    return Topics(kafka.address)


class Job:
    """Counts the keys of a topic from its beginning, a few hundred records at a time.

    Args:
        spark: the session.
        topics: of the broker.
        topic: that is read.
        folder: for output and checkpoints; two jobs of one folder are a job and its continuation.
        settings: of Spark's source.
    """

    def __init__(self, spark: Any, topics: Topics, topic: str, folder: Path, **settings: Any) -> None:
        options = {"kafka.bootstrap.servers": topics.address, "subscribe": topic, **settings}
        options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": PER_EPOCH}
        records = spark.readStream.format("kafka").options(**options).load()
        self._records = records.selectExpr("cast(key as string) key", "partition", "offset")
        self._spark, self._folder = spark, folder

    def environment(self, trigger: str | None) -> hg.Environment:
        """With the dataflow in it; without a trigger it has no end."""
        env = hg.Environment(parallelism=2, spark=self._spark)
        env.checkpoints(every="1s", storage=str(self._folder / "checkpoints"))
        env.config("restart-strategy.type", "fixed-delay").config(
            "restart-strategy.fixed-delay.delay", "200ms"
        )
        counts = env.from_spark(self._records, uid="records", trigger=trigger).key_by("key")
        counts.process(Counting(), uid="counts").write_parquet(str(self._folder / "out"), uid="out")
        return env

    def read_rest(self, restore_from: str | None = None) -> hg.JobResult:
        """Count what the topic holds now."""
        env = self.environment("available-now").config("restart-strategy.fixed-delay.attempts", 1)
        return env.execute("kafka", restore_from=restore_from)

    def read_and_stop(self, records: int) -> str:
        """Count at least so many records in a job without end; the savepoint that it was stopped with."""
        with self.environment(None).execute_async("kafka") as job:
            until(lambda: len(self.counted()) >= records)
            return job.stop(str(self._folder / "savepoint"))

    def counted(self) -> list[tuple[str, int]]:
        """Everything that was written, sorted."""
        files = list(self._folder.glob("out/*.parquet"))
        return sorted((row["key"], row["count"]) for file in files for row in pq.read_table(file).to_pylist())


def answer(keys: Counter[str]) -> list[tuple[str, int]]:
    """Every count of every key, once."""
    return sorted((key, number) for key, total in keys.items() for number in range(1, total + 1))


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that the job does."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_counts_of_a_topic_are_exact(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """Several epochs from two partitions."""
    keys = topics.produce("exact", 0, 4 * PER_EPOCH)
    job = Job(spark, topics, "exact", tmp_path)
    assert job.read_rest().records_in["records"] == 4 * PER_EPOCH
    assert job.counted() == answer(keys)


def test_next_job_reads_on_at_the_offsets(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """Stopped in the middle of a topic that grows: each record is read by one of the two jobs."""
    keys = topics.produce("grows", 0, 4 * PER_EPOCH)
    savepoint = Job(spark, topics, "grows", tmp_path).read_and_stop(1)
    keys += topics.produce("grows", 4 * PER_EPOCH, PER_EPOCH)
    second = Job(spark, topics, "grows", tmp_path)
    assert second.read_rest(savepoint).records_in["records"] == 5 * PER_EPOCH  # of both
    assert second.counted() == answer(keys)


def test_killed_broker(spark: Any, kafka: KafkaServer, topics: Topics, tmp_path: Path) -> None:
    """While it is gone attempts fail with Spark's reason; then the job goes on behind its checkpoint."""
    keys = topics.produce("killed", 0, 4 * PER_EPOCH)
    job = Job(spark, topics, "killed", tmp_path, **SHORT_TIMEOUTS)
    env = job.environment(None).config("restart-strategy.fixed-delay.attempts", 1000)
    with env.execute_async("killed") as running:
        until(lambda: len(job.counted()) > 0)
        kafka.kill()
        until(lambda: running.status().restarts > 0)
        assert "of source 'records' failed after epoch" in str(running.status().last_failure)
        kafka.start()
        keys += topics.produce("killed", 4 * PER_EPOCH, PER_EPOCH)
        until(lambda: len(job.counted()) >= 5 * PER_EPOCH)
        running.stop(str(tmp_path / "savepoint"))
    assert job.counted() == answer(keys)


def test_topic_that_was_made_anew(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """Its offsets end before the position: refused with both numbers, also by the next attempt."""
    topics.produce("anew", 0, PER_EPOCH)
    job = Job(spark, topics, "anew", tmp_path)
    savepoint = job.read_and_stop(PER_EPOCH)
    before = job.counted()
    topics.delete("anew")
    topics.produce("anew", PER_EPOCH, 10)
    with pytest.raises(HeadgateError, match=ANEW):
        Job(spark, topics, "anew", tmp_path).read_rest(savepoint)
    assert job.counted() == before


def test_records_whose_time_was_over(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """The position is before the first retained record: the rest is not read as if nothing were missing."""
    topics.produce("old", 0, PER_EPOCH)
    job = Job(spark, topics, "old", tmp_path)
    savepoint = job.read_and_stop(PER_EPOCH)
    before = job.counted()
    topics.produce("old", PER_EPOCH, 10)
    topics.forget("old")
    topics.produce("old", PER_EPOCH + 10, 10)
    with pytest.raises(HeadgateError, match=OLD):
        Job(spark, topics, "old", tmp_path).read_rest(savepoint)
    assert job.counted() == before
