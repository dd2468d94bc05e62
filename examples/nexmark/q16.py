"""Nexmark q16: bids, bidders and auctions of each channel and day.

    headgate run q16.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F

RANKS = {
    "rank1": F.col("price") < 10_000,
    "rank2": (F.col("price") >= 10_000) & (F.col("price") < 1_000_000),
    "rank3": F.col("price") >= 1_000_000,
}
"""Of prices, in cents."""


def counts() -> list[F.Column]:
    """Numbers of bids, of different bidders and of different auctions: of all bids, and of each rank."""
    made = [F.count("*").alias("total_bids")]
    made += [F.count_if(within).alias(f"{rank}_bids") for rank, within in RANKS.items()]
    for what in ("bidder", "auction"):
        made.append(F.count_distinct(what).alias(f"total_{what}s"))
        for rank, within in RANKS.items():
            made.append(F.count_distinct(F.when(within, F.col(what))).alias(f"{rank}_{what}s"))
    return made


def q16(bids: hg.Table) -> hg.Table:
    """Return these numbers for each channel and day, in UTC, and the last minute of a bid."""
    day = F.date_format("dateTime", "yyyy-MM-dd").alias("day")
    minute = F.date_format("dateTime", "HH:mm").alias("minute")
    of_day = bids.select("channel", day, minute, "price", "bidder", "auction").group_by("channel", "day")
    return of_day.agg(F.max("minute").alias("minute"), *counts(), uid="days")


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q16(bids).to_changes().write_parquet(output)
    env.execute("q16")
