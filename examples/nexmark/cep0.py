"""Nexmark cep0: falling and then rising prices of a bidder on an auction, as the pattern of a V.

    headgate run cep0.py EVENTS OUTPUT

EVENTS is a folder that make_events.py has filled.
"""

from __future__ import annotations

import sys

import headgate as hg
import headgate.functions as F
import headgate.patterns as P


def cep0(bids: hg.Table) -> hg.Table:
    """Return when a bidder's prices on an auction began to fall, were lowest, and had risen again."""
    falls = F.col("price") < P.last("PRICE_DOWN.price", 1)
    first_fall = P.last("PRICE_DOWN.price", 1).isNull() & (F.col("price") < F.col("START_ROW.price"))
    return bids.match(
        ["auction", "bidder"],
        "START_ROW PRICE_DOWN+ PRICE_UP",
        define={
            "PRICE_DOWN": first_fall | falls,
            "PRICE_UP": F.col("price") > P.last("PRICE_DOWN.price", 1),
        },
        measures={
            "start_tstamp": F.col("START_ROW.dateTime"),
            "bottom_tstamp": F.last("PRICE_DOWN.dateTime"),
            "end_tstamp": F.last("PRICE_UP.dateTime"),
        },
        skip="to last PRICE_UP",
        order_by="price",
        uid="v",
    )


if __name__ == "__main__":
    events, output = sys.argv[1:]
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    bids = env.table(f"{events}/bids").with_watermark("dateTime", "4s")
    cep0(bids).write_parquet(output)
    env.execute("cep0")
