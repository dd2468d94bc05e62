"""Nexmark's queries as tables of Headgate: those that filter, compute columns, or count in windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import headgate.api.tables.column_functions as F  # noqa: N812  # as users of PySpark write it
from headgate.api.environment import Environment
from headgate.api.tables.column import Column
from headgate.api.tables.column_table import Table

Bids = Table[Any]
"""The table of bids, whose event time is `dateTime`."""

_OUT_OF_ORDERNESS: Final = "4s"
_SITE_PATTERN: Final = "(&|^)channel_id=([^&]*)"


def bids_of(env: Environment, folder: Path) -> Bids:
    """Return the bids of a dataset as a table; `folder` holds their Parquet files."""
    return env.table(folder, uid="bids").with_watermark("dateTime", _OUT_OF_ORDERNESS)


def in_currency() -> Column:
    """Return the price times 0.908, exactly, with three places."""
    return (F.lit(Decimal("0.908")) * F.col("price")).cast("decimal(23,3)").alias("price")


def q0(bids: Bids) -> Table[Any]:
    """Return all bids, without channel and url."""
    return bids.select("auction", "bidder", "price", "dateTime", "extra")


def q1(bids: Bids) -> Table[Any]:
    """Return all bids with their prices in another currency."""
    return bids.select("auction", "bidder", in_currency(), "dateTime", "extra")


def q2(bids: Bids) -> Table[Any]:
    """Return auction and price of the bids on auctions whose id is a multiple of 123."""
    return bids.filter(F.col("auction") % 123 == 0).select("auction", "price")


def q12(bids: Bids) -> Table[Any]:
    """Return how many bids each bidder made in each window of 10 s, by the times of the bids."""
    counted = bids.group_by("bidder", F.window("dateTime", "10s")).agg(
        F.count("*").alias("bid_count"), uid="counts"
    )
    begin, end = F.col("window.start").alias("starttime"), F.col("window.end").alias("endtime")
    return counted.select("bidder", "bid_count", begin, end)


def q14(bids: Bids) -> Table[Any]:
    """Return the bids of a middle price, with the time of day and how many letters c their padding has."""
    hour = F.expr("hour", "dateTime")
    time = F.when(hour.between(8, 18), "dayTime").when(hour.between(7, 19), "otherTime")
    letters = F.expr("length", "extra") - F.expr("length", F.expr("replace", "extra", F.lit("c"), F.lit("")))
    price = in_currency()
    priced = bids.with_columns({"price": price, "c_counts": letters.cast("bigint")})
    middle = priced.filter((F.col("price") > 1_000_000) & (F.col("price") < 50_000_000))
    named = time.otherwise("nightTime").alias("bidTimeType")
    return middle.select("auction", "bidder", "price", named, "dateTime", "extra", "c_counts")


def q21(bids: Bids) -> Table[Any]:
    """Return the bids whose channel has an id: 0 to 3 for the hot channels, or what their URL says."""
    channel = F.expr("lower", "channel")
    known = F.when(channel == "apple", "0").when(channel == "google", "1")
    known = known.when(channel == "facebook", "2").when(channel == "baidu", "3")
    pattern = F.lit(_SITE_PATTERN)
    of_url = F.expr("regexp_extract", "url", pattern, F.lit(2))
    has_id = channel.isin("apple", "google", "facebook", "baidu") | F.expr("regexp_like", "url", pattern)
    return bids.filter(has_id).select(
        "auction", "bidder", "price", "channel", known.otherwise(of_url).alias("channel_id")
    )


def q22(bids: Bids) -> Table[Any]:
    """Return all bids with the fourth to sixth part of their URL, as cut at each slash."""
    parts = [
        F.expr("split_part", "url", F.lit("/"), F.lit(place)).alias(f"dir{place - 3}") for place in (4, 5, 6)
    ]
    return bids.select("auction", "bidder", "price", "channel", *parts)


QUERIES: Final[Mapping[str, Callable[[Bids], Table[Any]]]] = {
    "q0": q0,
    "q1": q1,
    "q2": q2,
    "q12": q12,
    "q14": q14,
    "q21": q21,
    "q22": q22,
}
"""Name of a query -> what it makes of the bids."""
