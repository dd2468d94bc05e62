"""Spark reads Kafka, the dataflow counts: a real broker, its offsets in the position, its loss of data."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from kafka_server import KafkaServer, spark_jars

import headgate as hg

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.ci, pytest.mark.timeout(300)]

KEYS = 50
PER_EPOCH = 400


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
def spark(kafka: KafkaServer) -> Iterator[SparkSession]:
    """A session with Spark's package for Kafka."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[4]").config("spark.jars", spark_jars())
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def produce(spark: SparkSession, kafka: KafkaServer, topic: str, first: int, count: int) -> Counter[str]:
    """Write records; how many of each key."""
    rows = spark.range(first, first + count).selectExpr(
        f"concat('k', id % {KEYS}) key", "cast(id as string) value"
    )
    options = {"kafka.bootstrap.servers": kafka.address, "topic": topic}
    rows.write.format("kafka").options(**options).save()
    return Counter(f"k{number % KEYS}" for number in range(first, first + count))


def stream(spark: SparkSession, kafka: KafkaServer, topic: str) -> DataFrame:
    """The topic from its beginning, a few hundred records at a time."""
    options = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.readStream.format("kafka").options(**options).option("maxOffsetsPerTrigger", PER_EPOCH)
    return records.load().selectExpr("cast(key as string) key", "cast(cast(value as string) as long) value", "offset")


def count(
    spark: SparkSession, records: DataFrame, folder: Path, restore_from: str | None = None
) -> hg.JobResult:
    """Count what the topic holds now, into `folder`/out."""
    env = hg.Environment(parallelism=2, spark=spark)
    env.checkpoints(every="1s", storage=str(folder / "checkpoints"))
    env.config("execution.checkpointing.externalized-checkpoint-retention", "retain-on-cancellation")
    counts = (
        env.from_spark(records, uid="records", trigger="available-now")
        .key_by("key")
        .process(Counting(), uid="counts")
    )
    counts.write_parquet(str(folder / "out"), uid="out")
    return env.execute("kafka", restore_from=restore_from)


def counted(folder: Path) -> list[tuple[str, int]]:
    """Everything that was written."""
    rows = [row for path in folder.glob("out/*.parquet") for row in pq.read_table(path).to_pylist()]
    return sorted((row["key"], row["count"]) for row in rows)


def answer(keys: Counter[str]) -> list[tuple[str, int]]:
    """Every count of every key, once."""
    return sorted((key, number) for key, total in keys.items() for number in range(1, total + 1))


def test_counts_of_a_topic_are_exact(spark: SparkSession, kafka: KafkaServer, tmp_path: Path) -> None:
    """Several epochs from two partitions."""
    keys = produce(spark, kafka, "exact", 0, 5 * PER_EPOCH)
    result = count(spark, stream(spark, kafka, "exact"), tmp_path)
    assert counted(tmp_path) == answer(keys)
    assert result.records_in["records"] == 5 * PER_EPOCH
