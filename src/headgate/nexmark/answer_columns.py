"""The columns of the answers to Nexmark's queries, as the public definition has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from headgate.nexmark.generator import AUCTIONS, BIDS, PERSONS

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_DECIMAL: Final = pa.decimal128(23, 3)
_RANKS: Final = {
    "total": "true",
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}
"""Ranks of prices -> their condition."""

COUNTED_BY_RANK: Final = [
    (f"{rank}_{what}", "*" if what == "bids" else f"DISTINCT {what.removesuffix('s')}", condition)
    for what in ("bids", "bidders", "auctions")
    for rank, condition in _RANKS.items()
]
"""Name, what is counted, and the condition, of each count by ranks."""


def _bid_columns(*names: str) -> pa.Schema:
    return pa.schema([BIDS.field(name) for name in names])


_PLAIN_BID: Final = _bid_columns("auction", "bidder", "price", "dateTime", "extra")
_SITE_BID: Final = _bid_columns("auction", "bidder", "price", "channel")
_COUNTED: Final = pa.schema(
    {"bidder": pa.int64(), "bid_count": pa.int64(), "starttime": TIMESTAMP, "endtime": TIMESTAMP}
)
_CONVERTED: Final = _PLAIN_BID.set(2, pa.field("price", _DECIMAL))

_AUCTION_OF_BID: Final = [
    AUCTIONS.field(name)
    for name in ("itemName", "description", "initialBid", "reserve", "expires", "seller", "category")
]
_RANKED_DAY: Final = pa.schema(
    {
        "auction": pa.int64(),
        "day": pa.string(),
        **dict.fromkeys(("total_bids", "rank1_bids", "rank2_bids", "rank3_bids"), pa.int64()),
        "min_price": pa.int64(),
        "max_price": pa.int64(),
        "avg_price": pa.float64(),
        "sum_price": pa.int64(),
    }
)
_BY_RANK: Final = [pa.field(name, pa.int64()) for name, _, _ in COUNTED_BY_RANK]


def _timed(name: str) -> pa.Field:
    return pa.field(name, TIMESTAMP)


def _of_bidder(*fields: pa.Field) -> pa.Schema:
    return pa.schema([*_bid_columns("auction", "bidder"), *fields])


_CHEAP_RUN: Final = _of_bidder(
    _timed("start_tstamp"), _timed("end_tstamp"), pa.field("avg_price", pa.int64())
)


COLUMNS: Final[Mapping[str, pa.Schema]] = {
    "q0": _PLAIN_BID,
    "q1": _CONVERTED,
    "q2": _bid_columns("auction", "price"),
    "q3": pa.schema([*(PERSONS.field(name) for name in ("name", "city", "state")), PERSONS.field("id")]),
    "q4": pa.schema({"category": pa.int64(), "avg": pa.int64()}),
    "q5": pa.schema({"auction": pa.int64(), "num": pa.int64()}),
    "q6": pa.schema({"seller": pa.int64(), "avg": pa.int64()}),
    "q7": _bid_columns("auction", "price", "bidder", "dateTime", "extra"),
    "q8": pa.schema({"id": pa.int64(), "name": pa.string(), "starttime": TIMESTAMP}),
    "q9": pa.schema(
        [
            *AUCTIONS,
            *_bid_columns("auction", "bidder", "price"),
            _timed("bid_dateTime"),
            pa.field("bid_extra", pa.string()),
        ]
    ),
    "q10": _PLAIN_BID.append(pa.field("dt", pa.string())).append(pa.field("hm", pa.string())),
    "q11": _COUNTED,
    "q12": _COUNTED,
    "q13": _bid_columns("auction", "bidder", "price", "dateTime").append(pa.field("value", pa.string())),
    "q14": _CONVERTED.insert(3, pa.field("bidTimeType", pa.string())).append(
        pa.field("c_counts", pa.int64())
    ),
    "q15": pa.schema([pa.field("day", pa.string()), *_BY_RANK]),
    "q16": pa.schema([*(pa.field(name, pa.string()) for name in ("channel", "day", "minute")), *_BY_RANK]),
    "q17": _RANKED_DAY,
    "q18": BIDS,
    "q19": BIDS.append(pa.field("rank_number", pa.int64())),
    "q20": pa.schema(
        [
            *BIDS,
            *_AUCTION_OF_BID[:4],
            _timed("auction_dateTime"),
            *_AUCTION_OF_BID[4:],
            pa.field("auction_extra", pa.string()),
        ]
    ),
    "q21": _SITE_BID.append(pa.field("channel_id", pa.string())),
    "q22": pa.schema([*_SITE_BID, *(pa.field(name, pa.string()) for name in ("dir1", "dir2", "dir3"))]),
    "q23": pa.schema(
        [
            pa.field("person", pa.int64()),
            *_bid_columns("auction", "price", "channel", "url", "dateTime", "extra"),
            *(PERSONS.field(name) for name in ("name", "emailAddress", "creditCard", "city", "state")),
            _timed("person_dateTime"),
            pa.field("person_extra", pa.string()),
            pa.field("sold", pa.int64()),
            *(field for field in _AUCTION_OF_BID if field.name != "seller"),
        ]
    ),
    "cep0": _of_bidder(*map(_timed, ("start_tstamp", "bottom_tstamp", "end_tstamp"))),
    "cep1": _CHEAP_RUN,
    "cep2": _CHEAP_RUN,
    "cep3": _of_bidder(_timed("drop_time"), pa.field("drop_diff", pa.int64())),
}
"""Query -> the columns of its answer."""
