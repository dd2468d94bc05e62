"""Nexmark q4: the mean of the winning prices of each category.

    headgate run q4.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q4(auctions: hg.Table, bids: hg.Table) -> hg.Table:
    """Return the mean, without a fraction, of the highest valid bids of a category's auctions."""
    opened = auctions.select("id", "category", F.col("dateTime").alias("opens"), "expires")
    offers = bids.select(F.col("auction").alias("id"), "price", "dateTime")
    valid = opened.join(offers, "id", uid="both").filter(
        F.col("dateTime").between(F.col("opens"), F.col("expires"))
    )
    highest = valid.group_by("id", "category").agg(F.max("price").alias("final"), uid="highest")
    means = highest.group_by("category").agg(
        F.sum("final").alias("total"), F.count("*").alias("n"), uid="means"
    )
    return means.select("category", F.floor(F.col("total") / F.col("n")).alias("avg"))


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    auctions = env.table(f"{events}/auctions").with_watermark("dateTime", "4s")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q4(auctions, bids).to_changes().write_parquet(output)
    env.execute("q4")
