"""Nexmark q5: the auctions with most bids in the last 10 s, every 2 s.

    headgate run q5.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q5(bids: hg.Table) -> hg.Table:
    """Return the auctions with most bids in each window, several where they tie, and how many bids."""
    counts = bids.group_by("auction", F.window("dateTime", "10s", "2s")).agg(
        F.count("*").alias("num"), uid="counts"
    )
    most = counts.group_by("window").agg(F.max("num").alias("num"), uid="most")
    return counts.join(most, ["window", "num"], uid="hottest").select("auction", "num")


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q5(bids).write_parquet(output)
    env.execute("q5")
