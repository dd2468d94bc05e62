"""Nexmark q7: the highest bids of each 10 s.

    headgate run q7.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q7(bids: hg.Table) -> hg.Table:
    """Return the bids with the highest price of each window; their time may also be the very end of it."""
    highest = bids.group_by(F.window("dateTime", "10s")).agg(F.max("price").alias("price"), uid="highest")
    # The public query compares with BETWEEN, which takes in the end. So each bid is put into windows that are
    # a millisecond longer, and so are the prices, which were found without that millisecond.
    longer = {"size": 10_001, "slide": 10_000}
    highest = highest.select("price", F.window(F.window_time("window"), **longer))
    columns = ["auction", "price", "bidder", "dateTime", "extra"]
    offers = bids.select(*columns, F.window("dateTime", **longer))
    return offers.join(highest, ["window", "price"], uid="best").select(*columns)


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q7(bids).write_parquet(output)
    env.execute("q7")
