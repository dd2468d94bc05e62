"""Bytewax: the dataflow of one query. Run by `bytewax_query.py` as two processes in Bytewax's own
environment.

Reads JSON lines with orjson, one file in each process. Windows end per key, by the times of its own bids and
a wait that does not depend on the system's clock; the wait is long, because both files are read without
regard to each other.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
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
        return Counting() if ORDER.out is None else Writing(Path(ORDER.out) / f"part-{worker_index}.json")


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


STEPS = {
    "q0": mapped(q0),
    "q1": mapped(q1),
    "q2": mapped(q2),
    "q12": q12,
    "q14": mapped(q14),
    "q21": mapped(q21),
    "q22": mapped(q22),
    "J1": mapped(j1),
    "J2": j2,
    "J3": j3,
}

flow = Dataflow("bids")
op.output(
    "answer", STEPS[ORDER.text](op.input("bids", flow, JsonFiles(ORDER.tables["bid"].folder))), AnswerSink()
)
