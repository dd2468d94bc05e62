"""Nexmark cep2: runs of cheap bids of a bidder on an auction, which may overlap.

    headgate run cep2.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def cep2(bids: hg.Table) -> hg.Table:
    """Return runs of bids whose mean price stays below 10,000, one for each bid at which one can begin."""
    return bids.match(
        ["auction", "bidder"],
        "A+ B",
        define={"A": F.avg("A.price") < 10_000},
        measures={
            "start_tstamp": F.first("A.dateTime"),
            "end_tstamp": F.last("A.dateTime"),
            "avg_price": F.floor(F.avg("A.price")),
        },
        skip="to next row",
        order_by="price",
        uid="runs",
    )


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    cep2(bids).write_parquet(output)
    env.execute("cep2")
