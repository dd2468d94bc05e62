"""The answers to Nexmark's pattern queries, found by trying all ways, bid after bid, in plain Python."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headgate.nexmark.all_ways import Holds, Match, all_ways_matches
from headgate.nexmark.dataset import Dataset
from headgate.relational.patterns.parsing import parsed
from headgate.relational.patterns.shapes import Pattern, Skip

_COLUMNS: Final = ["auction", "bidder", "dateTime", "price"]


class Bid(NamedTuple):
    """What the queries read of a bid."""

    auction: int
    bidder: int
    time: dt.datetime
    price: int


def v_shapes(dataset: Dataset) -> Iterator[tuple[Any, ...]]:
    """Yield (auction, bidder, start, bottom, end) where prices fall, several times, and rise again."""
    pattern = Pattern(parsed("START_ROW PRICE_DOWN+ PRICE_UP"), None, Skip.TO_LAST, "PRICE_UP")

    def holds(bids: list[Bid], name: str, at: int, before: Match) -> bool:
        down = [bids[row].price for variable, row in before if variable == "PRICE_DOWN"]
        if name == "PRICE_DOWN":
            return bids[at].price < (down[-1] if down else bids[before[0][1]].price)
        # LAST(PRICE_DOWN.price, 1) is that before the last, and null if there is but one.
        return name == "START_ROW" or (len(down) > 1 and bids[at].price > down[-2])

    for bids, match in _matches(dataset, pattern, holds):
        rows = [bids[row] for _, row in match]
        yield *rows[0][:2], rows[0].time, rows[-2].time, rows[-1].time


def cheap_runs(dataset: Dataset, skip: Skip) -> Iterator[tuple[Any, ...]]:
    """Yield (auction, bidder, start, end, mean price) of bids whose mean stays below 10,000, with one
    after.
    """

    def holds(bids: list[Bid], name: str, at: int, before: Match) -> bool:
        prices = [bids[row].price for _, row in before]
        return name == "B" or sum(prices, bids[at].price) < 10_000 * (len(prices) + 1)

    for bids, match in _matches(dataset, Pattern(parsed("A+ B"), None, skip), holds):
        rows = [bids[row] for _, row in match[:-1]]
        yield *rows[0][:2], rows[0].time, rows[-1].time, sum(row.price for row in rows) // len(rows)


def drops(dataset: Dataset) -> Iterator[tuple[Any, ...]]:
    """Yield (auction, bidder, time, difference) where a price is 50 lower than one less than 5 s before
    it.
    """

    def holds(bids: list[Bid], name: str, at: int, before: Match) -> bool:
        if name == "A":
            return True
        bound = bids[before[0][1]].price - 50
        return bids[at].price > bound if name == "B" else bids[at].price < bound

    for bids, match in _matches(dataset, Pattern(parsed("A B* C"), 5_000), holds):
        first, last = bids[match[0][1]], bids[match[-1][1]]
        yield *first[:2], last.time, first.price - last.price


def _matches(
    dataset: Dataset, pattern: Pattern, holds: Callable[[list[Bid], str, int, Match], bool]
) -> Iterator[tuple[list[Bid], Match]]:
    bids = dataset.read("bids", _COLUMNS).select(_COLUMNS)
    ordered = bids.sort_by([(name, "ascending") for name in _COLUMNS])
    rows = [Bid(*row) for row in zip(*(column.to_pylist() for column in ordered.columns), strict=True)]
    for _, group in groupby(rows, key=lambda bid: bid[:2]):
        mine = list(group)
        asked: Holds = lambda name, at, before, mine=mine: holds(mine, name, at, before)  # type: ignore[misc]  # noqa: E731
        times = [round(bid.time.timestamp() * 1_000) for bid in mine]
        yield from ((mine, match) for match in all_ways_matches(pattern, times, asked))


def table_of(rows: Iterator[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
