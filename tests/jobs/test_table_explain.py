"""What `explain()` says of tables: the plan as written, and as it runs after all passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from mini_jobs import environment

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it

BIDS = pa.schema({"at": pa.int64(), "user": pa.string(), "price": pa.int64(), "note": pa.string()})


def bids(env: hg.Environment) -> Any:
    """A table of rows from memory, with event time."""
    return env.from_collection([]).with_event_time("at", "1s").to_table(BIDS)


def parts(table: Any) -> tuple[list[str], list[str]]:
    """The plan as written and as it runs, a line each, without margins."""
    written, _, running = table.explain().partition("as it runs\n")
    return [line.strip() for line in written.splitlines() if line], [
        line.strip() for line in running.splitlines()
    ]


def test_filters_and_columns_are_one_step_that_reads_what_is_used() -> None:
    """As written there are three nodes."""
    table = bids(environment(2)).filter(F.col("price") > 3).with_column("twice", F.col("price") * 2)
    written, running = parts(table.select("twice"))
    assert written[:4] == [
        "as written",
        "columns twice",
        "columns at, user, price, note, (price * 2) AS twice",
        "filter (price > 3)",
    ]
    assert written[4].startswith("scan collection of 0 records (test_table_explain.py:")
    assert written[4].endswith("at: bigint (event time), user: string, price: bigint, note: string")
    assert running[-3:] == [
        "converts rows -> columns: conversion of 1 column",
        "reads price",
        "gives (price * 2) AS twice where (price > 3)",
    ]


def test_an_aggregation_is_local_and_final() -> None:
    """And the plan below it is shown, though it is of the program already; so is what comes after it."""
    grouped = bids(environment(2)).group_by("user", F.window("at", "10s", "2s"))
    table = grouped.agg(F.sum(F.col("price") + 1).alias("all"), F.count("*").alias("n"), uid="w")
    written, running = parts(table.filter(F.col("n") > 1))
    made = "sum((price + 1)) AS all, count(*) AS n by user in windows of 10s every 2s"
    assert written[1:3] == ["filter (n > 1)", f"aggregate {made}"]
    assert written[3].startswith("scan collection")
    assert f"local, before the exchange: {made}" in running
    assert f"final: {made}" in running
    assert any(line.startswith("=> by key 'user'") for line in running)
    assert running.index("windows (uid 'w')") < running.index("gives user, window, all, n where (n > 1)")


def test_the_border_between_rows_and_columns_is_marked() -> None:
    """Once where the table begins, and where a function gets rows; none within columns."""
    table = (
        bids(environment(1)).filter(F.col("price") > 3).as_rows(lambda row: row, "user string, price bigint")
    )
    _, running = parts(table.select(F.upper("user").alias("u")))
    borders = [line for line in running if "->" in line and not line.startswith(("vertex", "=>"))]
    assert borders == [
        "converts rows -> columns: conversion of 4 columns",
        "converts columns -> rows -> columns: conversion of 4 columns, and of 2 back",
    ]


def test_a_union_reads_what_is_used_on_both_sides(tmp_path: Path) -> None:
    """As written its sides have all columns."""
    for name in ("a", "b"):
        pq.write_table(pa.table({"n": [1], "note": ["x"], "items": [["y"]]}), tmp_path / f"{name}.parquet")
    env = environment(1)
    both = env.table(tmp_path / "a.parquet").union(env.table(tmp_path / "b.parquet"))
    written, running = parts(both.select("n", F.explode("items").alias("item")).select("item"))
    assert [line.split(" ")[0] for line in written[1:]] == [
        "columns", "columns", "explode", "union:", "columns", "scan", "columns", "scan",
    ]  # fmt: skip
    assert running.count("reads items") == 3


def test_looking_at_a_plan_changes_nothing() -> None:
    """The program has as many nodes as before, and its own explanation has the same lines."""
    env = environment(2)
    table = bids(env).filter(F.col("price") > 3)
    before = env.program.nodes()
    assert table.explain() == table.explain()
    assert len(env.program.nodes()) == len(before)
    table.to_stream().print()
    for line in ("reads at, user, price, note", "converts rows -> columns: conversion of 4 columns"):
        assert line in env.explain()
        assert line in table.explain()
