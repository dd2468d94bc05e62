"""Tables that begin with Spark's DataFrames, and results that Spark reads back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.connectors.files.file_formats import parquet_source
from headgate.connectors.generator import throttled

pytestmark = [pytest.mark.ci, pytest.mark.spark]


@pytest.fixture(scope="module")
def spark(open_spark: Callable[..., Any]) -> Any:
    """A session with three slots, and times in UTC."""
    return open_spark("local[3]", {"spark.sql.session.timeZone": "UTC"})


def environment(spark: Any) -> hg.Environment:
    """An environment on a session, with two subtasks."""
    return hg.Environment(parallelism=2, spark=spark)


def test_a_table_of_a_dataframe_knows_its_columns(spark: Any) -> None:
    """Without a schema: names and types are Spark's, and so is the answer of windows."""
    from pyspark.sql import functions as S  # noqa: N812

    numbers = spark.range(100).select(
        S.timestamp_seconds("id").alias("at"), (S.col("id") % 3).cast("string").alias("kind"), "id"
    )
    table = environment(spark).table(numbers, uid="numbers").with_watermark("at", "100s")
    assert table.dtypes == numbers.dtypes
    found = table.group_by("kind", F.window("at", "10 seconds")).agg(F.sum("id").alias("total"), uid="totals")
    rows = sorted((r["kind"], r["window"]["start"].timestamp(), r["total"]) for r in found.collect())
    expected = numbers.groupBy("kind", S.window("at", "10 seconds")).agg(S.sum("id").alias("total"))
    seconds = S.col("window.start").cast("double")
    assert rows == sorted(tuple(r) for r in expected.select("kind", seconds, "total").collect())


def test_a_throttled_source_of_files_is_a_table_without_a_schema(spark: Any, tmp_path: Path) -> None:
    """The limit of the rate hides neither the columns of the files nor that only some are read."""
    pq.write_table(pa.table({"n": list(range(50)), "text": ["x"] * 50}), tmp_path / "in.parquet")
    source = throttled(parquet_source(tmp_path / "in.parquet"), 1e6)
    table = environment(spark).from_source(source, uid="in").to_table()
    assert table.dtypes == [("n", "bigint"), ("text", "string")]
    narrow = table.select((F.col("n") + 1).alias("m"))
    assert sorted(row["m"] for row in narrow.collect()) == list(range(1, 51))
