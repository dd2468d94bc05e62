"""Nexmark q3: who sells in category 10 in three states of the US.

    headgate run q3.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q3(persons: hg.Table, auctions: hg.Table) -> hg.Table:
    """Return such sellers with their auctions. Either may come first, so both are kept for ever."""
    local = persons.filter(F.col("state").isin("OR", "ID", "CA")).select("id", "name", "city", "state")
    offered = auctions.filter(F.col("category") == 10).select(
        F.col("seller").alias("id"), F.col("id").alias("auction")
    )
    both = local.join(offered, "id", uid="both")
    return both.select("name", "city", "state", F.col("auction").alias("id"))


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    persons = env.table(f"{events}/persons").with_watermark("dateTime", "4s")
    auctions = env.table(f"{events}/auctions").with_watermark("dateTime", "4s")
    q3(persons, auctions).write_parquet(output)
    env.execute("q3")
