"""Nexmark q15: bids, bidders and auctions of each day.

    headgate run q15.py EVENTS OUTPUT

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


def q15(bids: hg.Table) -> hg.Table:
    """Return these numbers for each day, in UTC."""
    day = F.date_format("dateTime", "yyyy-MM-dd").alias("day")
    return bids.select(day, "price", "bidder", "auction").group_by("day").agg(*counts(), uid="days")


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q15(bids).to_changes().write_parquet(output)
    env.execute("q15")
