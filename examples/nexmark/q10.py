"""Nexmark q10: a log of all bids in folders by day and minute, each record in it exactly once.

    headgate run q10.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q10(bids: hg.Table) -> hg.Table:
    """Return the bids, each with the day and the hour and minute of its time in UTC."""
    day = F.date_format("dateTime", "yyyy-MM-dd").alias("dt")
    minute = F.date_format("dateTime", "HH:mm").alias("hm")
    return bids.select("auction", "bidder", "price", "dateTime", "extra", day, minute)


def write(log: hg.Table, output: str) -> None:
    """Write the log into folders such as dt=2015-07-15/hm=00%3A01, and _SUCCESS when all of it is there."""
    log.write_parquet(output, partition_by=("dt", "hm"), success_markers=True, uid="out")


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    write(q10(bids), output)
    env.execute("q10")
