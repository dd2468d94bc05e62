"""The parts of jobs that are held up on purpose: sources, functions and sinks with a cost per record.

All of it runs in workers. A cost is slept away or burnt, so that a case can hold a job up without taking the
machine's processors from the others.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from typing_extensions import override

import headgate as hg
from headgate.runtime.transport import connection

_SPREAD: Final = 2_654_435_761
_ONE_IN: Final = 1_000


@dataclass(frozen=True)
class Cost:
    """Time that one record takes.

    Attributes:
        seconds: of it.
        burns: whether it is computed away, or slept.
    """

    seconds: float = 0.0
    burns: bool = False

    def pay(self) -> None:
        """Take the time of one record."""
        if not self.seconds:
            return
        if not self.burns:
            time.sleep(self.seconds)
            return
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            sum(range(50))


@dataclass(frozen=True)
class Numbers:
    """The records of a generator: their indices, or the same object each time.

    Attributes:
        record: what takes the place of all indices, if it is not None.
    """

    record: Any = None

    def __call__(self, wanted: range) -> list[Any]:
        return list(wanted) if self.record is None else [self.record] * len(wanted)


@dataclass(frozen=True)
class KeyOf:
    """A key of an index.

    Attributes:
        hot: how many of a thousand records have the first key.
        keys: how many others there are.
    """

    hot: int = 0
    keys: int = 997

    def __call__(self, record: int) -> int:
        mixed = (record * _SPREAD) >> 7
        return 0 if mixed % _ONE_IN < self.hot else 1 + mixed // _ONE_IN % self.keys


@dataclass
class Work:
    """A function of one record that gives it back.

    Attributes:
        cost: of it.
        garbage: what it makes of containers, if it does.
    """

    cost: Cost = Cost()
    garbage: Litter | None = None

    def __call__(self, record: Any) -> Any:
        self.cost.pay()
        if self.garbage is not None:
            self.garbage.add()
        return record


@dataclass
class Litter:
    """Containers that hold each other, which the garbage collector has to look at.

    Attributes:
        per_record: how many each record makes.
        kept: how many stay, until all of them are dropped.
        collects: whether the program has the collector run, for each record.
    """

    per_record: int
    kept: int
    collects: bool
    held: list[Any] = field(default_factory=list)

    def add(self) -> None:
        """Make those of one record."""
        if self.collects:
            if len(self.held) < self.kept:
                self.held += [[number] for number in range(self.kept)]
            gc.collect()
            return
        if len(self.held) > self.kept:
            self.held = []
        for number in range(self.per_record):
            pair: list[Any] = [number, {}]
            pair[1]["back"] = pair
            self.held.append(pair)


class Count(hg.KeyedProcessFunction[int, Any, Any]):
    """Counts by key, and keeps a value of some size.

    Args:
        work: what it does besides.
        size: numbers in the value; 0 keeps none.
    """

    count: hg.ValueState[int] = hg.value_state(default=0)
    values: hg.ValueState[list[int]] = hg.value_state(default=None)

    def __init__(self, work: Work, size: int = 0) -> None:
        self.work, self.size = work, size

    @override
    def process(self, record: Any, ctx: hg.KeyedContext[int]) -> Iterator[Any]:
        """One more."""
        self.work(record)
        if self.size:
            values = self.values.value or [0] * self.size
            values[0] += 1
            self.values.value = values
        else:
            self.count.value += 1
        yield record


class Nowhere(hg.Sink[Any]):
    """A sink that forgets.

    Args:
        cost: of each record.
    """

    guarantee = "at-least-once"

    def __init__(self, cost: Cost) -> None:
        self.cost = cost

    @override
    def create_writer(
        self, context: hg.SinkWriterContext, restored: Sequence[Any]
    ) -> hg.SinkWriter[Any, Any, Any]:
        """Return the writer of a subtask."""
        return _Forgetting(self.cost)


class _Forgetting(hg.SinkWriter[Any, Any, Any]):
    def __init__(self, cost: Cost) -> None:
        self._cost = cost

    @override
    def write(self, records: Any) -> None:
        for _ in records:
            self._cost.pay()

    @override
    def prepare_commit(self) -> list[Any]:
        return []


class SlowInput(hg.Source[int]):
    """Numbers without an end, some at a time, each poll of which takes time.

    Args:
        cost: of a poll.
        lot: records that a poll gives.
    """

    def __init__(self, cost: Cost, lot: int) -> None:
        self.cost, self.lot = cost, lot

    @override
    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator[Any, Any]:
        """Return the one that has a split for each reader."""
        return _OneEach()

    @override
    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[int, Any]:
        """Return the reader of a subtask."""
        return _SlowReader(self.cost, self.lot)


class _OneEach(hg.SplitEnumerator[Any, Any]):
    def __init__(self) -> None:
        self._given: set[int] = set()

    @override
    def next_splits(self, subtask: int) -> list[hg.Split[Any]] | None:
        if subtask in self._given:
            return None
        self._given.add(subtask)
        return [hg.Split(str(subtask))]

    @override
    def snapshot(self) -> Any:
        return None


class _SlowReader(hg.SourceReader[int, Any]):
    def __init__(self, cost: Cost, lot: int) -> None:
        self._cost, self._lot, self._next, self._splits = cost, lot, 0, list[hg.Split[Any]]()

    @override
    def add_splits(self, splits: Sequence[hg.Split[Any]]) -> None:
        self._splits += splits

    @override
    def no_more_splits(self) -> None:
        pass

    @override
    def poll(self, max_records: int) -> Any:
        if not self._splits:
            return hg.NOTHING_AVAILABLE
        self._cost.pay()
        self._next += self._lot
        return list(range(self._next - self._lot, self._next))

    @override
    def snapshot(self) -> list[hg.Split[Any]]:
        return self._splits


class Hog(hg.ProcessFunction[Any, Any]):
    """Gives records on; in one subtask it also has a thread that computes all the time.

    Args:
        subtask: which.
    """

    def __init__(self, subtask: int) -> None:
        self.subtask = subtask

    @override
    def open(self, context: hg.RuntimeContext) -> None:
        """Start the thread."""
        if context.subtask == self.subtask:
            threading.Thread(target=_compute, daemon=True).start()

    @override
    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        """Give it on."""
        yield record


def _compute() -> None:
    while True:
        sum(range(1_000))


class LongWay(hg.ProcessFunction[Any, Any]):
    """Gives records on, and makes the way between workers long.

    Args:
        delay_s: by how much later frames come.
    """

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s

    @override
    def open(self, context: hg.RuntimeContext) -> None:
        """Have this process's frames wait, those of one call together."""
        names, delay_s = vars(connection), self.delay_s
        send = names["send_parts"]

        def later(sock: Any, parts: Any) -> None:
            if threading.current_thread().name.startswith("headgate-data"):
                time.sleep(delay_s)
            send(sock, parts)

        names["send_parts"] = later

    @override
    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        """Give it on."""
        yield record
