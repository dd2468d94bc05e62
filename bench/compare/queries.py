"""The queries of the comparison: one entry each, with what every engine is asked.

An entry names the answer (see `bench.compare.answers`) and has a text for each engine: SQL for
Flink and Spark over the tables `bid`, `auction` and `person`, the name of a step for Bytewax and Pathway. A
:class:`~bench.compare.entries.Lacking` in its place says why there is none. Headgate's own queries are
found by name, so one that it gains is measured at once. Columns of a result have the answer's names by their
order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bench.compare.corrected_queries import CORRECTED
from bench.compare.entries import NO_DECIMAL, NOT_WRITTEN, Query
from bench.compare.joined_queries import JOINED

PLAIN: Final = "SELECT auction, bidder, price, `dateTime`, extra FROM bid"
CURRENCY: Final = "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)), `dateTime`, extra FROM bid"
MULTIPLES: Final = "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0"
MIDDLE: Final = """
    SELECT auction, bidder, price, CASE
            WHEN hour_of_day BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN hour_of_day BETWEEN 7 AND 19 THEN 'otherTime' ELSE 'nightTime'
        END, `dateTime`, extra, CAST(CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS BIGINT)
    FROM (SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price,
            HOUR(`dateTime`) AS hour_of_day, `dateTime`, extra FROM bid) AS converted
    WHERE price > 1000000 AND price < 50000000
"""
CHANNEL_IDS: Final = """
    SELECT auction, bidder, price, channel, CASE LOWER(channel)
        WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
        ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END
    FROM bid
    WHERE LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu') OR {has_id}
"""
DIRECTORIES: Final = "SELECT auction, bidder, price, channel, {} FROM bid"
TUMBLING: Final = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(event_time), INTERVAL '10' SECOND))"
SLIDING: Final = "TABLE(HOP(TABLE bid, DESCRIPTOR(event_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
FLINK_SLIDING_COUNTS: Final = f"""
    SELECT window_start, window_end, auction, COUNT(*) AS num FROM {SLIDING}
    GROUP BY window_start, window_end, auction
"""
SPARK_SLIDING_COUNTS: Final = """
    SELECT window, auction, count(*) AS num FROM bid
    GROUP BY window(`dateTime`, '10 seconds', '2 seconds'), auction
"""
START: Final = "CAST(window_start AS TIMESTAMP_LTZ(3))"
END: Final = "CAST(window_end AS TIMESTAMP_LTZ(3))"

_WRITTEN: Final = (
    Query("q0", "all bids pass through", PLAIN, PLAIN, "q0", "q0"),
    Query("q1", "exact prices in another currency", CURRENCY, CURRENCY, "q1", NO_DECIMAL),
    Query("q2", "filter by auction", MULTIPLES, MULTIPLES, "q2", "q2"),
    Query(
        "q5",
        "auctions with most bids in sliding windows",
        flink=f"""
            SELECT counts.auction, counts.num FROM ({FLINK_SLIDING_COUNTS}) AS counts
            JOIN (SELECT window_start, window_end, MAX(num) AS most
                FROM ({FLINK_SLIDING_COUNTS}) AS all_counts GROUP BY window_start, window_end) AS highest
            ON counts.window_start = highest.window_start AND counts.window_end = highest.window_end
                AND counts.num = highest.most
        """,
        spark=f"""
            SELECT winner.auction, winner.num FROM (
                SELECT explode(filter(found, c -> c.num = most)) AS winner FROM (
                    SELECT window, collect_list(struct(auction, num)) AS found, max(num) AS most
                    FROM ({SPARK_SLIDING_COUNTS}) GROUP BY window
                )
            )
        """,
        bytewax="q5",
        pathway="q5",
        timed=True,
    ),
    Query(
        "q7",
        "bids with the highest price of a window",
        flink=f"""
            SELECT bid.auction, bid.price, bid.bidder, bid.`dateTime`, bid.extra FROM bid
            JOIN (
                SELECT MAX(price) AS highest, window_end FROM {TUMBLING} GROUP BY window_start, window_end
            ) AS best
            ON bid.price = best.highest
            WHERE bid.event_time BETWEEN best.window_end - INTERVAL '10' SECOND AND best.window_end
        """,
        spark="""
            SELECT auction, price, bidder, `dateTime`, extra FROM bid JOIN (
                SELECT highest, window_time(window) AS last_moment FROM (
                    SELECT window, max(price) AS highest FROM bid GROUP BY window(`dateTime`, '10 seconds')
                )
            ) AS best
            ON price = highest AND `dateTime` > last_moment - INTERVAL '10' SECOND
                AND `dateTime` <= last_moment + INTERVAL '0.000001' SECOND
        """,
        bytewax="q7",
        pathway="q7",
        timed=True,
        window_end='"dateTime" - "dateTime" % 10000000 + 10000000',
    ),
    Query(
        "q8",
        "new persons who open an auction in the same window",
        flink=f"""
            SELECT registered.id, registered.name, CAST(registered.window_start AS TIMESTAMP_LTZ(3)) FROM (
                SELECT id, name, window_start, window_end FROM {TUMBLING.replace("bid", "person")}
                GROUP BY id, name, window_start, window_end
            ) AS registered JOIN (
                SELECT seller, window_start, window_end FROM {TUMBLING.replace("bid", "auction")}
                GROUP BY seller, window_start, window_end
            ) AS opened
            ON registered.id = opened.seller AND registered.window_start = opened.window_start
                AND registered.window_end = opened.window_end
        """,
        spark="""
            SELECT id, name, registered.window.start FROM (
                SELECT id, name, window, count(*) AS times FROM person
                GROUP BY id, name, window(`dateTime`, '10 seconds')
            ) AS registered JOIN (
                SELECT seller, window, count(*) AS auctions FROM auction
                GROUP BY seller, window(`dateTime`, '10 seconds')
            ) AS opened ON id = seller AND registered.window = opened.window
        """,
        bytewax="q8",
        pathway="q8",
        tables=("person", "auction"),
        timed=True,
        window_end="starttime + 10000000",
    ),
    Query(
        "q11",
        "sessions of bidders",
        flink=f"""
            SELECT bidder, COUNT(*), {START}, {END} FROM TABLE(
                SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(event_time), INTERVAL '10' SECOND)
            ) GROUP BY window_start, window_end, bidder
        """,
        spark="""
            SELECT bidder, n, window.start, window.end FROM (
                SELECT bidder, session_window(`dateTime`, '10 seconds') AS window, count(*) AS n
                FROM bid GROUP BY bidder, session_window(`dateTime`, '10 seconds')
            )
        """,
        bytewax="q11",
        pathway="q11",
        timed=True,
        window_end="endtime",
        counted="bid_count",
    ),
    Query(
        "q12",
        "bids per bidder in windows of event time",
        flink=f"""
            SELECT bidder, COUNT(*), {START}, {END} FROM {TUMBLING}
            GROUP BY window_start, window_end, bidder
        """,
        spark="""
            SELECT bidder, n, window.start, window.end FROM (
                SELECT bidder, window, count(*) AS n
                FROM bid GROUP BY bidder, window(`dateTime`, '10 seconds')
            )
        """,
        bytewax="q12",
        pathway="q12",
        timed=True,
        window_end="endtime",
        counted="bid_count",
    ),
    Query("q14", "filter, time of day, letters counted", MIDDLE, MIDDLE, "q14", NO_DECIMAL),
    Query(
        "q21",
        "regular expression",
        flink=CHANNEL_IDS.format(has_id="REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL"),
        spark=CHANNEL_IDS.format(has_id="url RLIKE '(&|^)channel_id=([^&]*)'"),
        bytewax="q21",
        pathway=NOT_WRITTEN,
    ),
    Query(
        "q22",
        "parts of a URL",
        flink=DIRECTORIES.format(", ".join(f"SPLIT_INDEX(url, '/', {part})" for part in (3, 4, 5))),
        spark=DIRECTORIES.format(", ".join(f"split_part(url, '/', {part})" for part in (4, 5, 6))),
        bytewax="q22",
        pathway=NOT_WRITTEN,
    ),
    Query(
        "J1",
        "map and filter",
        flink="""
            SELECT auction, bidder, CAST(price AS DOUBLE) * CAST(0.908 AS DOUBLE), channel, url, `dateTime`
            FROM bid WHERE MOD(auction, 123) = 0
        """,
        spark="""
            SELECT auction, bidder, CAST(price AS DOUBLE) * CAST(0.908 AS DOUBLE), channel, url, `dateTime`
            FROM bid WHERE auction % 123 = 0
        """,
        bytewax="J1",
        pathway="J1",
    ),
    Query(
        "J2",
        "running count per auction, a row for each bid",
        flink="""
            SELECT auction, COUNT(*) OVER (
                PARTITION BY auction ORDER BY arrived ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) FROM bid
        """,
        spark="python:running_count",
        bytewax="J2",
        pathway="J2",
        counted="number",
    ),
    Query(
        "J3",
        "count and highest price per auction in windows",
        flink=f"""
            SELECT auction, {START}, COUNT(*), MAX(price) FROM {TUMBLING}
            GROUP BY window_start, window_end, auction
        """,
        spark="""
            SELECT auction, window.start, number, highest FROM (
                SELECT auction, window, count(*) AS number, max(price) AS highest
                FROM bid GROUP BY auction, window(`dateTime`, '10 seconds')
            )
        """,
        bytewax="J3",
        pathway="J3",
        timed=True,
        window_end="starttime + 10000000",
        counted="number",
    ),
    Query(
        "J4",
        "the auction with most bids of sliding windows",
        flink=f"""
            SELECT {START}, auction, num FROM (
                SELECT *, ROW_NUMBER() OVER (
                    PARTITION BY window_start, window_end ORDER BY num DESC, auction DESC
                ) AS place FROM ({FLINK_SLIDING_COUNTS}) AS counts
            ) WHERE place <= 1
        """,
        spark=f"""
            SELECT window.start, best.auction, best.num FROM (
                SELECT window, max(struct(num, auction)) AS best FROM ({SPARK_SLIDING_COUNTS}) GROUP BY window
            )
        """,
        bytewax="J4",
        pathway="J4",
        timed=True,
        window_end="starttime + 10000000",
        counted="number",
    ),
)

_IN_PYTHON: Final = tuple(
    replace(query, name=f"{query.name}-py", title=f"{query.title}; Headgate by a Python function")
    for query in _WRITTEN
    if query.name in ("J3", "J4")
)


def _place(query: Query) -> tuple[bool, int]:
    """Where a query stands: Nexmark's by their numbers, then the jobs as they are above."""
    return (False, int(query.name[1:])) if query.name[0] == "q" else (True, 0)


ALL: Final = tuple(sorted((*_WRITTEN, *JOINED, *CORRECTED, *_IN_PYTHON), key=_place))
"""All queries, in the order of the table."""

QUERIES: Final = {query.name: query for query in ALL}
"""Name -> query."""
