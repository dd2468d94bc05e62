"""Bytewax: the dataflow of one query. Run by `bytewax_query.py` as two processes in Bytewax's own
environment.

Reads JSON lines with orjson, one file in each process. Windows end per key, by the times of its own bids and
a wait that does not depend on the system's clock; the wait is long, because both files are read without
regard to each other.
"""

from __future__ import annotations

import operator
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
import orjson
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax_parts import JsonFiles, say
from orders import Order

ORDER = Order.read(os.environ["BENCH_ORDER"])
WAIT = timedelta(seconds=ORDER.wait_s)
ALIGNED = datetime(2015, 1, 1, tzinfo=UTC)
STARTED = datetime.now(UTC)
HOT = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
CHANNEL_ID = re.compile("(&|^)channel_id=([^&]*)")
NAMES = [name for name, _ in ORDER.columns]


class Counting(StatelessSinkPartition):
    """Receives rows and counts them."""

    def __init__(self) -> None:
        self._records = 0

    def write_batch(self, items: list[Any]) -> None:
        """Take rows."""
        self._records += len(items)

    def close(self) -> None:
        """Say what came."""
        say(end=time.time(), records=self._records)


class Updating(Counting):
    """Receives rows that take the place of earlier ones; how many are left at the end is not counted."""

    def close(self) -> None:
        """Say when it was done."""
        say(end=time.time())


class WritingLast(Updating):
    """Keeps the last row of each key, and writes these as JSON lines at the end."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._rows = path, dict[Any, Any]()
        self._key = itemgetter(*[NAMES.index(name) for name in ORDER.key])

    def write_batch(self, items: list[Any]) -> None:
        """Take rows."""
        self._rows.update((self._key(row), row) for row in items)

    def close(self) -> None:
        """Write what is left."""
        writing = Writing(self._path)
        writing.write_batch(list(self._rows.values()))
        writing.close()


class Writing(Counting):
    """Writes rows as JSON lines as well."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")

    def write_batch(self, items: list[Any]) -> None:
        """Take rows."""
        super().write_batch(items)
        rows = ({name: plain(value) for name, value in zip(NAMES, row, strict=True)} for row in items)
        self._file.writelines(orjson.dumps(row) + b"\n" for row in rows)

    def close(self) -> None:
        """Say what came."""
        self._file.close()
        super().close()


class AnswerSink(DynamicSink):
    """One partition per worker."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Counting:
        """Open one."""
        receiving, writing = (Updating, WritingLast) if ORDER.updating else (Counting, Writing)
        return receiving() if ORDER.out is None else writing(Path(ORDER.out) / f"part-{worker_index}.json")


def plain(value: Any) -> Any:
    """A value as JSON has it: times in microseconds."""
    return round(value.timestamp() * 1_000_000) if isinstance(value, datetime) else value


def time_of(bid: dict[str, Any]) -> datetime:
    """When it was made."""
    return datetime.fromisoformat(bid["dateTime"])


def in_currency(bid: dict[str, Any]) -> str:
    """The price times 0.908, exactly: the text of a decimal with three places."""
    whole, rest = divmod(bid["price"] * 908, 1000)
    return f"{whole}.{rest:03d}"


def mapped(function: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    """A step that makes a row of each bid, or none."""
    return lambda bids: op.filter_map("rows", bids, function)


def q0(bid: dict[str, Any]) -> Any:
    """The bid without channel and url."""
    return bid["auction"], bid["bidder"], bid["price"], time_of(bid), bid["extra"]


def q1(bid: dict[str, Any]) -> Any:
    """The bid with its price in another currency."""
    return bid["auction"], bid["bidder"], in_currency(bid), time_of(bid), bid["extra"]


def q2(bid: dict[str, Any]) -> Any:
    """Auction and price of some bids."""
    return (bid["auction"], bid["price"]) if bid["auction"] % 123 == 0 else None


def q14(bid: dict[str, Any]) -> Any:
    """Bids of a middle price, with the time of day and how many letters c their padding has."""
    if not 1_000_000_000 < bid["price"] * 908 < 50_000_000_000:
        return None
    at, extra = time_of(bid), bid["extra"]
    named = "dayTime" if 8 <= at.hour <= 18 else "otherTime" if 7 <= at.hour <= 19 else "nightTime"
    return bid["auction"], bid["bidder"], in_currency(bid), named, at, extra, extra.count("c")


def q21(bid: dict[str, Any]) -> Any:
    """Bids whose channel has an id."""
    found = HOT.get(bid["channel"].lower())
    if found is None:
        match = CHANNEL_ID.search(bid["url"])
        if match is None:
            return None
        found = match.group(2)
    return bid["auction"], bid["bidder"], bid["price"], bid["channel"], found


def q22(bid: dict[str, Any]) -> Any:
    """Parts of the URL."""
    return bid["auction"], bid["bidder"], bid["price"], bid["channel"], *bid["url"].split("/")[3:6]


def j1(bid: dict[str, Any]) -> Any:
    """Map and filter."""
    if bid["auction"] % 123:
        return None
    return bid["auction"], bid["bidder"], bid["price"] * 0.908, bid["channel"], bid["url"], time_of(bid)


def j2(bids: Any) -> Any:
    """A running count per auction."""

    def count(state: int | None, _bid: Any) -> tuple[int, int]:
        number = (state or 0) + 1
        return number, number

    keyed = op.map("key", bids, lambda bid: (str(bid["auction"]), bid))
    return op.map("row", op.stateful_map("count", keyed, count), lambda item: (int(item[0]), item[1]))


def windows(bids: Any, key: str, begin: Callable[[], Any], fold: Any, merge: Any) -> Any:
    """Windows of ten seconds per key: (key, (number of the window, folded value))."""
    clock = win.EventClock(
        time_of, wait_for_system_duration=WAIT, now_getter=lambda: STARTED, to_system_utc=lambda _: None
    )
    windower = win.TumblingWindower(length=timedelta(seconds=10), align_to=ALIGNED)
    keyed = op.map("key", bids, lambda bid: (str(bid[key]), bid))
    return win.fold_window("windows", keyed, clock, windower, begin, fold, merge, ordered=False).down


def start_of(window: int) -> datetime:
    """When a window begins."""
    return ALIGNED + timedelta(seconds=10 * window)


def q12(bids: Any) -> Any:
    """Bids per bidder and window."""
    found = windows(bids, "bidder", int, lambda n, _: n + 1, lambda a, b: a + b)

    def row(item: Any) -> Any:
        key, (window, number) = item
        return int(key), number, start_of(window), start_of(window + 1)

    return op.map("row", found, row)


def j3(bids: Any) -> Any:
    """Count and highest price per auction and window."""

    def fold(found: tuple[int, int], bid: Any) -> tuple[int, int]:
        return found[0] + 1, max(found[1], bid["price"])

    found = windows(bids, "auction", lambda: (0, 0), fold, lambda a, b: (a[0] + b[0], max(a[1], b[1])))

    def row(item: Any) -> Any:
        key, (window, (number, highest)) = item
        return int(key), start_of(window), number, highest

    return op.map("row", found, row)


def folded(items: Any, windower: Any, begin: Callable[[], Any], fold: Any, merge: Any) -> Any:
    """Windows over items (key, (time, what is folded)): (key, (number of the window, folded value))."""
    clock = win.EventClock(
        itemgetter(0), wait_for_system_duration=WAIT, now_getter=lambda: STARTED, to_system_utc=lambda _: None
    )
    return win.fold_window("windows", items, clock, windower, begin, fold, merge, ordered=False).down


def slid(bids: Any) -> Any:
    """The counts of all auctions of each sliding window: (its start, the counts).

    Windows end key by key, so what compares keys has to have one key for all: one worker does it.
    """

    def fold(counts: Counter[int], item: Any) -> Counter[int]:
        counts[item[1]] += 1
        return counts

    items = op.map("key", bids, lambda bid: ("all", (time_of(bid), bid["auction"])))
    slide = timedelta(seconds=2)
    windower = win.SlidingWindower(length=timedelta(seconds=10), offset=slide, align_to=ALIGNED)
    found = folded(items, windower, Counter, fold, operator.add)
    return op.map("start", found, lambda item: (ALIGNED + slide * item[1][0], item[1][1]))


def q5(bids: Any) -> Any:
    """The auctions with most bids of each sliding window, and the number of bids."""

    def winners(item: Any) -> list[Any]:
        most = max(item[1].values())
        return [(auction, number) for auction, number in item[1].items() if number == most]

    return op.flat_map("winners", slid(bids), winners)


def j4(bids: Any) -> Any:
    """The auction with most bids of each sliding window; of several the greatest."""

    def winner(item: Any) -> Any:
        number, auction = max((number, auction) for auction, number in item[1].items())
        return item[0], auction, number

    return op.map("winner", slid(bids), winner)


def q7(bids: Any) -> Any:
    """The bids with the highest price of each window, whose time may be the very end of it; by one worker."""

    def items(bid: dict[str, Any]) -> list[Any]:
        at = time_of(bid)
        own = [("all", (at, True, bid))]
        first = at.second % 10 == 0 and at.microsecond == 0
        return [*own, ("all", (at - timedelta(microseconds=1), False, bid))] if first else own

    def fold(found: tuple[int, list[Any]], item: Any) -> tuple[int, list[Any]]:
        highest, best = found
        _, counts, bid = item
        if counts and bid["price"] > highest:
            highest = bid["price"]
            best = [other for other in best if other["price"] >= highest]
        return highest, [*best, bid] if bid["price"] >= highest else best

    def merge(one: Any, other: Any) -> Any:
        return max(one[0], other[0]), one[1] + other[1]

    def rows(item: Any) -> list[Any]:
        highest, best = item[1][1]
        return [
            (bid["auction"], bid["price"], bid["bidder"], time_of(bid), bid["extra"])
            for bid in best
            if bid["price"] == highest
        ]

    windower = win.TumblingWindower(length=timedelta(seconds=10), align_to=ALIGNED)
    timed = op.flat_map("time", bids, items)
    return op.flat_map("rows", folded(timed, windower, lambda: (0, []), fold, merge), rows)


def q8(persons: Any, auctions: Any) -> Any:
    """Persons who registered and opened an auction in the same window, and its start."""

    def fold(found: tuple[set[str], bool], item: Any) -> tuple[set[str], bool]:
        names, opened = found
        return (names, True) if item[1] is None else (names | {item[1]}, opened)

    def merge(one: Any, other: Any) -> Any:
        return one[0] | other[0], one[1] or other[1]

    def rows(item: Any) -> list[Any]:
        key, (window, (names, opened)) = item
        return [(int(key), name, start_of(window)) for name in names] if opened else []

    registered = op.map("person", persons, lambda one: (str(one["id"]), (time_of(one), one["name"])))
    opened = op.map("seller", auctions, lambda one: (str(one["seller"]), (time_of(one), None)))
    windower = win.TumblingWindower(length=timedelta(seconds=10), align_to=ALIGNED)
    both = op.merge("both", registered, opened)
    return op.flat_map("rows", folded(both, windower, lambda: (set(), False), fold, merge), rows)


def q11(bids: Any) -> Any:
    """Sessions of bidders."""

    def fold(found: tuple[int, Any, Any], item: Any) -> tuple[int, Any, Any]:
        at = item[0]
        return (found[0] + 1, min(found[1], at), max(found[2], at)) if found[0] else (1, at, at)

    def merge(one: Any, other: Any) -> Any:
        return one[0] + other[0], min(one[1], other[1]), max(one[2], other[2])

    def row(item: Any) -> Any:
        key, (_, (number, first, last)) = item
        return int(key), number, first, last + timedelta(seconds=10)

    items = op.map("key", bids, lambda bid: (str(bid["bidder"]), (time_of(bid),)))
    found = folded(
        items, win.SessionWindower(gap=timedelta(seconds=10)), lambda: (0, None, None), fold, merge
    )
    return op.map("row", found, row)


def q13(bid: dict[str, Any]) -> Any:
    """The bid with the value of its auction's last four digits."""
    return bid["auction"], bid["bidder"], bid["price"], time_of(bid), SIDE_INPUT[bid["auction"] % 10_000]


SIDE_INPUT = {number: str(number) for number in range(10_000)}


def joined(ones: Any, others: Any, one: str, other: str, row: Callable[[Any, Any], Any]) -> Any:
    """Rows of both sides with equal keys: at most one record of the first, which is kept, and all others,
    which wait until it is there.
    """

    def match(state: Any, item: Any) -> Any:
        kept, waiting = state or (None, [])
        first, record = item
        if first:
            return (record, []), [row(record, each) for each in waiting]
        if kept is None:
            return (None, [*waiting, record]), []
        return (kept, []), [row(kept, record)]

    keyed = op.map("one", ones, lambda record: (str(record[one]), (True, record)))
    beside = op.map("other", others, lambda record: (str(record[other]), (False, record)))
    both = op.stateful_flat_map("join", op.merge("both", keyed, beside), match)
    return op.map("row", both, itemgetter(1))


def q3(persons: Any, auctions: Any) -> Any:
    """Who sells in a category and lives in three states, with each auction."""
    local = op.filter("local", persons, lambda person: person["state"] in ("OR", "ID", "CA"))
    offered = op.filter("offered", auctions, lambda auction: auction["category"] == 10)

    def row(person: Any, auction: Any) -> Any:
        return person["name"], person["city"], person["state"], auction["id"]

    return joined(local, offered, "id", "seller", row)


def q20(bids: Any, auctions: Any) -> Any:
    """The bids on auctions of a category, with both. Bids on others wait for ever, as nobody knows that."""
    of_category = op.filter("category", auctions, lambda auction: auction["category"] == 10)

    def row(auction: Any, bid: Any) -> Any:
        of_bid = (bid["auction"], bid["bidder"], bid["price"], bid["channel"], bid["url"], time_of(bid))
        of_auction = [auction[name] for name in ("itemName", "description", "initialBid", "reserve")]
        times = [datetime.fromisoformat(auction[name]) for name in ("dateTime", "expires")]
        rest = auction["seller"], auction["category"], auction["extra"]
        return *of_bid, bid["extra"], *of_auction, *times, *rest

    return joined(of_category, bids, "id", "auction", row)


def q17(bids: Any) -> Any:
    """Counts and prices of each auction and day: a new row for each bid."""

    def count(state: Any, bid: dict[str, Any]) -> Any:
        price = bid["price"]
        number, low, middle, high, least, most, total = state or (0, 0, 0, 0, price, price, 0)
        rank = 0 if price < 10_000 else 1 if price < 1_000_000 else 2
        counts = number + 1, low + (rank == 0), middle + (rank == 1), high + (rank == 2)
        found = (*counts, min(least, price), max(most, price), total + price)
        return found, found

    def row(item: Any) -> Any:
        (auction, day), found = item[0].split(), item[1]
        return int(auction), day, *found[:6], found[6] / found[0], found[6]

    keyed = op.map("key", bids, lambda bid: (f"{bid['auction']} {bid['dateTime'][:10]}", bid))
    return op.map("row", op.stateful_map("count", keyed, count), row)


def q18(bids: Any) -> Any:
    """The last bid of each bidder on each auction: it is sent when there is a later one."""

    def place(bid: dict[str, Any]) -> Any:
        return time_of(bid).timestamp() * -1, -bid["price"], bid["channel"], bid["url"], bid["extra"]

    def later(state: Any, bid: dict[str, Any]) -> Any:
        if state is not None and place(state) <= place(bid):
            return state, []
        last = bid["auction"], bid["bidder"], bid["price"], bid["channel"], bid["url"], time_of(bid)
        return bid, [(*last, bid["extra"])]

    keyed = op.map("key", bids, lambda bid: (f"{bid['bidder']} {bid['auction']}", bid))
    return op.map("row", op.stateful_flat_map("last", keyed, later), itemgetter(1))


STEPS = {
    "q0": mapped(q0),
    "q1": mapped(q1),
    "q2": mapped(q2),
    "q3": q3,
    "q5": q5,
    "q7": q7,
    "q8": q8,
    "q11": q11,
    "q12": q12,
    "q13": mapped(q13),
    "q14": mapped(q14),
    "q17": q17,
    "q18": q18,
    "q20": q20,
    "q21": mapped(q21),
    "q22": mapped(q22),
    "J1": mapped(j1),
    "J2": j2,
    "J3": j3,
    "J4": j4,
}

flow = Dataflow("events")
read = [op.input(f"{name}s", flow, JsonFiles(table.folder)) for name, table in ORDER.tables.items()]
op.output("answer", STEPS[ORDER.text](*read), AnswerSink())
