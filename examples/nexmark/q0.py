"""Nexmark q0: all bids, without channel and url.

    headgate run q0.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg


def q0(bids: hg.Table) -> hg.Table:
    """Return five columns of each bid."""
    return bids.select("auction", "bidder", "price", "dateTime", "extra")


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q0(bids).write_parquet(output)
    env.execute("q0")
