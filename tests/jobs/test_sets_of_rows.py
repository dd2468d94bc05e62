"""Whole jobs with sets of rows, duplicates and unions of changes, against DuckDB, also after a restore."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.testing import MiniCluster

Tables = tuple[Any, Any]


def written(folder: Path) -> None:
    """Two tables of rows of which many are equal, with nulls, NaN and decimals."""
    for name, step in (("a", 7), ("b", 5)):
        (folder / name).mkdir()
        for number in range(2):
            index = [i * step + number for i in range(3_000)]
            table = pa.table(
                {
                    "k": pa.array([i % 40 if i % 13 else None for i in index], pa.int64()),
                    "x": pa.array([[0.0, 1.5, None, float("nan")][i // 3 % 4] for i in index], pa.float64()),
                    "d": pa.array([i % 3 for i in index], pa.int64()).cast(pa.decimal128(19, 0)),
                    "n": pa.array(index, pa.int64()),
                }
            )
            pq.write_table(table, folder / name / f"{number}.parquet", row_group_size=500)


def counted(table: Any, uid: str) -> Any:
    """A corrected table: how often each value is there."""
    return table.filter(F.col("k").isNotNull()).group_by("k").agg(F.count("*").alias("n"), uid=uid)


_COUNTED_A, _COUNTED_B = (
    f"SELECT k, count(*) AS n FROM {name} WHERE k IS NOT NULL GROUP BY k" for name in ("a", "b")
)
_SUMMED_A = "SELECT k, x, sum(n)::BIGINT AS s FROM a GROUP BY k, x"
COLUMNS = ("k", "x", "d")
CASES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "distinct": (lambda a, b: a.select(*COLUMNS).distinct(uid="s"), "SELECT DISTINCT k, x, d FROM a"),
    "intersect": (
        lambda a, b: a.select(*COLUMNS).intersect(b.select(*COLUMNS), uid="s"),
        "SELECT k, x, d FROM a INTERSECT SELECT k, x, d FROM b",
    ),
    "intersect_all": (
        lambda a, b: a.select(*COLUMNS).intersect_all(b.select(*COLUMNS), uid="s"),
        "SELECT k, x, d FROM a INTERSECT ALL SELECT k, x, d FROM b",
    ),
    "subtract": (
        lambda a, b: a.select(*COLUMNS).subtract(b.filter(F.col("k") > 9).select(*COLUMNS), uid="s"),
        "SELECT k, x, d FROM a EXCEPT SELECT k, x, d FROM b WHERE k > 9",
    ),
    "except_all": (
        lambda a, b: a.select(*COLUMNS).except_all(b.filter(F.col("n") > 999).select(*COLUMNS), uid="s"),
        "SELECT k, x, d FROM a EXCEPT ALL SELECT k, x, d FROM b WHERE n > 999",
    ),
    "distinct of a corrected table": (
        lambda a, b: counted(a, "c").select("n").distinct(uid="s"),
        f"SELECT DISTINCT n FROM ({_COUNTED_A})",
    ),
    "subtract of corrected tables": (
        lambda a, b: counted(a, "c").subtract(counted(b, "d"), uid="s"),
        f"{_COUNTED_A} EXCEPT {_COUNTED_B}",
    ),
    "union of corrected and growing tables": (
        lambda a, b: (
            counted(a, "c").union(b.select("k", "n")).union_by_name(counted(b, "d").select("n", "k"))
        ),
        f"{_COUNTED_A} UNION ALL SELECT k, n FROM b UNION ALL {_COUNTED_B}",
    ),
    "groups with nulls": (
        lambda a, b: (
            a.group_by("k", "x", (F.col("n") % 3).alias("e")).with_nulls()
            .agg(F.count("*").alias("c"), F.max("n").alias("m"), uid="s")
        ),
        "SELECT k, x, n % 3 AS e, count(*) AS c, max(n) AS m FROM a GROUP BY k, x, n % 3",
    ),
    "groups with nulls of a corrected table": (
        lambda a, b: (
            a.group_by("k", "x").with_nulls().agg(F.sum("n").alias("s"), uid="c")
            .group_by("k").with_nulls().agg(F.count("*").alias("c"), F.sum("s").alias("s"), uid="s")
        ),
        f"SELECT k, count(*) AS c, sum(s)::BIGINT AS s FROM ({_SUMMED_A}) GROUP BY k",
    ),
    "windows with nulls": (
        lambda a, b: (
            a.with_watermark("n", "1h").group_by("k", F.window("n", "1s"), "x").with_nulls()
            .agg(F.count("*").alias("c"), uid="s").select("k", "x", "c")
        ),
        "SELECT k, x, count(*) AS c FROM a GROUP BY k, x, n // 1000",
    ),
    "ranks with nulls": (
        lambda a, b: (
            a.top_n(2, ["k", "x"], F.desc("n"), rank="r", uid="s", null_keys=True).select("k", "x", "n", "r")
        ),
        "SELECT k, x, n, row_number() OVER (PARTITION BY k, x ORDER BY n DESC) AS r FROM a QUALIFY r <= 2",
    ),
    "rows before with nulls": (
        lambda a, b: (
            a.filter(F.col("n") < 2_000)
            .over(F.sum("n").alias("s"), by="k", order_by="n", preceding=1, uid="s", null_keys=True)
            .select("k", "n", "s")
        ),
        (
            "SELECT k, n, sum(n) OVER (PARTITION BY k ORDER BY n ROWS 1 PRECEDING)::BIGINT AS s FROM a "
            "WHERE n < 2000"
        ),
    ),
    "earliest": (
        lambda a, b: a.drop_duplicates(["k"], order_by="n", uid="s").select("k", "n"),
        "SELECT k, min(n) AS n FROM a GROUP BY k",
    ),
    "latest of a corrected table": (
        lambda a, b: counted(a, "c").drop_duplicates(["n"], "last", ["k"], uid="s"),
        f"SELECT max(k) AS k, n FROM ({_COUNTED_A}) GROUP BY n",
    ),
}  # fmt: skip


def shown(row: dict[str, Any]) -> str:
    return repr({key: "nan" if value != value else value for key, value in row.items()})


def wanted(folder: Path, query: str) -> Counter[str]:
    with duckdb.connect() as base:
        for name in ("a", "b"):
            base.sql(f"CREATE VIEW {name} AS SELECT * FROM '{folder / name}/*.parquet'")
        return Counter(map(shown, base.sql(query).to_arrow_table().to_pylist()))


@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_of_duckdb(tmp_path: Path, case: str) -> None:
    """Null, NaN and decimals are compared as SQL does."""
    written(tmp_path)
    compute, query = CASES[case]
    env = hg.Environment(parallelism=2, executor=MiniCluster())
    a, b = (env.table(str(tmp_path / name), uid=name) for name in ("a", "b"))
    assert Counter(map(shown, compute(a, b).collect())) == wanted(tmp_path, query)
