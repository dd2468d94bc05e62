"""What unit tests of windows share: the function of a program's windows in a harness, and records."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, NamedTuple

import headgate as hg
from headgate.testing import ManualClock, MiniCluster, OperatorHarness

END = 2**63 - 1
STATES = ("windows", "due", "remembered", "records", "runs")


class Seen(NamedTuple):
    """A record with its key, event time and value."""

    key: str
    at: int
    price: int | None = None


def windows(assigner: Any) -> Any:
    """A stream of records in windows, by their key."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    return env.from_collection([Seen("a", 0)]).map(seen).key_by("key").window(assigner)


def seen(record: Seen) -> Seen:
    """Declares the type of the records."""
    return record


def function_of(stream: Any) -> Any:
    """The function that runs the windows of a stream."""
    return stream._environment.program.node(stream._number).function


class Run:
    """Windows in a harness; outputs are pairs of event time and result."""

    def __init__(self, make: Callable[[], Any], clock: ManualClock | None = None) -> None:
        self.make, self.clock = make, clock or ManualClock()
        self.harness = OperatorHarness(function_of(make()), key="key", clock=self.clock)

    def restart(self) -> None:
        """Go on from a snapshot, with another instance of the program."""
        stored = self.harness.snapshot()
        again = OperatorHarness.restore(function_of(self.make()), stored, key="key", clock=self.clock)
        again.function.dropped = self.harness.function.dropped
        self.harness = again

    def feed(self, *records: Seen) -> list[Any]:
        """Process records; return what came out."""
        for record in records:
            self.harness.process(record, timestamp=record.at)
        return self.harness.take()

    def watermark(self, at: int) -> list[Any]:
        """Advance event time; return what came out."""
        self.harness.advance_watermark(at)
        return self.harness.take()

    def wall(self, at: int) -> list[Any]:
        """Advance the wall clock; return what came out."""
        self.harness.set_processing_time(at)
        return self.harness.take()

    def left(self, key: str = "a") -> dict[str, Any]:
        """What is stored for a key, by state."""
        declared = [name for name in STATES if hasattr(type(self.harness.function), name)]
        found = {name: self.harness.state(name, key) for name in declared if name != "records"}
        if "record" in vars(self.harness.function):
            found["records"] = self.harness.state("records", key)
        return {name: value for name, value in found.items() if value}

    @property
    def timers(self) -> list[Any]:
        """What is registered, in both times."""
        return self.harness.timers() + self.harness.timers("processing")


def span(result: Any) -> tuple[int, int]:
    """Start and end of a result's window, in ms."""
    return ms(result["window"]["start"]), ms(result["window"]["end"])


def ms(moment: dt.datetime) -> int:
    """A moment in ms since 1970."""
    assert moment.utcoffset() == dt.timedelta()
    return round(moment.timestamp() * 1000)
