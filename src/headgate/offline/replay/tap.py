"""Watches one keyed operator: lets through the records of one key, and notes what they do.

The operator is production's own, in production's own subtask. A tap takes the place of some of its methods,
and of what follows it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from headgate.common.errors import UserFunctionError
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.marks import Mark
from headgate.graph.logical import Side
from headgate.offline.replay.replay_report import Change, Step
from headgate.records.batch import Batch
from headgate.runtime.worker.operators.operator_contract import Receiver
from headgate.runtime.worker.task.gate_task import GateTask

IN_FLIGHT: Final = "in flight"
"""Sender of a record that was in flight when the snapshot was taken."""


class Tap(ABC):
    """Takes the steps of one key in the operator at the head of `task`, at most `count` records (None: all).

    The last `held_back` records, of all keys, are not processed: they were in flight where the replay ends.
    Event time goes no further than `ends_at` (ms; None: no limit), where the operator had got to then.

    Attributes:
        steps: what was done, in order.
        read: number of records of all keys that came.
        senders: who sent records of the key.
        full: whether `count` records were taken; what comes later is dropped.
        raised: what user code raised.
    """

    def __init__(
        self,
        task: GateTask,
        key: Hashable,
        count: int | None,
        before: Callable[[str], None],
        held_back: int = 0,
        ends_at: int | None = None,
    ) -> None:
        operator = task.head
        self._task, self._operator, self._key, self._count, self._before = task, operator, key, count, before
        self.steps: list[Step] = []
        self.read = self.records = 0
        self.senders: set[str] = set()
        self.full = False
        self.raised: BaseException | None = None
        self._held_back, self._ends_at, self._waiting = held_back, ends_at, 0
        self._line: deque[tuple[Batch | int, str]] = deque()
        self._out: list[Any] = []
        self._kept_output: list[Any] | None = None
        self._sides: list[tuple[str, Any]] = []
        self._take, self._advance = operator.process_some, operator.watermark
        self._entry, self._store, self._pass_mark = operator.entry, operator.snapshot, operator.mark
        self._ending = False
        self._fire = operator.fire_processing_time
        operator.next = Collector(self._out.append)
        operator.side_outputs = Sides(lambda tag, record: self._sides.append((tag, record)))
        self._begin()
        vars(operator).update(
            process_some=self.process_some,
            entry=self.entry,
            watermark=self.watermark,
            snapshot=self.snapshot,
            mark=self.mark,
            fire_processing_time=self.fire_processing_time,
        )

    def _begin(self) -> None:
        """Prepare for the first step; the operator is open, and its output comes here."""
        self._state, self._timers = self._now(), self._set_timers()

    @property
    def clock_read(self) -> bool:
        """Whether the function has asked for processing time."""
        return False

    @property
    def timed(self) -> bool:
        """Whether event time mattered: a timer of it was set or fired."""
        return self._uses("event")

    @property
    def wall_timers(self) -> bool:
        """Whether timers of processing time were set or fired."""
        return self._uses("processing")

    def _uses(self, word: str) -> bool:
        steps = [time for step in self.steps for time in (*step.timers_set, *step.timers_gone)]
        return any(time.startswith(word) for time in steps) or any(kind == word for kind, _ in self._timers)

    def process_some(self, batch: Batch) -> int:
        """Take the place of the operator's method: let the records of the key through."""
        self._line.append((batch, self._sender()))
        self._waiting += len(batch)
        self._move()
        return len(batch)

    def entry(self, side: Side) -> Callable[[Batch], int]:
        """Take the place of the operator's method: of a broadcast side all records are let through."""
        return self.process_some if side is Side.MAIN else self._broadcast

    def _broadcast(self, batch: Batch) -> int:
        take, sender = self._entry(Side.BROADCAST), self._sender()
        if not self.full:
            self.senders.add(sender)
            for at, record in enumerate(batch.rows()):
                row = batch.slice(at, at + 1)
                with self._step("broadcast", repr(record), sender, time_of(row)):
                    while not take(row):
                        self._drain()
        return len(batch)

    def watermark(self, timestamp: int) -> None:
        """Take the place of the operator's method: stop at each timer that is due."""
        self._line.append((timestamp, ""))
        self._move()

    def _move(self) -> None:
        # What waits is in the order in which it came; event time passes only what is processed.
        while self._line and (self._waiting > self._held_back or isinstance(self._line[0][0], int)):
            first, sender = self._line.popleft()
            if isinstance(first, int):
                if not self.full and not (self._held_back and self._waiting):
                    self._until(first)
                continue
            taken = min(len(first), self._waiting - self._held_back)
            if taken < len(first):
                self._line.appendleft((first.slice(taken, len(first)), sender))
            self._waiting -= taken
            self._batch(first.slice(0, taken), sender)

    def _batch(self, batch: Batch, sender: str) -> None:
        self.read += len(batch)
        self._let_through(batch, sender)
        if batch.watermarks is not None and not self.full:
            self._until(int(batch.watermarks[-1]))

    def end_at_barrier(self) -> None:
        """Have event time advance to where the replay ends, although records are held back, once the barrier
        is there: what comes before it may still wait in a batch that is not full.
        """
        self._ending = True

    def snapshot(self, checkpoint: Any) -> Any:
        """Take the place of the operator's method: first comes what event time has reached by then."""
        self._reach_end()
        return self._store(checkpoint)

    def mark(self, mark: Mark) -> None:
        """Take the place of the operator's method, as :meth:`snapshot` does: a barrier may be a mark."""
        self._reach_end()
        self._pass_mark(mark)

    def _reach_end(self) -> None:
        if self._ending and self._ends_at is not None and not self.full:
            self._until(self._ends_at)

    def fire_processing_time(self, now_ms: int) -> None:
        """Take the place of the operator's method: note what timers of processing time do."""
        with self._step("processing timer", str(now_ms)):
            self._fire(now_ms)

    @abstractmethod
    def _let_through(self, batch: Batch, sender: str) -> None:
        """Give the operator the records of the key that a batch has."""

    @abstractmethod
    def _reach(self, watermark: int) -> None:
        """Advance the operator's event time, if it is earlier."""

    @property
    @abstractmethod
    def _mark(self) -> int:
        """Event time that the operator has reached, in ms."""

    def _now(self) -> dict[str, str]:
        """Return the key's state for people; {}: it cannot be seen."""
        return {}

    def _set_timers(self) -> set[tuple[str, int]]:
        """Return the timers that are set, as kind and time."""
        return set()

    def _sender(self) -> str:
        reading = self._task._reading
        if reading is None or reading.channel is None:
            return IN_FLIGHT
        channel = self._task.channels[reading.channel]
        return f"{channel.ends.sender}[{channel.sender}]"

    def _until(self, watermark: int) -> None:
        self._reach(watermark if self._ends_at is None else min(watermark, self._ends_at))

    def _drain(self) -> None:
        while self._operator.busy:
            self._operator.go_on()

    @contextmanager
    def _step(
        self, kind: str, what: str, sender: str | None = None, time: int | None = None
    ) -> Iterator[None]:
        error: str | None = None
        self._before(f"{kind} {what}")
        try:
            yield
        except BaseException as raised:
            self.raised = raised
            first = raised.__context__ if isinstance(raised, UserFunctionError) else raised
            error = f"{type(first).__name__}: {first}".partition("\n")[0]
            raise
        finally:
            self._note(kind, what, sender, time, error)

    def _note(self, kind: str, what: str, sender: str | None, time: int | None, error: str | None) -> None:
        state, timers = (self._state, self._timers) if error else (self._now(), self._set_timers())
        mark = self._mark
        self.steps.append(
            Step(
                len(self.steps) + 1,
                kind,
                what,
                sender,
                time,
                mark if WATERMARK_MIN < mark < WATERMARK_MAX else None,
                changes(self._state, state),
                _words(timers - self._timers),
                _words(self._timers - timers),
                [repr(record) for record in self._out],
                [(tag, repr(record)) for tag, record in self._sides],
                error,
            )
        )
        self._state, self._timers = state, timers
        if self._kept_output is not None:
            self._kept_output += self._out
        self._out.clear()
        self._sides.clear()


def _words(timers: set[tuple[str, int]]) -> list[str]:
    return [f"{kind} {time}" for kind, time in sorted(timers)]


def time_of(row: Batch) -> int | None:
    """Return the event time of a batch's first record, in ms; None: it has none."""
    return None if row.timestamps is None else int(row.timestamps[0])


def changes(before: dict[str, str], after: dict[str, str]) -> list[Change]:
    """Return what differs between two states as :func:`shown` gives them.

    Example:
        >>> changes({"count": "1", "last": "'a'"}, {"count": "2", "last": "'a'"})
        [Change(state='count', before='1', after='2')]
    """
    names = [*before, *(name for name in after if name not in before)]
    return [
        Change(name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]


class Collector:
    """Stands for what follows the operator: keeps its records, and drops all events."""

    def __init__(self, add: Callable[[Any], None]) -> None:
        self._add = add

    def process(self, batch: Batch) -> None:
        for record in batch.rows():
            self._add(record)

    def watermark(self, timestamp: int) -> None:
        """Do nothing."""

    def idle(self) -> None:
        """Do nothing."""

    def mark(self, mark: Mark) -> None:
        """Do nothing."""

    def end_of_data(self) -> None:
        """Do nothing."""


class Sides(dict[str, Receiver]):
    """Side outputs by tag: `get` makes a collector for any tag."""

    def __init__(self, add: Callable[[str, Any], None]) -> None:
        super().__init__()
        self._add = add

    def get(self, tag: str, default: Any = None) -> Collector:
        return Collector(lambda record: self._add(tag, record))
