"""The answers to Nexmark's queries, computed by DuckDB from files; results of a stream must equal them.

Each function takes a dataset and returns a table with the columns of `ANSWERS`, its rows ordered by all
columns, so that two tables of equal rows are equal. Windows are aligned to 1970 and contain their beginning,
not their end. Times are compared in microseconds. All late events count: a stream gives the same answer only
if it drops none.

Patterns are the exception: they are found by plain Python, in `pattern_answers`. Bids of one bidder on one
auction at one time count in the order of their prices.

A query's result may have equal rows; they are kept, and a comparison sees how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Final

import pyarrow as pa

from headgate.common.errors import UsageError
from headgate.nexmark.answer_columns import COLUMNS, COUNTED_BY_RANK, TIMESTAMP
from headgate.nexmark.dataset import Dataset, FileFormat
from headgate.nexmark.pattern_answers import cheap_runs, drops, table_of, v_shapes
from headgate.relational.patterns.shapes import Skip

# Times are integers in here: DuckDB's functions on times with a zone depend on the session's zone.
_MACROS: Final = """
CREATE MACRO window_start(us, size) AS us - ((us % size) + size) % size;
CREATE MACRO in_currency(price) AS
    CAST(CAST(price AS DECIMAL(19, 0)) * CAST(0.908 AS DECIMAL(3, 3)) AS DECIMAL(23, 3));
"""
_DAY: Final = """strftime(make_timestamp("dateTime"), '%Y-%m-%d')"""


def _ranked_counts() -> str:
    counts = (f"count({what}) FILTER ({condition}) AS {name}" for name, what, condition in COUNTED_BY_RANK)
    return ", ".join(counts)


_TABLES: Final = {
    "q3": ("persons", "auctions"),
    "q4": ("auctions", "bids"),
    "q6": ("auctions", "bids"),
    "q8": ("persons", "auctions"),
    "q9": ("auctions", "bids"),
    "q20": ("auctions", "bids"),
    "q23": ("persons", "auctions", "bids"),
}
"""Query -> the tables that it reads, if they are not the bids alone."""

_BID: Final = """
CREATE VIEW bid AS SELECT * REPLACE (epoch_us("dateTime") AS "dateTime") FROM bids;
"""


def q0(dataset: Dataset) -> pa.Table:
    """Return all bids without channel and url; the table is ordered by all columns, as all answers here."""
    return _answer("q0", dataset, 'SELECT auction, bidder, price, "dateTime", extra FROM bid')


def q1(dataset: Dataset) -> pa.Table:
    """Return all bids with their prices times 0.908, as an exact decimal with three places."""
    sql = 'SELECT auction, bidder, in_currency(price) AS price, "dateTime", extra FROM bid'
    return _answer("q1", dataset, sql)


def q2(dataset: Dataset) -> pa.Table:
    """Return auction and price of the bids on auctions whose id is a multiple of 123."""
    return _answer("q2", dataset, "SELECT auction, price FROM bid WHERE auction % 123 = 0")


def q3(dataset: Dataset) -> pa.Table:
    """Return who sells auctions of category 10 and lives in Oregon, Idaho or California, with each
    auction.
    """
    sql = """
        SELECT name, city, state, auctions.id FROM auctions JOIN persons ON seller = persons.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')
    """
    return _answer("q3", dataset, sql)


def q4(dataset: Dataset) -> pa.Table:
    """Return for each category the mean of the highest valid bids of its auctions, without a fraction."""
    sql = """
        WITH highest AS (
            SELECT auctions.id, category, max(price) AS final FROM auctions JOIN bids
            ON auctions.id = auction AND bids."dateTime" BETWEEN auctions."dateTime" AND expires
            GROUP BY auctions.id, category
        )
        SELECT category, sum(final) // count(*) AS avg FROM highest GROUP BY category
    """
    return _answer("q4", dataset, sql)


def q5(dataset: Dataset) -> pa.Table:
    """Return the auctions with most bids in each window of 10 s that slides by 2 s, and the number of bids.

    All auctions with as many bids as the winner are returned. The window itself is not part of the result, so
    an auction may be there several times with the same number.
    """
    sql = """
        WITH panes AS (
            SELECT auction, window_start("dateTime", 2000000) AS pane, count(*) AS num FROM bid GROUP BY ALL
        ), counts AS (
            SELECT auction, pane - slide * 2000000 AS start, sum(num) AS num
            FROM panes CROSS JOIN range(5) AS slides(slide) GROUP BY ALL
        )
        SELECT auction, num FROM counts QUALIFY num = max(num) OVER (PARTITION BY start)
    """
    return _answer("q5", dataset, sql)


def q6(dataset: Dataset) -> pa.Table:
    """Return for each winning bid, that of :func:`q9`, the mean of its price and of the ten of its auction's
    seller before it, by the bids' times and then by the auctions' ids; without a fraction.
    """
    sql = """
        WITH winners AS (
            SELECT auctions.id, seller, price, bids."dateTime" FROM auctions JOIN bids
            ON auctions.id = auction AND bids."dateTime" BETWEEN auctions."dateTime" AND expires
            QUALIFY row_number() OVER (
                PARTITION BY auctions.id ORDER BY price DESC, bids."dateTime", bidder, bids.extra
            ) = 1
        )
        SELECT seller, floor(avg(price) OVER (
            PARTITION BY seller ORDER BY "dateTime", id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW
        ))::BIGINT AS avg FROM winners
    """
    return _answer("q6", dataset, sql)


def q7(dataset: Dataset) -> pa.Table:
    """Return the bids with the highest price of each window of 10 s.

    All bids with that price are returned. As in the public definition, the bid's time may also be the very
    end of the window: so a bid in the first microsecond of a window counts for the window before as well, if
    its price is the highest there, and is returned twice if it is the highest of both.
    """
    sql = """
        WITH highest AS (
            SELECT window_start("dateTime", 10000000) AS start, max(price) AS price FROM bid GROUP BY ALL
        )
        SELECT bid.auction, bid.price, bid.bidder, bid."dateTime", bid.extra
        FROM bid JOIN highest
        ON bid.price = highest.price AND bid."dateTime" BETWEEN highest.start AND highest.start + 10000000
    """
    return _answer("q7", dataset, sql)


def q8(dataset: Dataset) -> pa.Table:
    """Return the persons who registered and opened an auction in the same window of 10 s, and its start."""
    sql = """
        WITH registered AS (
            SELECT DISTINCT id, name, window_start(epoch_us("dateTime"), 10000000) AS starttime FROM persons
        ), opened AS (
            SELECT DISTINCT seller, window_start(epoch_us("dateTime"), 10000000) AS starttime FROM auctions
        )
        SELECT id, name, registered.starttime FROM registered JOIN opened
        ON id = seller AND registered.starttime = opened.starttime
    """
    return _answer("q8", dataset, sql)


def q9(dataset: Dataset) -> pa.Table:
    """Return each auction with the highest bid of its time; of equal ones the first, or of the least
    bidder.
    """
    sql = """
        SELECT auctions.*, auction, bidder, price, bids."dateTime" AS "bid_dateTime", bids.extra AS bid_extra
        FROM auctions JOIN bids
        ON auctions.id = auction AND bids."dateTime" BETWEEN auctions."dateTime" AND expires
        QUALIFY row_number() OVER (
            PARTITION BY auctions.id ORDER BY price DESC, bids."dateTime", bidder, bids.extra
        ) = 1
    """
    return _answer("q9", dataset, sql)


def q10(dataset: Dataset) -> pa.Table:
    """Return all bids with day and minute, in UTC, by which a sink divides them into folders."""
    sql = """
        SELECT auction, bidder, price, "dateTime", extra,
            strftime(make_timestamp("dateTime"), '%Y-%m-%d') AS dt,
            strftime(make_timestamp("dateTime"), '%H:%M') AS hm
        FROM bid
    """
    return _answer("q10", dataset, sql)


def q11(dataset: Dataset) -> pa.Table:
    """Return each bidder's sessions: bids with pauses of at most 10 s, how many, and from when to when.

    A session ends 10 s after its last bid. A bid at that very moment still belongs to it.
    """
    sql = """
        WITH marked AS (
            SELECT bidder, "dateTime",
                coalesce("dateTime" - lag("dateTime") OVER arrived > 10000000, true) AS begins
            FROM bid WINDOW arrived AS (PARTITION BY bidder ORDER BY "dateTime")
        ), numbered AS (
            -- By range, not by rows: of bids at one time another may come first than in the window above.
            SELECT bidder, "dateTime", sum(begins::INTEGER) OVER (
                PARTITION BY bidder ORDER BY "dateTime" RANGE UNBOUNDED PRECEDING
            ) AS session FROM marked
        )
        SELECT bidder, count(*) AS bid_count, min("dateTime") AS starttime,
            max("dateTime") + 10000000 AS endtime
        FROM numbered GROUP BY bidder, session
    """
    return _answer("q11", dataset, sql)


def q12(dataset: Dataset, processing_times: pa.Array | pa.ChunkedArray | None = None) -> pa.Table:
    """Return how many bids of each bidder were processed in each window of 10 s, with its beginning and end.

    Arguments:
        dataset: the bids.
        processing_times: when each bid was processed, of type timestamp[us, tz=UTC], in the order in which
            the dataset's files have the bids. None takes the times of the events, which is the form of the
            query that can be repeated.

    Raises:
        UsageError: there is not one time for each bid.
    """
    bids = dataset.read("bids", ["bidder", "dateTime"])
    if processing_times is not None:
        if len(processing_times) != len(bids):
            raise UsageError(
                f"q12 got {len(processing_times)} processing times for {len(bids)} bids in "
                f"{dataset.directory}; expected one for each: give them in the order of the files"
            )
        bids = bids.set_column(1, "dateTime", processing_times.cast(TIMESTAMP))
    sql = """
        SELECT bidder, count(*) AS bid_count, window_start("dateTime", 10000000) AS starttime,
            window_start("dateTime", 10000000) + 10000000 AS endtime
        FROM bid GROUP BY ALL
    """
    return _answer("q12", dataset, sql, bids)


def q13(dataset: Dataset) -> pa.Table:
    """Return all bids, each with the last four digits of its auction as a text without leading zeros."""
    sql = 'SELECT auction, bidder, price, "dateTime", (auction % 10000)::VARCHAR AS value FROM bid'
    return _answer("q13", dataset, sql)


def q14(dataset: Dataset) -> pa.Table:
    """Return the bids whose price times 0.908 is between 10^6 and 5 * 10^7, both excluded.

    With each: whether it was dayTime (hours 8 to 18, UTC), nightTime (20 to 6) or otherTime, and how many
    letters c its padding has.
    """
    sql = """
        SELECT auction, bidder, in_currency(price) AS price,
            CASE
                WHEN hour(make_timestamp("dateTime")) BETWEEN 8 AND 18 THEN 'dayTime'
                WHEN hour(make_timestamp("dateTime")) BETWEEN 7 AND 19 THEN 'otherTime'
                ELSE 'nightTime'
            END AS "bidTimeType",
            "dateTime", extra, len(extra) - len(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE in_currency(price) > 1000000 AND in_currency(price) < 50000000
    """
    return _answer("q14", dataset, sql)


def q15(dataset: Dataset) -> pa.Table:
    """Return how many bids, different bidders and auctions each day (UTC) had: in all, and by ranks of
    prices.
    """
    return _answer("q15", dataset, f"SELECT {_DAY} AS day, {_ranked_counts()} FROM bid GROUP BY ALL")  # noqa: S608


def q16(dataset: Dataset) -> pa.Table:
    """Return the numbers of q15 for each channel and day (UTC), and the last minute of a bid."""
    minute = """max(strftime(make_timestamp("dateTime"), '%H:%M')) AS minute"""
    sql = f"SELECT channel, {_DAY} AS day, {minute}, {_ranked_counts()} FROM bid GROUP BY ALL"  # noqa: S608
    return _answer("q16", dataset, sql)


def q17(dataset: Dataset) -> pa.Table:
    """Return for each auction and day, in UTC, how many bids it had, of three ranks of prices, and the least,
    greatest, mean and sum of prices.
    """
    sql = """
        SELECT auction, strftime(make_timestamp("dateTime"), '%Y-%m-%d') AS day, count(*) AS total_bids,
            count(*) FILTER (price < 10000) AS rank1_bids,
            count(*) FILTER (price >= 10000 AND price < 1000000) AS rank2_bids,
            count(*) FILTER (price >= 1000000) AS rank3_bids,
            min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
        FROM bid GROUP BY ALL
    """
    return _answer("q17", dataset, sql)


def q18(dataset: Dataset) -> pa.Table:
    """Return the last bid of each bidder on each auction; of those at one time that of the highest price."""
    sql = """
        SELECT * FROM bid QUALIFY row_number() OVER (
            PARTITION BY bidder, auction ORDER BY "dateTime" DESC, price DESC, channel, url, extra
        ) = 1
    """
    return _answer("q18", dataset, sql)


def q19(dataset: Dataset) -> pa.Table:
    """Return the ten highest bids of each auction with their places, from 1; of equal ones the earlier
    first.
    """
    sql = """
        SELECT *, row_number() OVER (
            PARTITION BY auction ORDER BY price DESC, "dateTime", bidder, channel, url, extra
        ) AS rank_number FROM bid QUALIFY rank_number <= 10
    """
    return _answer("q19", dataset, sql)


def q20(dataset: Dataset) -> pa.Table:
    """Return the bids on auctions of category 10, each with its auction."""
    sql = """
        SELECT auction, bidder, price, channel, url, bids."dateTime", bids.extra, "itemName", description,
            "initialBid", reserve, auctions."dateTime" AS "auction_dateTime", expires, seller, category,
            auctions.extra AS auction_extra
        FROM bids JOIN auctions ON auction = auctions.id WHERE category = 10
    """
    return _answer("q20", dataset, sql)


def q21(dataset: Dataset) -> pa.Table:
    """Return the bids whose channel has an id: 0 to 3 for the hot ones, or the `channel_id` of their URL."""
    sql = """
        SELECT auction, bidder, price, channel,
            CASE lower(channel)
                WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
                ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)
            END AS channel_id
        FROM bid
        WHERE lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
            OR regexp_matches(url, '(&|^)channel_id=([^&]*)')
    """
    return _answer("q21", dataset, sql)


def q22(dataset: Dataset) -> pa.Table:
    """Return all bids with the fourth to sixth part of their URL, as cut at each "/"; null where missing."""
    sql = """
        SELECT auction, bidder, price, channel,
            string_split(url, '/')[4] AS dir1, string_split(url, '/')[5] AS dir2,
            string_split(url, '/')[6] AS dir3
        FROM bid
    """
    return _answer("q22", dataset, sql)


def q23(dataset: Dataset) -> pa.Table:
    """Return the bids of persons who sell auctions, each with its bidder and with each such auction."""
    sql = """
        SELECT persons.id AS person, auction, price, channel, url, bids."dateTime", bids.extra, name,
            "emailAddress", "creditCard", city, state, persons."dateTime" AS "person_dateTime",
            persons.extra AS person_extra, auctions.id AS sold, "itemName", description, "initialBid",
            reserve, expires, category
        FROM bids JOIN persons ON bidder = persons.id JOIN auctions ON seller = persons.id
    """
    return _answer("q23", dataset, sql)


def cep0(dataset: Dataset) -> pa.Table:
    """Return where prices of a bidder on an auction fall and rise again, by plain Python."""
    return ordered(table_of(v_shapes(dataset), ANSWERS["cep0"][1]))


def cep1(dataset: Dataset) -> pa.Table:
    """Return runs of cheap bids of a bidder on an auction, none of which overlap, by plain Python."""
    return ordered(table_of(cheap_runs(dataset, Skip.PAST_LAST_ROW), ANSWERS["cep1"][1]))


def cep2(dataset: Dataset) -> pa.Table:
    """Return runs of cheap bids as cep1, from each bid at which one begins."""
    return ordered(table_of(cheap_runs(dataset, Skip.TO_NEXT_ROW), ANSWERS["cep2"][1]))


def cep3(dataset: Dataset) -> pa.Table:
    """Return when a bidder's price on an auction drops by more than 50 within 5 s, by plain Python."""
    return ordered(table_of(drops(dataset), ANSWERS["cep3"][1]))


def ordered(table: pa.Table) -> pa.Table:
    """Return a table with its rows ordered by all columns, from the first to the last; texts by their bytes.

    Example:
        >>> ordered(pa.table({"a": [2, 1, 1], "b": ["x", "y", "b"]})).to_pydict()
        {'a': [1, 1, 2], 'b': ['b', 'y', 'x']}
    """
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


ANSWERS: Final[Mapping[str, tuple[Callable[[Dataset], pa.Table], pa.Schema]]] = {
    query: (globals()[query], columns) for query, columns in COLUMNS.items()
}
"""Query -> the function that answers it, and the columns of the answer, as the public definition has them."""


def _answer(query: str, dataset: Dataset, sql: str, bids: pa.Table | None = None) -> pa.Table:
    # These bids take the place of those of the dataset.
    with _duckdb().connect() as connection:
        connection.execute(_MACROS)
        tables = _TABLES.get(query, ("bids",))
        for table in tables:
            if bids is not None:
                connection.register(table, bids)
            elif dataset.file_format is FileFormat.JSON:
                connection.register(table, dataset.read(table))
            else:
                connection.read_parquet([str(path) for path in dataset.paths(table)]).create_view(table)
        if "bids" in tables:
            connection.execute(_BID)
        found = connection.sql(sql).to_arrow_table()
    return ordered(found.cast(ANSWERS[query][1]))


def _duckdb() -> ModuleType:
    try:
        import duckdb  # type: ignore[import-not-found, unused-ignore]

        module: ModuleType = duckdb
    except ImportError:
        raise UsageError(
            "Nexmark's reference answers need the package duckdb, which is not installed; "
            "run: pip install 'headgate[nexmark]'"
        ) from None
    return module
