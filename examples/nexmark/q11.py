"""Nexmark q11: the sessions of each bidder, which end when no bid comes for 10 s.

    headgate run q11.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q11(bids: hg.Table) -> hg.Table:
    """Return how many bids each session has, and from when to when it lasts."""
    sessions = bids.group_by("bidder", F.session_window("dateTime", "10s")).agg(
        F.count("*").alias("bid_count"), uid="sessions"
    )
    begin = F.col("session_window.start").alias("starttime")
    end = F.col("session_window.end").alias("endtime")
    return sessions.select("bidder", "bid_count", begin, end)


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q11(bids).write_parquet(output)
    env.execute("q11")
