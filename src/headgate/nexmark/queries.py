"""Nexmark's queries as tables of Headgate: filters, computed columns, counts in windows, and their joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import headgate.api.tables.aggregate_functions as agg
import headgate.api.tables.column_functions as F  # noqa: N812  # as users of PySpark write it
from headgate.api.environment import Environment
from headgate.api.tables.column import Column
from headgate.api.tables.column_table import Table

_OUT_OF_ORDERNESS: Final = "4s"
_SITE_PATTERN: Final = "(&|^)channel_id=([^&]*)"


class Inputs:
    """The tables of a dataset, whose event time is `dateTime`; `folder` has one of Parquet files for each."""

    def __init__(self, env: Environment, folder: Path) -> None:
        self._env, self._folder = env, folder

    def table(self, name: str) -> Table[Any]:
        """Return a table with event time, by the name of its folder."""
        table = self._env.table(self._folder / name, uid=name)
        return table.with_watermark("dateTime", _OUT_OF_ORDERNESS)

    @property
    def persons(self) -> Table[Any]:
        """The persons who registered."""
        return self.table("persons")

    @property
    def auctions(self) -> Table[Any]:
        """The auctions that were opened."""
        return self.table("auctions")

    @property
    def bids(self) -> Table[Any]:
        """The bids."""
        return self.table("bids")


def in_currency() -> Column:
    """Return the price times 0.908, exactly, with three places."""
    return (F.lit(Decimal("0.908")) * F.col("price")).cast("decimal(23,3)").alias("price")


def q0(inputs: Inputs) -> Table[Any]:
    """Return all bids, without channel and url."""
    return inputs.bids.select("auction", "bidder", "price", "dateTime", "extra")


def q1(inputs: Inputs) -> Table[Any]:
    """Return all bids with their prices in another currency."""
    return inputs.bids.select("auction", "bidder", in_currency(), "dateTime", "extra")


def q2(inputs: Inputs) -> Table[Any]:
    """Return auction and price of the bids on auctions whose id is a multiple of 123."""
    return inputs.bids.filter(F.col("auction") % 123 == 0).select("auction", "price")


def q5(inputs: Inputs) -> Table[Any]:
    """Return the auctions with most bids in each window of 10 s every 2 s, and the number of bids."""
    window = F.window("dateTime", "10s", "2s")
    counted = inputs.bids.group_by("auction", window).agg(agg.count("*").alias("num"), uid="counts")
    most = counted.group_by("window").agg(agg.max("num").alias("num"), uid="most")
    return counted.join(most, ["window", "num"], uid="hottest").select("auction", "num")


def q7(inputs: Inputs) -> Table[Any]:
    """Return the bids with the highest price of each window of 10 s, whose time may be the very end of it."""
    bids = inputs.bids
    highest = bids.group_by(F.window("dateTime", "10s")).agg(agg.max("price").alias("price"), uid="highest")
    # Windows that have the moment of their end as well, each with the highest price of the window without it.
    closed = {"size": 10_001, "slide": 10_000}
    highest = highest.select("price", F.window(F.window_time("window"), **closed))
    offers = bids.select("auction", "price", "bidder", "dateTime", "extra", F.window("dateTime", **closed))
    best = offers.join(highest, ["window", "price"], uid="best")
    return best.select("auction", "price", "bidder", "dateTime", "extra")


def q8(inputs: Inputs) -> Table[Any]:
    """Return the persons who registered and opened an auction in the same window of 10 s, and its start."""
    window = F.window("dateTime", "10s")
    registered = inputs.persons.group_by("id", "name", window).agg(
        agg.count("*").alias("times"), uid="registered"
    )
    opened = inputs.auctions.group_by("seller", window).agg(agg.count("*").alias("auctions"), uid="opened")
    sellers = opened.rename({"seller": "id"})
    both = registered.join(sellers, ["window", "id"], uid="both")
    return both.select("id", "name", F.col("window.start").alias("starttime"))


def q11(inputs: Inputs) -> Table[Any]:
    """Return each bidder's sessions: bids with pauses of at most 10 s, how many, and from when to when."""
    session = F.session_window("dateTime", "10s")
    counted = inputs.bids.group_by("bidder", session).agg(agg.count("*").alias("bid_count"), uid="sessions")
    begin = F.col("session_window.start").alias("starttime")
    end = F.col("session_window.end").alias("endtime")
    return counted.select("bidder", "bid_count", begin, end)


def q12(inputs: Inputs) -> Table[Any]:
    """Return how many bids each bidder made in each window of 10 s, by the times of the bids."""
    return _bids_by(inputs, F.col("dateTime"))


def q12_of_processing_time(inputs: Inputs) -> Table[Any]:
    """Return how many bids of each bidder were processed in each window of 10 s, by the workers' clocks."""
    return _bids_by(inputs, F.proctime())


def _bids_by(inputs: Inputs, time: Column) -> Table[Any]:
    counted = inputs.bids.group_by("bidder", F.window(time, "10s")).agg(
        agg.count("*").alias("bid_count"), uid="counts"
    )
    begin, end = F.col("window.start").alias("starttime"), F.col("window.end").alias("endtime")
    return counted.select("bidder", "bid_count", begin, end)


def q14(inputs: Inputs) -> Table[Any]:
    """Return the bids of a middle price, with the time of day and how many letters c their padding has."""
    hour = F.expr("hour", "dateTime")
    time = F.when(hour.between(8, 18), "dayTime").when(hour.between(7, 19), "otherTime")
    letters = F.expr("length", "extra") - F.expr("length", F.expr("replace", "extra", F.lit("c"), F.lit("")))
    price = in_currency()
    priced = inputs.bids.with_columns({"price": price, "c_counts": letters.cast("bigint")})
    middle = priced.filter((F.col("price") > 1_000_000) & (F.col("price") < 50_000_000))
    named = time.otherwise("nightTime").alias("bidTimeType")
    return middle.select("auction", "bidder", "price", named, "dateTime", "extra", "c_counts")


def q21(inputs: Inputs) -> Table[Any]:
    """Return the bids whose channel has an id: 0 to 3 for the hot channels, or what their URL says."""
    channel = F.expr("lower", "channel")
    known = F.when(channel == "apple", "0").when(channel == "google", "1")
    known = known.when(channel == "facebook", "2").when(channel == "baidu", "3")
    pattern = F.lit(_SITE_PATTERN)
    of_url = F.expr("regexp_extract", "url", pattern, F.lit(2))
    has_id = channel.isin("apple", "google", "facebook", "baidu") | F.expr("regexp_like", "url", pattern)
    return inputs.bids.filter(has_id).select(
        "auction", "bidder", "price", "channel", known.otherwise(of_url).alias("channel_id")
    )


def q22(inputs: Inputs) -> Table[Any]:
    """Return all bids with the fourth to sixth part of their URL, as cut at each slash."""
    parts = [
        F.expr("split_part", "url", F.lit("/"), F.lit(place)).alias(f"dir{place - 3}") for place in (4, 5, 6)
    ]
    return inputs.bids.select("auction", "bidder", "price", "channel", *parts)


QUERIES: Final[Mapping[str, Callable[[Inputs], Table[Any]]]] = {
    "q0": q0,
    "q1": q1,
    "q2": q2,
    "q5": q5,
    "q7": q7,
    "q8": q8,
    "q11": q11,
    "q12": q12,
    "q14": q14,
    "q21": q21,
    "q22": q22,
}
"""Name of a query -> what it makes of the inputs."""
