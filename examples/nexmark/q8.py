"""Nexmark q8: who registered and opened an auction within the same 10 s.

    headgate run q8.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def q8(persons: hg.Table, auctions: hg.Table) -> hg.Table:
    """Return such persons, each once for a window, with the beginning of the window."""
    window = F.window("dateTime", "10s")
    registered = persons.group_by("id", "name", window).agg(F.count("*").alias("times"), uid="registered")
    opened = auctions.group_by("seller", window).agg(F.count("*").alias("auctions"), uid="opened")
    both = registered.join(opened.rename({"seller": "id"}), ["window", "id"], uid="both")
    return both.select("id", "name", F.col("window.start").alias("starttime"))


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    persons = env.table(f"{events}/persons").with_watermark("dateTime", "4s")
    auctions = env.table(f"{events}/auctions").with_watermark("dateTime", "4s")
    q8(persons, auctions).write_parquet(output)
    env.execute("q8")
