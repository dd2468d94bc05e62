"""Nexmark q14: the bids of a middle price, with the time of day, and how often they have the letter c.

    headgate run q14.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys
from decimal import Decimal

import headgate as hg
import headgate.functions as F


def q14(bids: hg.Table) -> hg.Table:
    """Return the bids whose price times 0.908 is between 1 and 50 million."""
    hour = F.hour("dateTime")
    time = F.when(hour.between(8, 18), "dayTime").when(hour.between(7, 19), "otherTime")
    letters = F.length("extra") - F.length(F.replace("extra", F.lit("c"), F.lit("")))
    priced = bids.with_column("price", (F.lit(Decimal("0.908")) * F.col("price")).cast("decimal(23,3)"))
    return priced.filter((F.col("price") > 1_000_000) & (F.col("price") < 50_000_000)).select(
        "auction",
        "bidder",
        "price",
        time.otherwise("nightTime").alias("bidTimeType"),
        "dateTime",
        "extra",
        letters.cast("bigint").alias("c_counts"),
    )


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q14(bids).write_parquet(output)
    env.execute("q14")
