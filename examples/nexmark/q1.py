"""Nexmark q1: all bids, with their prices in another currency.

    headgate run q1.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys
from decimal import Decimal

import headgate as hg
import headgate.functions as F


def q1(bids: hg.Table) -> hg.Table:
    """Return the bids with the price times 0.908, exactly, with three places."""
    price = F.lit(Decimal("0.908")) * F.col("price")
    return bids.select("auction", "bidder", price.cast("decimal(23,3)").alias("price"), "dateTime", "extra")


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q1(bids).write_parquet(output)
    env.execute("q1")
