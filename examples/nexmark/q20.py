"""Nexmark q20: bids with the auction that they are for, in one category.

    headgate run q20.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q20(bids: hg.Table, auctions: hg.Table) -> hg.Table:
    """Return the bids on auctions of category 10, with both. A bid may come before its auction."""
    of_category = auctions.filter(F.col("category") == 10).select(
        F.col("id").alias("auction"),
        "itemName",
        "description",
        "initialBid",
        "reserve",
        F.col("dateTime").alias("auction_dateTime"),
        "expires",
        "seller",
        "category",
        F.col("extra").alias("auction_extra"),
    )
    bid = bids.select("auction", "bidder", "price", "channel", "url", "dateTime", "extra")
    return bid.join(of_category, "auction", uid="both")


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    auctions = env.table(f"{events}/auctions").with_watermark("dateTime", "4s")
    q20(bids, auctions).write_parquet(output)
    env.execute("q20")
