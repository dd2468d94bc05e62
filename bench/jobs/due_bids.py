"""Auctions and bids on them, two sources whose records are due at even distances by the wall clock.

What a record says follows from its number alone, and so does the answer of :func:`dearest`, whatever the
speed. The id of a split has the time at which its first record is due, so who knows a split and the rate
knows when each of its records arrives.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from typing_extensions import override

import headgate as hg
import headgate.functions as F  # noqa: N812  # as users of PySpark write it
from headgate.api.source import END_OF_INPUT, NOTHING_AVAILABLE, SourceReader, SourceReaderContext, Split

AUCTIONS: Final = "auctions"
BIDS: Final = "bids"
BIDS_PER_AUCTION: Final = 15
SELLERS: Final = 20_000
OPEN_AUCTIONS: Final = 200
"""A bid is on one of so many auctions, some of which are not there yet."""
AHEAD: Final = 10
PRICES: Final = 1_000_003
FIRST: Final = 10
"""Bids of a seller in the answer."""
START_NS: Final = 1_000_000_000
"""From the moment at which a split is given out to its first record."""


@dataclass(frozen=True, slots=True)
class Due:
    """Auctions and bids of a run.

    Attributes:
        rate: records per second of both sources, all readers together.
        seconds: how long.
        readers: of each source.
    """

    rate: int
    seconds: float
    readers: int

    def step_ns(self, table: str) -> float:
        """Nanoseconds between two records of one reader."""
        share = (BIDS_PER_AUCTION if table == BIDS else 1) / (BIDS_PER_AUCTION + 1)
        return 1e9 * self.readers / (self.rate * share)

    def count(self, table: str) -> int:
        """Records of one reader."""
        return round(self.seconds * 1e9 / self.step_ns(table))

    def rows(self, table: str, numbers: Any) -> pa.RecordBatch:
        """Rows of a table by their numbers among those of all readers."""
        if table == AUCTIONS:
            columns = {"auction": numbers, "seller": numbers % SELLERS}
        else:
            newest = numbers // BIDS_PER_AUCTION + AHEAD
            chosen = newest - numbers * 7_919 % OPEN_AUCTIONS
            auction = np.clip(chosen, 0, self.count(AUCTIONS) * self.readers - 1)
            columns = {"auction": auction, "bid": numbers, "price": numbers * 2_654_435_761 % PRICES}
        return pa.RecordBatch.from_arrays(
            [pa.array(column) for column in columns.values()], schema=schema_of(table)
        )

    def answer(self) -> tuple[int, int]:
        """Rows of the answer, and the sum of their prices."""
        bids = self.rows(BIDS, np.arange(self.count(BIDS) * self.readers))
        auction, price = (bids.column(name).to_numpy() for name in ("auction", "price"))
        seller = auction % SELLERS
        order = np.lexsort((-price, seller))
        first = np.searchsorted(seller[order], np.arange(SELLERS))
        shown = np.arange(len(order)) - first[seller[order]] < FIRST
        return int(shown.sum()), int(price[order][shown].sum())


def schema_of(table: str) -> pa.Schema:
    """Columns of a table, all of them whole numbers."""
    names = ("auction", "seller") if table == AUCTIONS else ("auction", "bid", "price")
    return pa.schema([(name, pa.int64()) for name in names])


def dearest(auctions: Any, bids: Any) -> Any:
    """The dearest bids on the auctions of each seller: a join by auction, and a rank by seller."""
    order = F.desc("price"), F.col("bid")
    return auctions.join(bids, "auction", uid="both").top_n(FIRST, "seller", order, uid="dearest")


def split_id(subtask: int, began_ns: int) -> str:
    """Id of the split of a reader whose first record is due at `began_ns`, since 1970.

    Example:
        >>> split_id(1, 1_700_000_000_000_000_000)
        '1@1700000000000000000'
    """
    return f"{subtask}@{began_ns}"


def began_ns(split: str) -> int:
    """When the first record of a split is due, from the split's id.

    Example:
        >>> began_ns("1@1700000000000000000")
        1700000000000000000
    """
    return int(split.partition("@")[2])


class DueSource(hg.Source[Any]):
    """One of the tables of a run; see the module."""

    produces_columns = True

    def __init__(self, due: Due, table: str) -> None:
        self.due, self.table = due, table

    @override
    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return _OneEach(restored or [])

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return _Reader(self.due, self.table, context.subtask)

    @override
    def arrow_schema(self) -> pa.Schema:
        return schema_of(self.table)


class _OneEach(hg.SplitEnumerator):
    """Gives each reader a split of its own, and the time at which it begins."""

    def __init__(self, given: Sequence[int]) -> None:
        self._given = list(given)

    @override
    def next_splits(self, subtask: int) -> list[Split] | None:
        if subtask in self._given:
            return None
        self._given.append(subtask)
        return [Split(split_id(subtask, time.time_ns() + START_NS), 0)]

    @override
    def snapshot(self) -> list[int]:
        return self._given


class _Reader(SourceReader[Any]):
    """See :class:`DueSource`. Those records that are due are there when it looks."""

    def __init__(self, due: Due, table: str, subtask: int) -> None:
        self.bad_records = []
        self._due, self._table, self._subtask = due, table, subtask
        self._step_ns, self._count = due.step_ns(table), due.count(table)
        self._split, self._next = "", 0

    @override
    def add_splits(self, splits: Sequence[Split]) -> None:
        for split in splits:
            self._split, self._next = split.id, split.position or 0

    @override
    def no_more_splits(self) -> None:
        """Its one split is all it waits for."""

    @override
    def poll(self, max_records: int) -> Any:
        if not self._split:
            return NOTHING_AVAILABLE
        if self._next == self._count:
            return END_OF_INPUT
        due = int((time.time_ns() - began_ns(self._split)) / self._step_ns)
        stop = min(due, self._count, self._next + max_records)
        if stop <= self._next:
            return NOTHING_AVAILABLE
        numbers = np.arange(self._next, stop) * self._due.readers + self._subtask
        self._next = stop
        return self._due.rows(self._table, numbers)

    @override
    def snapshot(self) -> list[Split]:
        return [Split(self._split, self._next)] if self._split else []
