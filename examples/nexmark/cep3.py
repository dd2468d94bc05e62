"""Nexmark cep3: drops of a bidder's price on an auction within 5 s.

    headgate run cep3.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F


def cep3(bids: hg.Table) -> hg.Table:
    """Return when a bidder's price on an auction was more than 50 lower than one less than 5 s before, and
    by how much.
    """
    return bids.match(
        ["auction", "bidder"],
        "A B* C",
        define={
            "B": F.col("price") > F.col("A.price") - 50,
            "C": F.col("price") < F.col("A.price") - 50,
        },
        measures={
            "drop_time": F.col("C.dateTime"),
            "drop_diff": F.col("A.price") - F.col("C.price"),
        },
        within="5s",
        order_by="price",
        uid="drops",
    )


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    cep3(bids).write_parquet(output)
    env.execute("cep3")
