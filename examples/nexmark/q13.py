"""Nexmark q13: bids with values from a table that does not change.

    headgate run q13.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import headgate as hg
import headgate.functions as F

VALUES = pa.table({"key": range(10_000), "value": [str(number) for number in range(10_000)]})


def q13(bids: hg.Table) -> hg.Table:
    """Return all bids, each with the value for the last four digits of its auction."""
    bid = bids.select("auction", "bidder", "price", "dateTime", (F.col("auction") % 10_000).alias("key"))
    return bid.lookup(VALUES, "key").drop("key")


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q13(bids).write_parquet(output)
    env.execute("q13")
