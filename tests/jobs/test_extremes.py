"""Joins with the greatest or least value of a window: rows without a partner stay where they are read."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from mini_jobs import TINY

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.tables import lowering
from headgate.testing import MiniCluster

COLUMNS = pa.schema({"at": pa.int64(), "price": pa.int64(), "who": pa.string()})
DROPS = "drops, before the exchange"
Query = Callable[[hg.Table], hg.Table]


def rows(seed: int, count: int = 600) -> list[dict[str, Any]]:
    """Rows out of order, with ties, prices without a value, and times at the ends of windows."""
    rng = random.Random(seed)
    found: list[dict[str, Any]] = []
    for number in range(count):
        at = number * 20 + rng.choice((0, 0, 0, -300, -900))
        price = None if rng.random() < 0.1 else rng.randrange(30)
        found.append({"at": max(0, at // 100 * 100), "price": price, "who": f"{number}"})
    return found


def highest(table: hg.Table) -> hg.Table:
    """The greatest price of each second."""
    return table.group_by(F.window("at", "1s")).agg(F.max("price").alias("price"), uid="most")


def inner(table: hg.Table) -> hg.Table:
    """The rows with the greatest price of their second."""
    each = table.select("price", "who", F.window("at", "1s"))
    return each.join(highest(table), ["window", "price"], uid="joined")


def swapped(table: hg.Table) -> hg.Table:
    """The same, from the other side, of the least price."""
    least = table.group_by(F.window("at", "1s")).agg(F.min("price").alias("price"), uid="least")
    each = table.select("price", "who", F.window("at", "1s"))
    return least.join(each, ["window", "price"], "left", uid="joined")


def semi(table: hg.Table) -> hg.Table:
    """The rows themselves, of which some are filtered before."""
    each = table.filter(F.length("who") > 1).select("price", "who", F.window("at", "1s"))
    return each.join(highest(table), ["window", "price"], "semi", uid="joined")


def longer(table: hg.Table) -> hg.Table:
    """The rows that have it in a window that is longer than that of the prices, as in Nexmark's q7."""
    prices = highest(table).select("price", F.window(F.window_time("window"), "1101ms", "1s"))
    each = table.select("price", "who", F.window("at", "1101ms", "1s"))
    return each.join(prices, ["window", "price"], uid="joined")


def counted(table: hg.Table) -> hg.Table:
    """How many rows some prices have in windows that overlap, and their price, null for those without one."""
    windows, some = F.window("at", "2s", "1s"), F.coalesce("price", F.lit(-1)).alias("some")
    each = table.select("at", "price", some)
    return each.group_by("some", windows).agg(F.count("*").alias("n"), F.min("price").alias("p"), uid="n")


def most_of_windows(table: hg.Table) -> hg.Table:
    """The prices with most rows of each window, as in Nexmark's q5."""
    counts = counted(table)
    most = counts.group_by("window").agg(F.max("n").alias("n"), uid="most")
    return counts.select("window", "n", "some").join(most, ["window", "n"], uid="joined")


def least_of_windows(table: hg.Table) -> hg.Table:
    """The least price of some groups' windows; the column may have nulls."""
    counts = counted(table)
    least = counts.group_by("window").agg(F.min("p").alias("p"), uid="most")
    some = counts.filter(F.col("some") % 3 != 1).select("window", "p", "n")
    return least.join(some, ["window", "p"], "left", uid="joined")


DROPPING: dict[str, Query] = {
    "inner": inner,
    "swapped": swapped,
    "semi": semi,
    "longer": longer,
    "most of windows": most_of_windows,
    "least of windows": least_of_windows,
}


def outer(table: hg.Table) -> hg.Table:
    """All rows come out, with a partner or without."""
    each = table.select("price", "who", F.window("at", "1s"))
    return each.join(highest(table), ["window", "price"], "left", uid="joined")


def of_some(table: hg.Table) -> hg.Table:
    """The greatest price of some rows only."""
    each = table.select("price", "who", F.window("at", "1s"))
    return each.join(highest(table.filter(F.length("who") > 2)), ["window", "price"], uid="joined")


def by_key(table: hg.Table) -> hg.Table:
    """The greatest price of each who."""
    most = table.group_by("who", F.window("at", "1s")).agg(F.max("price").alias("price"), uid="most")
    each = table.select("price", "who", F.window("at", "1s"))
    return each.join(most, ["window", "price", "who"], uid="joined")


def by_key_of_windows(table: hg.Table) -> hg.Table:
    """The most rows of each price in a window."""
    counts = counted(table)
    most = counts.group_by("some", "window").agg(F.max("n").alias("n"), uid="most")
    return counts.select("window", "n", "some").join(most, ["window", "n", "some"], uid="joined")


def in_other_windows(table: hg.Table) -> hg.Table:
    """The most rows of a window, looked for in another one."""
    counts = counted(table)
    most = counts.group_by("window").agg(F.max("n").alias("n"), uid="most")
    later = most.select("n", F.window(F.window_time("window"), "3s"))
    each = counts.select("n", "some", F.window(F.window_time("window"), "3s"))
    return each.join(later, ["window", "n"], uid="joined")


def of_another_column(table: hg.Table) -> hg.Table:
    """The price is another one than that of which the greatest is asked for."""
    each = table.select((F.col("price") + 1).alias("price"), "who", F.window("at", "1s"))
    return each.join(highest(table), ["window", "price"], uid="joined")


def sliding(table: hg.Table) -> hg.Table:
    """A row lies in several windows of the aggregation."""
    most = table.group_by(F.window("at", "2s", "1s")).agg(F.max("price").alias("price"), uid="most")
    each = table.select("price", "who", F.window("at", "2s", "1s"))
    return each.join(most, ["window", "price"], uid="joined")


def two_results(table: hg.Table) -> hg.Table:
    """Two results of the aggregation lie in one window of the join."""
    most = highest(table).select("price", F.window(F.window_time("window"), "2s"))
    return table.select("price", "who", F.window("at", "2s")).join(most, ["window", "price"], uid="joined")


def overlapping(table: hg.Table) -> hg.Table:
    """A result of the aggregation lies in three windows of the join, and each of these has three."""
    most = highest(table).select("price", F.window(F.window_time("window"), "3s", "1s"))
    each = table.select("price", "who", F.window("at", "3s", "1s"))
    return each.join(most, ["window", "price"], uid="joined")


def with_a_default(table: hg.Table) -> hg.Table:
    """The program says what stands in the place of a missing price."""
    price = F.when(F.col("price").isNull(), 100).otherwise(F.col("price")).alias("price")
    each = table.select(price, "who", F.window("at", "1s"))
    return each.join(highest(table), ["window", "price"], uid="joined")


def changed_result(table: hg.Table) -> hg.Table:
    """The greatest price is another one afterwards."""
    price = F.when(F.col("price") > 10, 0).otherwise(F.col("price")).alias("price")
    each = table.select("price", "who", F.window("at", "1s"))
    return each.join(highest(table).select(price, "window"), ["window", "price"], uid="joined")


def failing(table: hg.Table) -> hg.Table:
    """What is computed of the greatest price fails for some prices, though for no greatest one."""
    most = highest(table).filter(F.lit(10) / (F.col("price") - 3) < 100)
    return table.select("price", "who", F.window("at", "1s")).join(most, ["window", "price"], uid="joined")


@F.udf("boolean")
def dear(price: int) -> bool:
    """Whether a price is high."""
    return price > 10


def called(table: hg.Table) -> hg.Table:
    """A function of the program sees the greatest prices, and no others."""
    most = highest(table).filter(dear(F.col("price")))
    return table.select("price", "who", F.window("at", "1s")).join(most, ["window", "price"], uid="joined")


ALL_TRAVEL: list[Query] = [
    outer, of_some, by_key, of_another_column, sliding, two_results, overlapping, with_a_default,
    changed_result, failing, called, by_key_of_windows, in_other_windows,
]  # fmt: skip


def answer(query: Query, given: list[dict[str, Any]], parallelism: int) -> list[str]:
    """What a query gives, in any order."""
    env = hg.Environment(parallelism=parallelism, executor=MiniCluster(), config=TINY)
    timed = env.from_collection(given).with_event_time("at", "1s")
    return sorted(str(row) for row in query(timed.to_table(COLUMNS)).collect())


@pytest.mark.ci
@pytest.mark.parametrize("name", DROPPING)
def test_dropping_changes_no_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties, nulls and rows at the ends of windows are as without it."""
    given, query = rows(len(name)), DROPPING[name]
    with_it = answer(query, given, 2)
    assert with_it
    monkeypatch.setattr(lowering, "extremes_of", lambda join, side: None)
    assert answer(query, given, 2) == with_it


def test_the_least_of_all_integers_is_less_than_any_other() -> None:
    """It has no negative."""
    prices = ((0, 5), (10, -(2**63)), (20, 3), (5_000, 0))
    found = answer(swapped, [{"at": at, "price": price, "who": "x"} for at, price in prices], 1)
    assert len(found) == 2
    assert str(-(2**63)) in "".join(found)


def test_columns_are_told_apart_by_name_not_by_place() -> None:
    """Two tables of one stream may have other columns at the same place."""
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=TINY)
    given = [
        {"at": at, "price": price, "cost": cost} for at, price, cost in ((0, 50, 7), (9, 7, 3), (9_000, 1, 0))
    ]
    timed = env.from_collection(given).with_event_time("at", "1s")
    costs = timed.to_table(pa.schema({"at": pa.int64(), "cost": pa.int64()}))
    prices = timed.to_table(pa.schema({"at": pa.int64(), "price": pa.int64()}))
    most = costs.group_by(F.window("at", "1s")).agg(F.max("cost").alias("price"), uid="most")
    each = prices.select("price", F.window("at", "1s"))
    assert [row["price"] for row in each.join(most, ["window", "price"], uid="joined").collect()] == [7]


def explained(query: Query) -> str:
    """The plan of a query."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    table = env.from_collection(rows(0)).with_event_time("at", "1s").to_table(COLUMNS)
    query(table).to_stream().collect_later()
    return env.explain()


@pytest.mark.parametrize("name", DROPPING)
def test_the_plan_says_that_rows_are_dropped(name: str) -> None:
    """And which."""
    assert DROPS in explained(DROPPING[name])


@pytest.mark.parametrize("query", ALL_TRAVEL, ids=lambda query: query.__name__)
def test_where_a_row_may_have_a_partner_it_travels(query: Query) -> None:
    """Nothing is known of these before the join."""
    assert DROPS not in explained(query)
