"""Nexmark cep1: runs of cheap bids of a bidder on an auction.

    headgate run cep1.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def cep1(bids: hg.Table) -> hg.Table:
    """Return runs of bids whose mean price stays below 10,000; a run begins after the bid that ended the
    last one.
    """
    return bids.match(
        ["auction", "bidder"],
        "A+ B",
        define={"A": F.avg("A.price") < 10_000},
        measures={
            "start_tstamp": F.first("A.dateTime"),
            "end_tstamp": F.last("A.dateTime"),
            "avg_price": F.floor(F.avg("A.price")),
        },
        skip="past last row",
        order_by="price",
        uid="runs",
    )


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    cep1(bids).write_parquet(output)
    env.execute("cep1")
