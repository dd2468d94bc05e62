"""Nexmark's queries whose rows are corrected as more events come, as every engine is asked."""

from __future__ import annotations

from typing import Final

from bench.compare.entries import NOT_WRITTEN, Lacking, Query

DAY: Final = "DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')"
MINUTE: Final = "DATE_FORMAT(`dateTime`, 'HH:mm')"
RANKS: Final = ("", "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
"""Conditions of the ranks of prices; the first is for all bids."""


def counted(aggregate: str, number: str = "{}") -> str:
    """An aggregate of all bids, and of the bids of each rank; `number` makes a number of each."""
    found = [f"{aggregate} FILTER (WHERE {rank})" if rank else aggregate for rank in RANKS]
    return ", ".join(number.format(each) for each in found)


FLINK_COUNTS: Final = ", ".join(
    counted(f"COUNT({what})") for what in ("*", "DISTINCT bidder", "DISTINCT auction")
)
# Spark refuses COUNT(DISTINCT) of a stream; how many values a set has is the same number.
SPARK_COUNTS: Final = ", ".join(
    [
        counted("COUNT(*)"),
        *(counted(f"COLLECT_SET({what})", "CAST(SIZE({}) AS BIGINT)") for what in ("bidder", "auction")),
    ]
)
PRICES: Final = f"""
    SELECT auction, {DAY}, {counted("COUNT(*)")},
        MIN(price), MAX(price), AVG(CAST(price AS DOUBLE)), SUM(price)
    FROM bid GROUP BY auction, {DAY}
"""
VALID_BIDS: Final = """
    auction AS A JOIN bid AS B ON A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires
"""
BEST_FIRST: Final = "ORDER BY B.price DESC, B.`dateTime` ASC, B.bidder ASC, B.extra ASC"
AUCTION: Final = (
    "id, `itemName`, description, `initialBid`, reserve, `dateTime`, expires, seller, category, extra"
)
BID: Final = "auction, bidder, price, channel, url, `dateTime`, extra"

NOT_AFTER_A_JOIN: Final = Lacking(
    "Spark joins two streams only in append mode, where no aggregate without a window sends anything"
)
NO_SQL_OF_FLINK: Final = Lacking(
    "Flink's OVER with a number of rows is ordered by event time alone, which a corrected row, as a winning "
    "bid is, does not have"
)

CORRECTED: Final = (
    Query(
        "q4",
        "mean of the winning prices of a category",
        flink=f"""
            SELECT category, AVG(final) FROM (
                SELECT A.id, A.category, MAX(B.price) AS final FROM {VALID_BIDS} GROUP BY A.id, A.category
            ) AS highest GROUP BY category
        """,
        spark=NOT_AFTER_A_JOIN,
        bytewax=NOT_WRITTEN,
        pathway="q4",
        tables=("auction", "bid"),
        counted="avg",
        updating=True,
        key=("category",),
    ),
    Query(
        "q6",
        "mean of the last winning prices of a seller",
        flink=NO_SQL_OF_FLINK,
        spark=NOT_AFTER_A_JOIN,
        bytewax=NOT_WRITTEN,
        pathway=NOT_WRITTEN,
        tables=("auction", "bid"),
        updating=True,
    ),
    Query(
        "q9",
        "the winning bid of each auction",
        flink=f"""
            SELECT {AUCTION}, auction, bidder, price, bid_time, bid_extra FROM (
                SELECT {", ".join(f"A.{name}" for name in AUCTION.split(", "))}, B.auction, B.bidder, B.price,
                    B.`dateTime` AS bid_time, B.extra AS bid_extra,
                    ROW_NUMBER() OVER (PARTITION BY A.id {BEST_FIRST}) AS place
                FROM {VALID_BIDS}
            ) AS ranked WHERE place <= 1
        """,
        spark=NOT_AFTER_A_JOIN,
        bytewax=NOT_WRITTEN,
        pathway=NOT_WRITTEN,
        tables=("auction", "bid"),
        updating=True,
        key=("id",),
    ),
    Query(
        "q15",
        "bids, different bidders and auctions of a day",
        flink=f"SELECT {DAY}, {FLINK_COUNTS} FROM bid GROUP BY {DAY}",
        spark=f"SELECT {DAY}, {SPARK_COUNTS} FROM bid GROUP BY {DAY}",
        bytewax=NOT_WRITTEN,
        pathway=NOT_WRITTEN,
        counted="total_bids",
        updating=True,
        key=("day",),
    ),
    Query(
        "q16",
        "bids, different bidders and auctions of a channel and day",
        flink=f"SELECT channel, {DAY}, MAX({MINUTE}), {FLINK_COUNTS} FROM bid GROUP BY channel, {DAY}",
        spark=f"SELECT channel, {DAY}, MAX({MINUTE}), {SPARK_COUNTS} FROM bid GROUP BY channel, {DAY}",
        bytewax=NOT_WRITTEN,
        pathway=NOT_WRITTEN,
        counted="total_bids",
        updating=True,
        key=("channel", "day"),
    ),
    Query(
        "q17",
        "bids of an auction and day, by price",
        PRICES,
        PRICES,
        "q17",
        "q17",
        counted="total_bids",
        updating=True,
        key=("auction", "day"),
    ),
    Query(
        "q18",
        "the last bid of each bidder on each auction",
        flink=f"""
            SELECT {BID} FROM (
                SELECT {BID}, ROW_NUMBER() OVER (
                    PARTITION BY bidder, auction
                    ORDER BY `dateTime` DESC, price DESC, channel ASC, url ASC, extra ASC
                ) AS place FROM bid
            ) AS ranked WHERE place <= 1
        """,
        spark="""
            SELECT auction, bidder, last.bid.price, last.bid.channel, last.bid.url, last.bid.`dateTime`,
                last.bid.extra
            FROM (
                SELECT auction, bidder, min(struct(
                    -unix_micros(`dateTime`) AS at, -price AS cheap,
                    struct(channel, url, extra, price, `dateTime`) AS bid
                )) AS last FROM bid GROUP BY auction, bidder
            )
        """,
        bytewax="q18",
        pathway="q18",
        counted="price",
        updating=True,
        key=("bidder", "auction"),
    ),
    Query(
        "q19",
        "the ten highest bids of each auction",
        flink=f"""
            SELECT {BID}, place FROM (
                SELECT {BID}, ROW_NUMBER() OVER (
                    PARTITION BY auction
                    ORDER BY price DESC, `dateTime` ASC, bidder ASC, channel ASC, url ASC, extra ASC
                ) AS place FROM bid
            ) AS ranked WHERE place <= 10
        """,
        # Spark ranks no rows of a stream; all bids of an auction are kept, and sorted when one comes.
        spark="""
            SELECT auction, best.bidder, -best.lowest, best.channel, best.url, best.`dateTime`, best.extra,
                CAST(place + 1 AS BIGINT)
            FROM (
                SELECT auction, posexplode(slice(sort_array(collect_list(
                    struct(-price AS lowest, `dateTime`, bidder, channel, url, extra)
                )), 1, 10)) AS (place, best) FROM bid GROUP BY auction
            )
        """,
        bytewax=NOT_WRITTEN,
        pathway=NOT_WRITTEN,
        updating=True,
        key=("auction",),
    ),
)
"""The queries, in the order of their numbers."""
