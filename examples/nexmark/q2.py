"""Nexmark q2: the bids on every 123rd auction.

    headgate run q2.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q2(bids: hg.Table) -> hg.Table:
    """Return auction and price of the bids on auctions whose id is a multiple of 123."""
    return bids.filter(F.col("auction") % 123 == 0).select("auction", "price")


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q2(bids).write_parquet(output)
    env.execute("q2")
