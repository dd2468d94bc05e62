"""Tables that begin with Spark's DataFrames, and results that Spark reads back."""

from __future__ import annotations

import datetime as dt
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
from headgate.testing import MiniCluster

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


def test_spark_reads_folders_of_partitions(spark: Any, tmp_path: Path) -> None:
    """With the columns that the folders name, their types, null, and every sign that a value may have."""
    signs = "".join(map(chr, [*range(1, 128)])) + "ø漢"
    kinds = ["plain", "", None, "a/b=c%", "..", signs, "__HIVE_DEFAULT_PARTITION__", "07"]
    day = dt.date(2024, 5, 6)
    rows = [
        {
            "n": n,
            "kind": kind,
            "day": None if n == 3 else day,
            "at": dt.datetime(2024, 5, 6, 7, n, tzinfo=dt.UTC),
        }
        for n, kind in enumerate(kinds)
    ]
    schema = pa.schema({"n": "int64", "kind": "string", "day": "date32", "at": pa.timestamp("us", tz="UTC")})
    made = hg.Environment(parallelism=2, spark=spark)
    table = made.from_collection(rows, uid="rows").to_table(schema)
    by = ("kind", "day", "at")
    table.write_parquet(tmp_path / "ours", uid="out", partition_by=by, success_markers=True)
    made.execute("partitions")
    assert (tmp_path / "ours/_SUCCESS").exists()

    frame = spark.createDataFrame(rows, "n long, kind string, day date, at timestamp")
    frame.write.partitionBy(*by).parquet(str(tmp_path / "sparks"))
    assert folders(tmp_path / "ours") == folders(tmp_path / "sparks")
    # As Spark infers the types of what it has written itself.
    ours, sparks = (spark.read.parquet(str(tmp_path / name)) for name in ("ours", "sparks"))
    assert ours.dtypes == sparks.dtypes
    assert sorted(map(str, ours.collect())) == sorted(map(str, sparks.collect()))


def folders(root: Path) -> set[str]:
    """The folders with files in them."""
    return {path.parent.relative_to(root).as_posix() for path in root.rglob("part-*")} - {"."}


ROWS = [(1, ["a", None], {"x": 1, "y": None}), (2, [], {}), (3, None, None)]
COLUMNS = pa.schema(
    {"id": pa.int32(), "items": pa.list_(pa.string()), "prices": pa.map_(pa.string(), pa.int64())}
)


def small(columns: pa.Schema, rows: list[tuple[Any, ...]]) -> Callable[[hg.Environment], Any]:
    """Makes a table of rows in an environment; it runs without Spark, whose answers it is compared with."""
    named = [dict(zip(columns.names, row, strict=True)) for row in rows]
    return lambda env: env.from_collection(named).to_table(columns)


@pytest.mark.parametrize("name", ["explode", "explode_outer", "posexplode", "posexplode_outer"])
def test_rows_of_elements_are_sparks(spark: Any, name: str) -> None:
    """Names, types, nullability, values: the same calls on both sides."""
    from pyspark.sql import functions as S  # noqa: N812

    frame = spark.createDataFrame(ROWS, "id int, items array<string>, prices map<string,bigint>")
    table = small(COLUMNS, ROWS)(hg.Environment(executor=MiniCluster()))
    for column in ("items", "prices"):
        ours = table.select("id", getattr(F, name)(column))
        sparks = frame.select("id", getattr(S, name)(column))
        assert ours.dtypes == sparks.dtypes
        assert [field.nullable for field in ours.schema] == [field.nullable for field in sparks.schema.fields]
        assert rows_of(ours) == sorted(map(repr, map(tuple, sparks.collect())))


@pytest.mark.parametrize("by_name", [False, True])
def test_unions_are_sparks(spark: Any, by_name: bool) -> None:
    """Types widen alike, whether by place or by name."""
    frame = spark.createDataFrame(ROWS, "id int, items array<string>, prices map<string,bigint>").select("id")
    other = spark.createDataFrame([(2**40, 0.5)], "id bigint, price double")
    env = hg.Environment(executor=MiniCluster())
    mine = small(COLUMNS, ROWS)(env).select("id")
    its = small(pa.schema({"id": pa.int64(), "price": pa.float64()}), [(2**40, 0.5)])(env)
    if by_name:
        ours, sparks = (a.unionByName(b, allowMissingColumns=True) for a, b in ((mine, its), (frame, other)))
    else:
        ours, sparks = mine.union(its.select("price")), frame.union(other.select("price"))
    assert ours.dtypes == sparks.dtypes
    assert rows_of(ours) == sorted(map(repr, map(tuple, sparks.collect())))


def rows_of(table: Any) -> list[str]:
    """The rows of a table, as sorted texts."""
    return sorted(repr(tuple(row.values())) for row in table.collect())
