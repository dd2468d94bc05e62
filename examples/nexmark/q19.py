"""Nexmark q19: the ten highest bids of each auction.

    headgate run q19.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q19(bids: hg.Table) -> hg.Table:
    """Return these bids with their places; of equal ones the earlier one is ahead."""
    best = F.desc("price"), F.asc("dateTime"), F.asc("bidder"), F.asc("channel"), F.asc("url"), F.asc("extra")
    return bids.top_n(10, "auction", best, rank="rank_number", uid="highest")


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q19(bids).to_changes().write_parquet(output)
    env.execute("q19")
