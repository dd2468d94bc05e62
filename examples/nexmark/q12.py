"""Nexmark q12: how many bids each bidder makes in each 10 s, by the times of the bids.

    headgate run q12.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q12(bids: hg.Table) -> hg.Table:
    """Return the counts of bidder and window, by the times of the bids."""
    return counts(bids, F.col("dateTime"))


def q12_of_processing_time(bids: hg.Table) -> hg.Table:
    """Return the counts of bidder and window of the wall clock, as the public query has it."""
    return counts(bids, F.proctime())


def counts(bids: hg.Table, time: F.Column) -> hg.Table:
    """Return how many bids each bidder made in each 10 s."""
    counted = bids.group_by("bidder", F.window(time, "10s")).agg(
        F.count("*").alias("bid_count"), uid="counts"
    )
    begin, end = F.col("window.start").alias("starttime"), F.col("window.end").alias("endtime")
    return counted.select("bidder", "bid_count", begin, end)


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q12(bids).write_parquet(output)
    env.execute("q12")
