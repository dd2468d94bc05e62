"""Nexmark's joins without windows, as every engine is asked: each row of the answer is sent once, and rows of
both sides are kept.
"""

from __future__ import annotations

from typing import Final

from bench.compare.entries import NOT_WRITTEN, Query

SELLERS: Final = """
    SELECT P.name, P.city, P.`state`, A.id FROM auction AS A JOIN person AS P ON A.seller = P.id
    WHERE A.category = 10 AND P.`state` IN ('OR', 'ID', 'CA')
"""
BIDS_WITH_AUCTIONS: Final = """
    SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.`dateTime`, B.extra, A.`itemName`, A.description,
        A.`initialBid`, A.reserve, A.`dateTime`, A.expires, A.seller, A.category, A.extra
    FROM bid AS B JOIN auction AS A ON B.auction = A.id WHERE A.category = 10
"""
BIDS_OF_SELLERS: Final = """
    SELECT P.id, B.auction, B.price, B.channel, B.url, B.`dateTime`, B.extra, P.name, P.`emailAddress`,
        P.`creditCard`, P.city, P.`state`, P.`dateTime`, P.extra, A.id, A.`itemName`, A.description,
        A.`initialBid`, A.reserve, A.expires, A.category
    FROM bid AS B JOIN person AS P ON P.id = B.bidder JOIN auction AS A ON A.seller = B.bidder
"""

JOINED: Final = (
    Query(
        "q3",
        "sellers of a category in three states, joined with their auctions",
        SELLERS,
        SELLERS,
        "q3",
        "q3",
        tables=("person", "auction"),
    ),
    Query(
        "q13",
        "bids with values from a table that does not change",
        # Flink's connectors for files cannot be looked up; joined as of a time, no bid is kept for long.
        flink="""
            SELECT B.auction, B.bidder, B.price, B.`dateTime`, CAST(S.digits AS STRING)
            FROM (SELECT *, MOD(auction, 10000) AS place FROM bid) AS B
            JOIN side_input FOR SYSTEM_TIME AS OF B.event_time AS S ON B.place = S.place
        """,
        spark="""
            SELECT auction, bidder, price, `dateTime`, text FROM bid JOIN (
                SELECT id AS place, CAST(id AS STRING) AS text FROM range(10000)
            ) AS side_input ON auction % 10000 = place
        """,
        bytewax="q13",
        pathway=NOT_WRITTEN,
    ),
    Query(
        "q20",
        "bids joined with the auctions of a category",
        BIDS_WITH_AUCTIONS,
        BIDS_WITH_AUCTIONS,
        "q20",
        "q20",
        tables=("bid", "auction"),
    ),
    Query(
        "q23",
        "bids joined with their bidders and with the auctions that these sell",
        BIDS_OF_SELLERS,
        BIDS_OF_SELLERS,
        NOT_WRITTEN,
        NOT_WRITTEN,
        tables=("bid", "person", "auction"),
    ),
)
"""The queries, in the order of their numbers."""
