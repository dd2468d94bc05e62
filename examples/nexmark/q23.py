"""Nexmark q23: bids of persons who sell auctions themselves, with person and auctions.

    headgate run q23.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q23(bids: hg.Table, persons: hg.Table, auctions: hg.Table) -> hg.Table:
    """Return each bid with its bidder and with each auction that this person sells."""
    bid = bids.select(
        "auction", F.col("bidder").alias("person"), "price", "channel", "url", "dateTime", "extra"
    )
    person = persons.select(
        F.col("id").alias("person"), "name", "emailAddress", "creditCard", "city", "state",
        F.col("dateTime").alias("person_dateTime"), F.col("extra").alias("person_extra"),
    )  # fmt: skip
    sold = auctions.select(
        F.col("seller").alias("person"), F.col("id").alias("sold"), "itemName", "description",
        "initialBid", "reserve", "expires", "category",
    )  # fmt: skip
    return bid.join([person, sold], "person", uid="sellers")


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    names = "bids", "persons", "auctions"
    tables = [env.table(f"{events}/{name}").with_watermark("dateTime", "4s") for name in names]
    q23(*tables).write_parquet(output)
    env.execute("q23")
