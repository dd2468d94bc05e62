"""Nexmark q22: all bids with three parts of their URL.

    headgate run q22.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q22(bids: hg.Table) -> hg.Table:
    """Return the bids with the fourth to sixth part of the URL, as cut at each slash."""
    parts = [F.split_part("url", F.lit("/"), F.lit(n)).alias(f"dir{n - 3}") for n in (4, 5, 6)]
    return bids.select("auction", "bidder", "price", "channel", *parts)


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q22(bids).write_parquet(output)
    env.execute("q22")
