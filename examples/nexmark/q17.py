"""Nexmark q17: bids of each auction and day, counted by price.

    headgate run q17.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q17(bids: hg.Table) -> hg.Table:
    """Return numbers of bids in three ranges of prices, and least, greatest, mean and sum of prices."""
    price = F.col("price")
    low, middle, high = price < 10_000, (price >= 10_000) & (price < 1_000_000), price >= 1_000_000
    day = F.date_format("dateTime", "yyyy-MM-dd").alias("day")
    counted = bids.select("auction", day, "price").group_by("auction", "day")
    return counted.agg(
        F.count("*").alias("total_bids"),
        F.count_if(low).alias("rank1_bids"),
        F.count_if(middle).alias("rank2_bids"),
        F.count_if(high).alias("rank3_bids"),
        F.min("price").alias("min_price"),
        F.max("price").alias("max_price"),
        F.avg("price").alias("avg_price"),
        F.sum("price").alias("sum_price"),
        uid="days",
    )


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q17(bids).to_changes().write_parquet(output)
    env.execute("q17")
