"""Streams of tables in windows, and results of windows as tables: their columns are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mini_jobs import environment

import headgate as hg
import headgate.functions as F  # noqa: N812  # as users of PySpark write it
from headgate.relational.spark_types import WINDOW

SCHEMA = pa.schema({"auction": pa.int64(), "price": pa.int64(), "at": pa.int64()})
ROWS = [{"auction": at % 5, "price": at * 7 % 11, "at": at * 130} for at in range(200)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows in a Parquet file."""
    folder = tmp_path_factory.mktemp("bids")
    pq.write_table(pa.Table.from_pylist(ROWS, SCHEMA), folder / "bids.parquet")
    return folder


def bids(env: hg.Environment, folder: Path) -> hg.DataStream[Any]:
    """The stream of a table."""
    return env.table(folder).with_watermark("at").select("at", "auction").to_stream()


def windows_of(row: dict[str, Any], size: int, slide: int) -> list[int]:
    """The beginnings of a row's windows."""
    last = row["at"] // slide * slide
    return list(range(last, last - size, -slide))


def counts_of(size: int, slide: int) -> dict[tuple[int, int], int]:
    """(auction, beginning) -> bids."""
    counts: dict[tuple[int, int], int] = {}
    for row in ROWS:
        for start in windows_of(row, size, slide):
            counts[row["auction"], start] = counts.get((row["auction"], start), 0) + 1
    return counts


def ms(row: Any) -> int:
    """The beginning of a result's window."""
    return round(row["window"]["start"].timestamp() * 1000)


def test_windows_of_a_tables_stream_are_computed_as_columns(folder: Path) -> None:
    """And say so in the plan."""
    env = environment(2)
    found = bids(env, folder).key_by("auction").window(hg.tumbling("10s")).aggregate(n=hg.count(), uid="n")
    assert "local, before the exchange: count(*) AS n" in found.to_table().explain()
    assert {(row["auction"], ms(row)): row["n"] for row in found.collect()} == counts_of(10_000, 10_000)


def test_results_of_windows_are_a_table_with_windows(folder: Path) -> None:
    """Counts of each sliding window, and of these the highest: (start) -> (number, auction)."""
    env = environment(2)
    sliding = bids(env, folder).key_by("auction").window(hg.sliding("10s", "2s"))
    counts = sliding.aggregate(number=hg.count(), uid="counts").to_table()
    assert [field.type for field in counts.schema] == [pa.int64(), WINDOW, pa.int64()]
    most = counts.group_by("window").agg(F.max("number").alias("number"), uid="most")
    best = counts.join(most, ["window", "number"], uid="best").group_by("window")
    best = best.agg(F.max("auction").alias("auction"), F.max("number").alias("number"), uid="greatest")
    wanted: dict[int, tuple[int, int]] = {}
    for (auction, start), number in counts_of(10_000, 2_000).items():
        wanted[start] = max(wanted.get(start, (0, 0)), (number, auction))
    assert {ms(row): (row["number"], row["auction"]) for row in best.collect()} == wanted


def test_windows_over_results_of_windows_are_of_their_time(folder: Path) -> None:
    """Event time of results is the end of their window: rows, as the column `window` is no time."""
    env = environment(2)
    sizes = bids(env, folder).key_by("auction").window(hg.tumbling("2s")).aggregate(n=hg.count(), uid="small")
    found = sizes.key_by("auction").window(hg.tumbling("10s")).aggregate(n=hg.sum("n"), uid="large")
    assert {(row["auction"], ms(row)): row["n"] for row in found.collect()} == counts_of(10_000, 10_000)


def test_a_filter_of_a_table_keeps_its_columns_known() -> None:
    """Computed columns, too; event time is that of the table."""
    env = environment(1)
    table = env.from_collection(ROWS).with_event_time("at").to_table(SCHEMA)
    dear = table.filter(F.col("price") > 5).select("at", (F.col("price") * 2).alias("double")).to_stream()
    again = dear.to_table()
    assert (again.schema.names, again.schema.event_time) == (["at", "double"], "at")
    assert [row["double"] for row in again.collect()] == [2 * r["price"] for r in ROWS if r["price"] > 5]
