"""Nexmark q9: the winning bid of each auction.

    headgate run q9.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q9(auctions: hg.Table, bids: hg.Table) -> hg.Table:
    """Return each auction with the highest bid of its time; of equal ones the first, or of the least
    bidder.
    """
    offers = bids.select(
        F.col("auction").alias("id"),
        "bidder",
        "price",
        F.col("dateTime").alias("bid_dateTime"),
        F.col("extra").alias("bid_extra"),
    )
    both = auctions.join(offers, "id", uid="both")
    valid = both.filter(F.col("bid_dateTime").between(F.col("dateTime"), F.col("expires")))
    best = F.desc("price"), F.asc("bid_dateTime"), F.asc("bidder"), F.asc("bid_extra")
    winners = valid.top_n(1, "id", best, uid="winners")
    of_bid = F.col("id").alias("auction"), "bidder", "price", "bid_dateTime", "bid_extra"
    return winners.select(*auctions.columns, *of_bid)


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    auctions = env.table(f"{events}/auctions").with_watermark("dateTime", "4s")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q9(auctions, bids).to_changes().write_parquet(output)
    env.execute("q9")
