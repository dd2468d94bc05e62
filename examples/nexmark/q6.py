"""Nexmark q6: the mean of the last winning prices of each seller.

    headgate run q6.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q6(auctions: hg.Table, bids: hg.Table) -> hg.Table:
    """Return for each winning bid the mean of its price and of the ten before it, of auctions of that
    seller.
    """
    opened = auctions.select("id", "seller", F.col("dateTime").alias("opens"), "expires")
    offers = bids.select(F.col("auction").alias("id"), "bidder", "price", "dateTime", "extra")
    valid = opened.join(offers, "id", uid="both").filter(
        F.col("dateTime").between(F.col("opens"), F.col("expires"))
    )
    best = F.desc("price"), F.asc("dateTime"), F.asc("bidder"), F.asc("extra")
    winners = valid.top_n(1, "id", best, uid="winners").select("id", "seller", "price", "dateTime")
    mean = F.avg("price").alias("mean")
    lately = winners.over(mean, by="seller", order_by=["dateTime", "id"], preceding=10, uid="lately")
    return lately.select("seller", F.floor("mean").alias("avg"))


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    auctions = env.table(f"{events}/auctions").with_watermark("dateTime", "4s")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q6(auctions, bids).to_changes().write_parquet(output)
    env.execute("q6")
