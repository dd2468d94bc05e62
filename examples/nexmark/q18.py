"""Nexmark q18: the last bid of each bidder on each auction.

    headgate run q18.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q18(bids: hg.Table) -> hg.Table:
    """Return these bids; of those at one time the one with the highest price."""
    last = F.desc("dateTime"), F.desc("price"), F.asc("channel"), F.asc("url"), F.asc("extra")
    return bids.top_n(1, ["bidder", "auction"], last, uid="last")


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q18(bids).to_changes().write_parquet(output)
    env.execute("q18")
