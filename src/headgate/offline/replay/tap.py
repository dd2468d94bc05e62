"""Watches one keyed operator: lets through the records of one key, one by one, and notes what each does.

The operator is production's own, in production's own subtask. The tap takes the place of two of its methods:
a batch goes on as batches of single records, and event time stops at each due timer. Neither changes what the
operator does, for its results depend on no limits of batches (`runtime/worker/operators/keyed_operator.py`).
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
from headgate.offline.replay.keyed_part import shown
from headgate.offline.replay.replay_report import Change, Step
from headgate.records.batch import Batch
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
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
        self._sides: list[tuple[str, Any]] = []
        self._take, self._advance = operator.process_some, operator.watermark
        self._entry = operator.entry
        self._fire = operator.fire_processing_time
        operator.next = _Collector(self._out.append)
        operator.side_outputs = _Sides(lambda tag, record: self._sides.append((tag, record)))
        self._begin()
        vars(operator).update(
            process_some=self.process_some,
            entry=self.entry,
            watermark=self.watermark,
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
                with self._step("broadcast", repr(record), sender, _time_of(row)):
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

    def reach_end(self) -> None:
        """Advance event time to where the replay ends, although records are held back."""
        if self._ends_at is not None and not self.full:
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
        self._out.clear()
        self._sides.clear()


class RowTap(Tap):
    """Takes the steps of one key in an operator of records: each record and each due timer is a step."""

    def _begin(self) -> None:
        super()._begin()
        self._noted_clock = _NotedClock(self._keyed)

    @property
    def _keyed(self) -> KeyedProcessOperator:
        assert isinstance(self._operator, KeyedProcessOperator)
        return self._operator

    @property
    def clock_read(self) -> bool:
        """Whether the function has asked for processing time."""
        return self._noted_clock.read

    def _let_through(self, batch: Batch, sender: str) -> None:
        keys = self._keyed._key_types.keys_of(batch, self._keyed._key)
        for at, key in enumerate(keys):
            if key == self._key and not self.full:
                self._record(batch.slice(at, at + 1), sender)

    def _record(self, row: Batch, sender: str) -> None:
        if row.watermarks is not None:
            self._until(int(row.watermarks[0]))
        self.senders.add(sender)
        self.records += 1
        with self._step("record", repr(row.rows()[0]), sender, _time_of(row)):
            while not self._take(row):
                self._drain()
        self.full = self.records == self._count

    def _reach(self, watermark: int) -> None:
        while (due := self._keyed._next_due()) is not None and due <= watermark:
            with self._step("timer", str(due)):
                self._advance(due)
                self._drain()
        if watermark > self._mark:
            self._advance(watermark)
            self._drain()

    @property
    def _mark(self) -> int:
        return self._keyed._mark

    def _now(self) -> dict[str, str]:
        backend = self._keyed._backend
        held = {name: [value for _, value in backend.scan(name)] for name in backend.handles}
        return shown({name: values for name, values in held.items() if values})

    def _set_timers(self) -> set[tuple[str, int]]:
        backend = self._keyed._backend
        found = {("event", time) for time in backend.event_timers.frozen()[0]}
        return found | {("processing", time) for time in backend.processing_timers.frozen()[0]}


def _words(timers: set[tuple[str, int]]) -> list[str]:
    return [f"{kind} {time}" for kind, time in sorted(timers)]


def _time_of(row: Batch) -> int | None:
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


class _Collector:
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


class _Sides(dict[str, Receiver]):
    """Side outputs by tag: `get` makes a collector for any tag."""

    def __init__(self, add: Callable[[str, Any], None]) -> None:
        super().__init__()
        self._add = add

    def get(self, tag: str, default: Any = None) -> _Collector:
        return _Collector(lambda record: self._add(tag, record))


class _NotedClock:
    """Takes the place of the clock that an operator's function reads, and notes whether it did."""

    def __init__(self, operator: KeyedProcessOperator) -> None:
        self._clock, self.read = operator.context.clock, False
        operator._timers._clock = self

    def now_ms(self) -> int:
        self.read = True
        return int(self._clock.now_ms())

    def monotonic_ms(self) -> int:
        return int(self._clock.monotonic_ms())

    def precise_ms(self) -> float:
        return float(self._clock.precise_ms())
