"""The harness for unit tests of one user function, run in its real operator without threads or waiting."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from headgate.api.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from headgate.api.declared.keyed_states import StateKind, ValueState, declared_state  # noqa: F401 - for the example
from headgate.api.declared.operator_state import BROADCAST, declared_operator_state
from headgate.api.functions import KeyedProcessFunction, OutputTag, ProcessFunction
from headgate.common.decoders import UNDECODABLE, msgpack_decoder
from headgate.common.errors import UsageError
from headgate.common.time import WATERMARK_MIN
from headgate.core.marks import Mark
from headgate.graph.logical import Side
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.records.selectors import KeySelector
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.broadcast_operators import (
    BroadcastProcessOperator,
    KeyedBroadcastProcessOperator,
)
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.operators.operator_contract import Receiver
from headgate.runtime.worker.operators.stateless import ProcessOperator
from headgate.state.backend import Part
from headgate.state.snapshots import Inline, OperatorSubtaskState, StateHandle
from headgate.state.ttl.handle import TtlHandle
from headgate.testing.manual_clock import ManualClock

_UID = "harness"

T = TypeVar("T")
K = TypeVar("K")

Key = KeySelector | Sequence[str] | None
"""Field name, names or function that gives a record's key."""

Function = KeyedProcessFunction | ProcessFunction | KeyedBroadcastProcessFunction | BroadcastProcessFunction
"""The classes of functions that an `OperatorHarness` can run."""


class OperatorHarness:
    """Drives a `KeyedProcessFunction` or `ProcessFunction` record by record, also one with a broadcast side.

    A shallow copy of the function runs, so what its attributes refer to is shared with the original.

    Args:
        function: the function under test.
        key: field name, names or function that gives a record's key; for a keyed function only.
        max_parallelism: number of key groups.
        clock: processing time; by default one that stands at 0.

    Attributes:
        function: the live copy of the function.
        clock: processing time.
        outputs: everything emitted to the main output and not yet taken, in order.
        watermark: event time as the function sees it, in ms; -2**63 before the first watermark.

    Raises:
        UsageError: a keyed function without a key, a key for one that has none, or another kind of function.

    Example:
        >>> import headgate as hg
        >>> class Last(hg.KeyedProcessFunction[str, dict, str]):
        ...     count: ValueState[int] = hg.value_state(default=0)
        ...     def process(self, record, ctx):
        ...         self.count.value += 1
        ...         ctx.timers.register_event_time(ctx.timestamp + 10)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield f"{ctx.key} had {self.count.value}"
        >>> harness = OperatorHarness(Last(), key="user")
        >>> harness.process({"user": "ada"}, timestamp=5)
        >>> harness.advance_watermark(14); harness.take()
        []
        >>> harness.advance_watermark(15); harness.take()
        ['ada had 1']
        >>> later = OperatorHarness.restore(Last(), harness.snapshot(), key="user")
        >>> later.state("count", "ada"), later.watermark
        (1, 15)
    """

    watermark: int

    def __init__(
        self,
        function: Function,
        key: Key = None,
        *,
        max_parallelism: int = 128,
        clock: ManualClock | None = None,
    ) -> None:
        self._start(function, key, max_parallelism, clock, None)

    @classmethod
    def restore(
        cls,
        function: Function,
        snapshot: bytes,
        key: Key = None,
        *,
        max_parallelism: int = 128,
        clock: ManualClock | None = None,
    ) -> OperatorHarness:
        """Return a harness whose function starts with the state, timers and watermark of a snapshot.

        Args:
            function: a new instance, perhaps of a later version of the class.
            snapshot: what :meth:`snapshot` gave.
            key: as for the harness that took the snapshot.
            max_parallelism: as for the harness that took the snapshot.
            clock: processing time; by default one that stands at 0.

        Raises:
            UsageError: the stored state does not fit the declared one, or `snapshot` is damaged.
        """
        harness = cls.__new__(cls)
        try:
            stored = msgpack_decoder(OperatorSubtaskState | None).decode(snapshot)
        except UNDECODABLE as error:
            raise UsageError(
                f"restore() got {len(snapshot)} bytes that do not decode ({error}); "
                "expected what snapshot() gave"
            ) from None
        harness._start(function, key, max_parallelism, clock, stored)
        return harness

    def process(self, record: T, timestamp: int | None = None) -> None:
        """Call the function's `process` with one record.

        Args:
            record: what `process` gets.
            timestamp: its event time in ms; None for a stream without event time.

        Raises:
            UserFunctionError: the function raised.
        """
        self.process_batch([record], None if timestamp is None else [timestamp])

    def process_batch(self, records: Iterable[T], timestamps: Iterable[int] | None = None) -> None:
        """Call `process` with each record of one batch, no watermark in between; `timestamps` are in ms.

        Raises:
            UserFunctionError: the function raised.
            ValueError: there are more or fewer timestamps than records.
        """
        self._feed(Side.MAIN, list(records), timestamps)

    def process_broadcast(self, record: T, timestamp: int | None = None) -> None:
        """Call the function's `process_broadcast` with one record of the broadcast side.

        Args:
            record: what `process_broadcast` gets.
            timestamp: its event time in ms; None for a stream without event time.

        Raises:
            UsageError: the function has no broadcast side.
            UserFunctionError: the function raised.
        """
        if not isinstance(self.function, (BroadcastProcessFunction, KeyedBroadcastProcessFunction)):
            raise UsageError(f"process_broadcast(): {type(self.function).__name__} has no broadcast side")
        self._feed(Side.BROADCAST, [record], None if timestamp is None else [timestamp])

    def _feed(self, side: Side, rows: list[T], timestamps: Iterable[int] | None) -> None:
        if not rows:
            return
        times = None if timestamps is None else np.array(list(timestamps), dtype=np.int64)
        if times is not None and len(times) != len(rows):
            raise ValueError(f"process_batch() got {len(rows)} records and {len(times)} timestamps")
        watermarks = None if times is None else np.full(len(rows), self.watermark, dtype=np.int64)
        take, rest = self._operator.entry(side), RowBatch(rows, times, watermarks)
        while (done := take(rest)) < len(rest):
            rest = rest.slice(done, len(rest))
            self._fire_all()
        self._fire_all()

    def advance_watermark(self, timestamp: int) -> None:
        """Advance event time to `timestamp` (ms), if later; fire all event-time timers at or before it."""
        if timestamp > self.watermark:
            self.watermark = timestamp
            self._operator.watermark(timestamp)

    def set_processing_time(self, now_ms: int) -> None:
        """Set the wall clock (ms since 1970), also back; fire the processing-time timers at or before it."""
        self.clock.set(now_ms)
        self._operator.fire_processing_time(now_ms)

    def take(self) -> list[Any]:
        """Return the records emitted to the main output since the last call, and forget them."""
        taken, self.outputs[:] = list(self.outputs), []
        return taken

    def side_outputs(self, tag: OutputTag[T] | str) -> list[Any]:
        """Return the harness's own list of all records emitted to side output `tag` so far; remove none."""
        return self._sides.get(tag if isinstance(tag, str) else tag.name, [])

    def state(self, name: str, key: K) -> Any:
        """Return a copy of the function's keyed state `name` for a key.

        That is the value, the list or the dict; of reducing and aggregating state the result of `get`. A key
        without state gives the declared default, ``[]``, ``{}`` or None.

        Raises:
            UsageError: the function declares no such state.
        """
        declared = declared_state(self.function)
        descriptor = declared.get(name)
        if descriptor is None:
            raise UsageError(
                f"state({name!r}): {type(self.function).__name__} declares "
                f"{', '.join(map(repr, declared)) or 'no state'}"
            )
        assert isinstance(self._operator, KeyedProcessOperator)
        handle, kind = self._operator._backend.handles[name], descriptor.kind
        if isinstance(handle, TtlHandle):
            return copy.deepcopy(handle.peek(key))
        entries = getattr(handle.table, "entries", handle.table)
        if key in entries:
            held = copy.deepcopy(entries[key])
            return descriptor.function.get_result(held) if kind == StateKind.AGGREGATING else held
        return [] if kind == StateKind.LIST else {} if kind == StateKind.MAP else descriptor.default()

    def operator_state(self, name: str) -> Any:
        """Return a copy of the function's operator state `name`: a list, or a dict of broadcast state.

        Raises:
            UsageError: the function declares no such state.
        """
        declared = declared_operator_state(self.function)
        if name not in declared:
            raise UsageError(
                f"operator_state({name!r}): {type(self.function).__name__} declares "
                f"{', '.join(map(repr, declared)) or 'no operator state'}"
            )
        handle = getattr(self.function, name)
        return copy.deepcopy(dict(handle.items()) if declared[name].mode == BROADCAST else handle.get())

    def timers(self, domain: str = "event") -> list[tuple[int, Any]]:
        """Return (timestamp in ms, key) of all timers of one domain, by time; [] if the function has no key.

        Args:
            domain: "event" or "processing".
        """
        if not isinstance(self._operator, KeyedProcessOperator):
            return []
        backend = self._operator._backend
        queue = backend.event_timers if domain == "event" else backend.processing_timers
        times, keys = queue.frozen()
        return sorted(zip(times, keys, strict=True), key=lambda timer: timer[0])

    def snapshot(self) -> bytes:
        """Return the state, timers and watermark as a checkpoint stores them, for :meth:`restore`."""
        pending = self._operator.snapshot(1)
        return msgspec.msgpack.encode(None if pending is None else pending.finish(_Memory()))

    def close(self) -> None:
        """Close the function, as a job does after the last record."""
        self._operator.close()

    def _start(
        self,
        function: Function,
        key: Key,
        max_parallelism: int,
        clock: ManualClock | None,
        stored: OperatorSubtaskState | None,
    ) -> None:
        self.function = copy.copy(function)
        self.clock = clock if clock is not None else ManualClock()
        self.outputs: list[Any] = []
        self._sides: dict[str, list[Any]] = {}
        name = type(function).__name__
        restored = [] if stored is None else [stored]
        context = OperatorContext(_UID, name, 0, 1, 1, "harness", max_parallelism, self.clock, restored)
        self._operator = _operator(context, self.function, key)
        self._operator.next = _Collector(self.outputs)
        self._operator.side_outputs = _Sides(self._sides)
        self._operator.open()
        self._fire_all()  # what a snapshot left unfired
        self.watermark = WATERMARK_MIN
        if stored is not None and stored.watermark is not None:
            firing_to = stored.watermark if stored.firing_to is None else stored.firing_to
            self.watermark = max(stored.watermark, firing_to)

    def _fire_all(self) -> None:
        while self._operator.busy:
            self._operator.go_on()


_OPERATORS: dict[type, Callable[..., KeyedProcessOperator | ProcessOperator]] = {
    ProcessFunction: ProcessOperator,
    KeyedProcessFunction: KeyedProcessOperator,
    BroadcastProcessFunction: BroadcastProcessOperator,
    KeyedBroadcastProcessFunction: KeyedBroadcastProcessOperator,
}


def _operator(
    context: OperatorContext, function: Function, key: Key
) -> KeyedProcessOperator | ProcessOperator:
    kind = next((kind for kind in _OPERATORS if isinstance(function, kind)), None)
    if kind is None:
        raise UsageError(
            f"OperatorHarness got {context.name}; expected a KeyedProcessFunction or a ProcessFunction, "
            "perhaps one with a broadcast side"
        )
    if kind in (ProcessFunction, BroadcastProcessFunction):
        if key is not None:
            raise UsageError(
                f"OperatorHarness got key={key!r} for {context.name}, which is no KeyedProcessFunction"
            )
        return _OPERATORS[kind](context, function)
    if key is None:
        raise UsageError(f"OperatorHarness needs key= for {context.name}, which is a {kind.__name__}")
    return _OPERATORS[kind](context, function, tuple(key) if isinstance(key, list) else key)


class _Collector:
    """Stands for the next operator: keeps all records emitted to it."""

    def __init__(self, records: list[T]) -> None:
        self._records = records

    def process(self, batch: Batch) -> None:
        self._records.extend(batch.rows())

    def watermark(self, timestamp: int) -> None:
        pass

    def idle(self) -> None:
        pass

    def mark(self, mark: Mark) -> None:
        pass

    def end_of_data(self) -> None:
        pass


class _Sides(dict[str, Receiver]):
    """Side outputs by tag: `get` makes a collector for any tag, which adds to the tag's list in `records`."""

    def __init__(self, records: dict[str, list[T]]) -> None:
        super().__init__()
        self._records = records

    def get(self, tag: str, default: T | None = None) -> _Collector:
        return _Collector(self._records.setdefault(tag, []))


class _Memory:
    """Snapshot writer that puts state bytes into the snapshot itself instead of a storage."""

    def write(self, uid: str, parts: Iterable[Part]) -> Inline:
        return Inline(b"".join(parts))

    def write_sections(
        self, uid: str, sections: Sequence[Iterable[Part]], *, inline: bool
    ) -> list[StateHandle]:
        return [self.write(uid, parts) for parts in sections]

    def share(self, handle: StateHandle, root: str | None) -> bool:
        return False
