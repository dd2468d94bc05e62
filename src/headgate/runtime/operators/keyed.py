"""Keyed processing: state and timers per key, at exact event time.

A batch is processed in runs. A run ends where a timer is due, judged by the watermark that each
record carries, so timers fire between the same two records whatever the size of the batches.
"""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np

from headgate.api.functions import KeyedProcessFunction, OnTimerContext
from headgate.api.state import declared_state
from headgate.common.errors import UsageError
from headgate.common.keygroups import key_group_range
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.timers import TimerQueue
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.records.selectors import KeySelector
from headgate.runtime.operators.base import (
    NoRecord,
    Operator,
    OperatorContext,
    PendingState,
    keys_blamed,
    user_error,
)
from headgate.runtime.operators.keyed_loop import LoopShape, compile_keyed_loop
from headgate.runtime.operators.keyed_state import PendingKeyedState, open_backend, split_handles
from headgate.runtime.operators.outputs import SideBuffer, checked_outputs

END_TIMERS_MAX = 1_000_000
"""Timers that may be registered in one subtask while the last ones fire at the end of the input."""


class Timers:
    """The `TimerService` of one operator."""

    __slots__ = ("_clock", "_ctx", "current_watermark", "event", "processing")

    def __init__(self, ctx: KeyContext, clock: Any) -> None:
        self.current_watermark = WATERMARK_MIN
        self.event: TimerQueue[Any] = TimerQueue()
        self.processing: TimerQueue[Any] = TimerQueue()
        self._ctx, self._clock = ctx, clock

    def now_ms(self) -> int:
        """Processing time: wall-clock ms."""
        now: int = self._clock.now_ms()
        return now

    def register_event_time(self, timestamp: int) -> None:
        """See `api.functions.TimerService`."""
        self.event.register(timestamp, self._ctx.key)

    def register_processing_time(self, timestamp: int) -> None:
        """See `api.functions.TimerService`."""
        self.processing.register(timestamp, self._ctx.key)

    def delete_event_time(self, timestamp: int) -> None:
        """See `api.functions.TimerService`."""
        self.event.delete(timestamp, self._ctx.key)

    def delete_processing_time(self, timestamp: int) -> None:
        """See `api.functions.TimerService`."""
        self.processing.delete(timestamp, self._ctx.key)


class KeyContext:
    """What a keyed function sees besides the record."""

    __slots__ = ("_side", "key", "time_domain", "timers", "timestamp")

    def __init__(self, side: SideBuffer, clock: Any) -> None:
        self.key: Any = None
        self.timestamp: Any = None
        self.time_domain = "event"
        self.timers = Timers(self, clock)
        self._side = side

    def side_output(self, tag: Any, value: Any) -> None:
        """Emit `value` to a side output."""
        self._side.add(tag.name, value, self.timestamp, self.timers.current_watermark)


class _Output:
    """Main outputs of the present batch, with their times where the stream has any."""

    __slots__ = ("marks", "records", "times")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.times: list[int] = []
        self.marks: list[int] = []

    def batch(self) -> RowBatch:
        """Everything collected."""
        if len(self.times) != len(self.records):
            return RowBatch(self.records)
        times = np.array(self.times, dtype=np.int64)
        return RowBatch(self.records, times, np.array(self.marks, dtype=np.int64))


class KeyedProcessOperator(Operator):
    """An `api.functions.KeyedProcessFunction` and its state."""

    def __init__(
        self, context: OperatorContext, function: KeyedProcessFunction[Any, Any, Any], key: KeySelector
    ) -> None:
        super().__init__(context)
        self._function, self._key = function, key
        self._side = SideBuffer()
        self._ctx = KeyContext(self._side, context.clock)
        self._timers = self._ctx.timers
        self._mark = WATERMARK_MIN

    def open(self) -> None:
        """Restore state and timers, give the function its handles, call its `open`."""
        where = self.context
        groups = key_group_range(where.max_parallelism, where.parallelism, where.subtask)
        self._backend = open_backend(where, declared_state(self._function), groups)
        self._timers.event = self._backend.event_timers
        self._timers.processing = self._backend.processing_timers
        self._eager, self._bound = split_handles(self._backend)
        for name, handle in self._backend.handles.items():
            setattr(self._function, name, handle)
        marks = [s.watermark for s in where.restored if s.watermark is not None]
        self._mark = self._timers.current_watermark = min(marks, default=WATERMARK_MIN)
        self._function.open(where)

    def process(self, batch: Batch) -> None:
        """See :class:`Operator`."""
        out = _Output()
        if batch.watermarks is None:
            self._ctx.timestamp = None
            _Run(self, batch, out, [], None, None)(0, len(batch))
        else:
            self._run_timed(batch, out)
        self._emit(out)

    def watermark(self, timestamp: int) -> None:
        """Fire what is due, then pass the watermark on."""
        if timestamp > self._mark:
            out = _Output()
            self._fire_event_time(timestamp, out)
            self._emit(out)
        self.next.watermark(timestamp)

    def next_processing_time(self) -> int | None:
        """See :class:`Operator`."""
        return self._timers.processing.next_time

    def fire_processing_time(self, now_ms: int) -> None:
        """See :class:`Operator`."""
        out = _Output()
        self._ctx.time_domain = "processing"
        for timestamp, key in self._timers.processing.pop_due(now_ms):
            self._call_timer(timestamp, key, out)
        self._ctx.time_domain = "event"
        if self._mark > WATERMARK_MIN:
            # Outputs of the wall clock carry the event time that was reached.
            out.times = [self._mark] * len(out.records)
            out.marks = list(out.times)
            # What was registered for a time that has passed fires now, not at the next record.
            self._fire_event_time(self._mark, out)
        self._emit(out)

    def snapshot(self, checkpoint: int) -> PendingState | None:
        """See :class:`Operator`."""
        return PendingKeyedState(
            self.context.uid, self._backend.groups, self._backend.snapshot_sync(), self._mark
        )

    def state_types(self) -> dict[str, Any]:
        """See :class:`Operator`."""
        return self._backend.state_types()

    def close(self) -> None:
        """See :class:`Operator`."""
        self._function.close()

    def _emit(self, out: _Output) -> None:
        if out.records:
            self.next.process(out.batch())
        self._side.emit(self)

    def _run_timed(self, batch: Batch, out: _Output) -> None:
        assert batch.watermarks is not None
        assert batch.timestamps is not None
        # After a change of parallelism a reader may restart behind the time reached here.
        limits = np.maximum(batch.watermarks, self._mark)
        times, marks = batch.timestamps.tolist(), limits.tolist()
        origins: list[int] = []
        run = _Run(self, batch, out, origins, times, marks)
        position, count = 0, len(batch)
        while position < count:
            self._fire_event_time(marks[position], out)
            stop = self._run_end(limits, position)
            self._timers.event.limit, self._timers.event.interrupt = marks[stop - 1], False
            position = run(position, stop)
            out.times.extend([times[i] for i in origins])
            out.marks.extend([marks[i] for i in origins])
            origins.clear()
            self._mark = max(self._mark, marks[position - 1])
        # What was registered behind the last record's watermark fires now, not at the next batch.
        self._fire_event_time(self._mark, out)

    def _run_end(self, marks: Any, position: int) -> int:
        """The first record from `position` on before which a timer that is known now must fire."""
        due = self._timers.event.next_time
        if due is None or marks[-1] < due:
            return len(marks)
        return position + max(1, int(np.searchsorted(marks[position:], due, side="left")))

    def _fire_event_time(self, timestamp: int, out: _Output) -> None:
        """Timers due at watermark `timestamp`, in order; then that watermark is in force."""
        queue = self._timers.event
        allowed = END_TIMERS_MAX + len(queue) if timestamp == WATERMARK_MAX else None
        while (due := queue.next_time) is not None and due <= timestamp:
            # A timer's outputs belong before the watermark that fired it.
            mark = max(self._mark, min(due - 1, timestamp))
            self._timers.current_watermark = self._mark = mark
            for fired, key in queue.pop_due(due):
                before = len(out.records)
                if allowed is not None:
                    allowed -= 1
                    self._check_end(allowed, fired, key)
                self._call_timer(fired, key, out)
                fresh = len(out.records) - before
                out.times.extend([fired] * fresh)
                out.marks.extend([mark] * fresh)
        self._mark = max(self._mark, timestamp)
        self._timers.current_watermark = self._mark

    def _check_end(self, allowed: int, timestamp: int, key: Any) -> None:
        if allowed < 0:
            raise UsageError(
                f"{self.context.label} registers timer after timer at the end of the input (now of key "
                f"{key!r} at {timestamp}); event time is over there, so on_timer must stop at some point"
            )

    def _call_timer(self, timestamp: int, key: Any, out: _Output) -> None:
        ctx = self._ctx
        ctx.key, ctx.timestamp = key, timestamp
        for handle in self._bound:
            handle.bind(key)
        for handle in self._eager:
            handle.load(key)
        try:
            result = self._function.on_timer(timestamp, cast(OnTimerContext[Any], ctx))
            if result is not None:
                out.records.extend(checked_outputs(result))
        except Exception as error:
            what = f"timer of key {key!r} at {timestamp}"
            raise user_error(self.context, error, NoRecord(what)) from None
        for handle in self._eager:
            handle.store()


class _Run:
    """The generated loop over one batch, ready to be called for a range of its records."""

    __slots__ = ("_arguments", "_at", "_loop", "_operator", "_origins", "_out", "_row_class", "_rows")

    def __init__(
        self,
        operator: KeyedProcessOperator,
        batch: Batch,
        out: _Output,
        origins: list[int],
        times: Any,
        marks: Any,
    ) -> None:
        columnar = isinstance(batch, ArrowBatch)
        shape = LoopShape(len(operator._eager), len(operator._bound), columnar, times is not None)
        self._operator, self._origins, self._out = operator, origins, out
        self._rows: Any = batch.views() if isinstance(batch, ArrowBatch) else batch.rows()
        self._loop = compile_keyed_loop(shape)
        self._at = [0]
        self._arguments = (
            keys_blamed(operator.context, batch, operator._key, lambda: batch.keys(operator._key)),
            self._rows,
            times,
            marks,
            operator._ctx,
            operator._timers,
            operator._timers.event,
            operator._function.process,
        )
        self._row_class = batch.row_class() if isinstance(batch, ArrowBatch) else None

    def __call__(self, start: int, stop: int) -> int:
        operator = self._operator
        fresh: list[Any] = []
        try:
            position = self._loop(
                start,
                stop,
                *self._arguments,
                fresh,
                self._origins,
                operator._eager,
                operator._bound,
                self._row_class,
                sys.getrefcount,
                checked_outputs,
                self._at,
            )
        except Exception as error:
            raise user_error(operator.context, error, self._record(self._at[0])) from None
        self._out.records.extend(fresh)
        return position

    def _record(self, index: int) -> Any:
        if self._row_class is None:
            return self._rows[index]
        row = self._row_class()
        row._c, row._i = self._rows, index
        return row
