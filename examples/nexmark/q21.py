"""Nexmark q21: the bids whose channel has an id.

    headgate run q21.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F

PATTERN = "(&|^)channel_id=([^&]*)"


def q21(bids: hg.Table) -> hg.Table:
    """Return these bids with the id: 0 to 3 for the hot channels, or what the URL says."""
    channel = F.lower("channel")
    known = F.when(channel == "apple", "0").when(channel == "google", "1")
    known = known.when(channel == "facebook", "2").when(channel == "baidu", "3")
    channel_id = known.otherwise(F.regexp_extract("url", PATTERN, 2))
    is_hot = channel.isin("apple", "google", "facebook", "baidu")
    return bids.filter(is_hot | F.regexp_like("url", F.lit(PATTERN))).select(
        "auction", "bidder", "price", "channel", channel_id.alias("channel_id")
    )


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    q21(bids).write_parquet(output)
    env.execute("q21")
