"""Pathway: one query over JSON lines, streaming, with persistence every second.

    pathway_query.py ORDER.json

Its stream never ends, so the program stops when all rows of the answer are there; where rows are counts, when
these add up. Pathway sends changes of its tables: a row that changes goes and comes again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("PATHWAY_THREADS", "2")

import pathway as pw
from orders import Order, carry_out, report, versions

ORDER = Order.read(sys.argv[1])
NAMES = [name for name, _ in ORDER.columns]
NAMED = ["person" if name == "id" else name for name in NAMES]
"""The columns as Pathway has them, which keeps the name `id` for itself."""

TEN_SECONDS = timedelta(seconds=10)


class Bid(pw.Schema):
    """The fields of a bid."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    dateTime: str  # noqa: N815 - as the files have it
    extra: str


class Person(pw.Schema):
    """The fields of a person that are asked for."""

    person: int  # `id` in the files
    name: str
    city: str
    state: str
    dateTime: str  # noqa: N815 - as the files have it


class Auction(pw.Schema):
    """The fields of an auction that are asked for."""

    number: int  # `id` in the files
    itemName: str  # noqa: N815 - as the files have it
    description: str
    initialBid: int  # noqa: N815
    reserve: int
    dateTime: str  # noqa: N815
    expires: str
    seller: int
    category: int
    extra: str


PATHS = {"person": {"person": "/id"}, "auction": {"number": "/id"}}
"""Where fields are that Pathway cannot have under their own names."""

SCHEMAS = {"bid": Bid, "person": Person, "auction": Auction}


def parsed(text: Any) -> Any:
    """The time of a text."""
    return text.dt.strptime("%Y-%m-%dT%H:%M:%S.%fZ")


def timed(bids: Any) -> Any:
    """The records with a time for their text."""
    return bids.with_columns(dateTime=parsed(pw.this.dateTime))


def q0(bids: Any) -> Any:
    """All bids, without channel and url."""
    return timed(bids).select(pw.this.auction, pw.this.bidder, pw.this.price, pw.this.dateTime, pw.this.extra)


def q2(bids: Any) -> Any:
    """Auction and price of some bids."""
    return bids.filter(pw.this.auction % 123 == 0).select(pw.this.auction, pw.this.price)


def q3(persons: Any, auctions: Any) -> Any:
    """Who sells in a category and lives in three states, with each auction."""
    state = pw.this.state
    local = persons.filter((state == "OR") | (state == "ID") | (state == "CA"))
    offered = auctions.filter(pw.this.category == 10)
    both = local.join(offered, local.person == offered.seller)
    return both.select(pw.left.name, pw.left.city, pw.left.state, person=pw.right.number)


def q4(auctions: Any, bids: Any) -> Any:
    """The mean, without a fraction, of the highest valid bids of a category's auctions."""
    offers, opened = timed(bids), timed(auctions).with_columns(expires=parsed(pw.this.expires))
    both = opened.join(offers, opened.number == offers.auction).select(
        pw.left.number, pw.left.category, pw.right.price, opens=pw.left.dateTime, expires=pw.left.expires,
        at=pw.right.dateTime,
    )  # fmt: skip
    valid = both.filter((pw.this.at >= pw.this.opens) & (pw.this.at <= pw.this.expires))
    highest = valid.groupby(pw.this.number, pw.this.category).reduce(
        pw.this.category, final=pw.reducers.max(pw.this.price)
    )
    means = highest.groupby(pw.this.category).reduce(
        pw.this.category, total=pw.reducers.sum(pw.this.final), number=pw.reducers.count()
    )
    return means.select(pw.this.category, avg=pw.this.total // pw.this.number)


def q17(bids: Any) -> Any:
    """Counts and prices of each auction and day."""
    price = pw.this.price
    ranked = bids.with_columns(
        day=pw.apply_with_type(lambda text: text[:10], str, pw.this.dateTime),
        low=pw.if_else(price < 10_000, 1, 0),
        middle=pw.if_else((price >= 10_000) & (price < 1_000_000), 1, 0),
        high=pw.if_else(price >= 1_000_000, 1, 0),
    )
    return ranked.groupby(pw.this.auction, pw.this.day).reduce(
        pw.this.auction,
        pw.this.day,
        total_bids=pw.reducers.count(),
        rank1_bids=pw.reducers.sum(pw.this.low),
        rank2_bids=pw.reducers.sum(pw.this.middle),
        rank3_bids=pw.reducers.sum(pw.this.high),
        min_price=pw.reducers.min(price),
        max_price=pw.reducers.max(price),
        avg_price=pw.reducers.avg(price),
        sum_price=pw.reducers.sum(price),
    )


def q18(bids: Any) -> Any:
    """The last bid of each bidder on each auction; of those at one time that of the highest price."""
    placed = timed(bids).with_columns(place=pw.make_tuple(pw.this.dateTime, pw.this.price))
    last = placed.groupby(pw.this.bidder, pw.this.auction).reduce(chosen=pw.reducers.argmax(pw.this.place))
    found = placed.ix(last.chosen)
    return found.select(
        found.auction, found.bidder, found.price, found.channel, found.url, found.dateTime, found.extra
    )


def q20(bids: Any, auctions: Any) -> Any:
    """The bids on auctions of a category, with both."""
    of_category = timed(auctions.filter(pw.this.category == 10)).with_columns(expires=parsed(pw.this.expires))
    offers = timed(bids)
    both = offers.join(of_category, offers.auction == of_category.number)
    of_bid = [pw.left[name] for name in ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")]
    of_auction = [pw.right[name] for name in ("itemName", "description", "initialBid", "reserve")]
    rest = [pw.right[name] for name in ("expires", "seller", "category")]
    times = {"auction_dateTime": pw.right.dateTime}
    return both.select(*of_bid, *of_auction, *rest, **times, auction_extra=pw.right.extra)


def slid(bids: Any) -> Any:
    """How many bids each auction has in each sliding window."""
    sliding = pw.temporal.sliding(hop=timedelta(seconds=2), duration=TEN_SECONDS)
    windows = timed(bids).windowby(pw.this.dateTime, window=sliding, instance=pw.this.auction)
    return windows.reduce(
        auction=pw.this._pw_instance, starttime=pw.this._pw_window_start, number=pw.reducers.count()
    )


def q5(bids: Any) -> Any:
    """The auctions with most bids of each sliding window, and the number of bids."""
    counts = slid(bids)
    most = counts.groupby(pw.this.starttime).reduce(pw.this.starttime, number=pw.reducers.max(pw.this.number))
    same = counts.join(most, counts.starttime == most.starttime, counts.number == most.number)
    return same.select(pw.left.auction, num=pw.left.number)


def q7(bids: Any) -> Any:
    """The bids with the highest price of each window, whose time may be the very end of it."""
    offers = timed(bids)
    windows = offers.windowby(pw.this.dateTime, window=pw.temporal.tumbling(duration=TEN_SECONDS))
    highest = windows.reduce(
        start=pw.this._pw_window_start, end=pw.this._pw_window_end, price=pw.reducers.max(pw.this.price)
    )
    same = offers.join(highest, offers.price == highest.price).select(
        pw.left.auction,
        pw.left.price,
        pw.left.bidder,
        pw.left.dateTime,
        pw.left.extra,
        pw.right.start,
        pw.right.end,
    )
    best = same.filter((pw.this.dateTime >= pw.this.start) & (pw.this.dateTime <= pw.this.end))
    return best.select(pw.this.auction, pw.this.price, pw.this.bidder, pw.this.dateTime, pw.this.extra)


def q8(persons: Any, auctions: Any) -> Any:
    """Persons who registered and opened an auction in the same window, and its start."""
    tumbling = pw.temporal.tumbling(duration=TEN_SECONDS)
    registered = timed(persons).with_columns(both=pw.make_tuple(pw.this.person, pw.this.name))
    registered = registered.windowby(pw.this.dateTime, window=tumbling, instance=pw.this.both).reduce(
        person=pw.this._pw_instance.get(0),
        name=pw.this._pw_instance.get(1),
        starttime=pw.this._pw_window_start,
    )
    opened = timed(auctions).windowby(pw.this.dateTime, window=tumbling, instance=pw.this.seller)
    opened = opened.reduce(seller=pw.this._pw_instance, starttime=pw.this._pw_window_start)
    both = registered.join(
        opened, registered.person == opened.seller, registered.starttime == opened.starttime
    )
    return both.select(pw.left.person, pw.left.name, pw.left.starttime)


def q11(bids: Any) -> Any:
    """Sessions of bidders; Pathway ends one at a pause of the gap, so the gap is a microsecond longer."""
    gap = TEN_SECONDS + timedelta(microseconds=1)
    windows = timed(bids).windowby(
        pw.this.dateTime, window=pw.temporal.session(max_gap=gap), instance=pw.this.bidder
    )
    return windows.reduce(
        bidder=pw.this._pw_instance,
        bid_count=pw.reducers.count(),
        starttime=pw.reducers.min(pw.this.dateTime),
        endtime=pw.reducers.max(pw.this.dateTime) + TEN_SECONDS,
    )


def q12(bids: Any) -> Any:
    """Bids per bidder and window."""
    windows = timed(bids).windowby(
        pw.this.dateTime, window=pw.temporal.tumbling(duration=TEN_SECONDS), instance=pw.this.bidder
    )
    return windows.reduce(
        bidder=pw.this._pw_instance,
        bid_count=pw.reducers.count(),
        starttime=pw.this._pw_window_start,
        endtime=pw.this._pw_window_end,
    )


def j1(bids: Any) -> Any:
    """Map and filter."""
    found = timed(bids.filter(pw.this.auction % 123 == 0))
    return found.select(
        auction=pw.this.auction,
        bidder=pw.this.bidder,
        price=pw.this.price * 0.908,
        channel=pw.this.channel,
        url=pw.this.url,
        dateTime=pw.this.dateTime,
    )


def j2(bids: Any) -> Any:
    """The count of each auction: a change per commit, not a row for each bid."""
    return bids.groupby(pw.this.auction).reduce(pw.this.auction, number=pw.reducers.count())


def j3(bids: Any) -> Any:
    """Count and highest price per auction and window."""
    windows = timed(bids).windowby(
        pw.this.dateTime, window=pw.temporal.tumbling(duration=TEN_SECONDS), instance=pw.this.auction
    )
    return windows.reduce(
        auction=pw.this._pw_instance,
        starttime=pw.this._pw_window_start,
        number=pw.reducers.count(),
        highest=pw.reducers.max(pw.this.price),
    )


def j4(bids: Any) -> Any:
    """The auction with most bids of each sliding window."""
    counts = slid(bids).select(pw.this.starttime, best=pw.make_tuple(pw.this.number, pw.this.auction))
    highest = counts.groupby(pw.this.starttime).reduce(pw.this.starttime, best=pw.reducers.max(pw.this.best))
    return highest.select(pw.this.starttime, auction=pw.this.best.get(1), number=pw.this.best.get(0))


STEPS = {
    "q0": q0,
    "q2": q2,
    "q3": q3,
    "q4": q4,
    "q5": q5,
    "q7": q7,
    "q8": q8,
    "q11": q11,
    "q12": q12,
    "q17": q17,
    "q18": q18,
    "q20": q20,
    "J1": j1,
    "J2": j2,
    "J3": j3,
    "J4": j4,
}
RUNNING = {"J2": lambda row: ({**row, "number": number} for number in range(1, row["number"] + 1))}
"""What is made of a last row, to compare an answer that has a row for each bid."""


class Received:
    """What has come of the answer."""

    def __init__(self) -> None:
        self.changes = self._rows = self._total = 0
        self._kept: Counter[tuple[Any, ...]] = Counter()
        self._last_counts = ORDER.text in RUNNING
        self.began = time.time()

    def change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """A row came, or went."""
        sign = 1 if is_addition else -1
        self.changes += 1
        self._rows += sign
        if ORDER.counted is not None:
            self._total += sign * plain(row[ORDER.counted])
        if ORDER.out is not None:
            self._kept[tuple(row[name] for name in NAMED)] += sign

    def end_of(self, _time: int) -> None:
        """All changes of one moment were seen."""
        # Of running counts Pathway has the last of each key, and these add up to the number of bids.
        complete = self._total == ORDER.rows if self._last_counts else self._all_rows()
        if not complete:
            return
        ended = time.time()
        if ORDER.out is not None:
            self._write(Path(ORDER.out))
        report(began=self.began, ended=ended, changes=self.changes, versions=versions("pathway"))
        os._exit(0)

    def _all_rows(self) -> bool:
        return self._rows == ORDER.rows and self._total == ORDER.total

    def _write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "part-0.json").open("w") as file:
            for values, times in self._kept.items():
                row = {name: plain(value) for name, value in zip(NAMES, values, strict=True)}
                for each in RUNNING.get(ORDER.text, lambda same: (same,))(row):
                    file.write((json.dumps(each) + "\n") * times)


def plain(value: Any) -> Any:
    """A value as JSON has it: times in microseconds."""
    return value.value // 1000 if hasattr(value, "value") else value


def main() -> None:
    """The program."""
    tables = [
        pw.io.jsonlines.read(
            files.folder,
            schema=SCHEMAS[name],
            mode="streaming",
            json_field_paths=PATHS.get(name),
            autocommit_duration_ms=1000,
            name=name,
        )
        for name, files in ORDER.tables.items()
    ]
    answer = STEPS[ORDER.text](*tables)
    received = Received()
    pw.io.subscribe(answer, on_change=received.change, on_time_end=received.end_of)
    store = pw.persistence.Backend.filesystem(f"{ORDER.work}/persistence")
    settings = pw.persistence.Config(store, snapshot_interval_ms=1000)
    received.began = time.time()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=settings)


if __name__ == "__main__":
    carry_out(main)
