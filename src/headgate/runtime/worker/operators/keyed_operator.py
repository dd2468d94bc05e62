"""The keyed operator: runs a user function with state and timers per key, in exact event time.

A batch is processed in runs. A run ends where a timer is due by the watermark that each record carries, so
timers fire between the same two records whatever the size of the batches. They fire in slices. Between two
slices the operator is *busy*: it takes no input, but barriers pass, and a restored operator fires the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from headgate.api.broadcast import KeyedBroadcastProcessFunction
from headgate.api.declared.keyed_states import declared_state
from headgate.api.functions import KeyedProcessFunction, OnTimerContext
from headgate.common.errors import InternalError, UsageError
from headgate.common.keys.key_types import DeclaredKeys
from headgate.common.keys.keygroups import key_group, key_group_range, shortened
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.records.batch import Batch
from headgate.records.selectors import KeySelector
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import timer_error
from headgate.runtime.worker.operators.function_state import FunctionState
from headgate.runtime.worker.operators.keyed_context import Firing, KeyContext, KeyedOutput, Slice
from headgate.runtime.worker.operators.keyed_run import KeyedRun
from headgate.runtime.worker.operators.keyed_state import (
    PendingKeyedState,
    open_backend,
    split_handles,
)
from headgate.runtime.worker.operators.operator_contract import (
    Operator,
    PendingState,
    StateTypes,
    give_handles,
)
from headgate.runtime.worker.operators.outputs import SideBuffer, checked_outputs
from headgate.runtime.worker.operators.seen_key_types import KeyTypes
from headgate.runtime.worker.operators.timer_counts import TimerCounts
from headgate.runtime.worker.operators.wrong_use import (
    without_key,
)
from headgate.state.backend import StoredValue
from headgate.state.undo.journal import Journal

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

RunKind = Callable[..., Callable[[int, int], int]]
"""Returns, for a batch, the callable that calls the user's function for a range of its records."""

END_TIMERS_MAX = 1_000_000
"""Limit of timers that a subtask registers while timers fire at the end of the input."""


class KeyedProcessOperator(Operator):
    """Runs a `KeyedProcessFunction` by `key`, with state and timers; `keys`: declared key type or None.
    Base of the other keyed operators. While due timers of event time have not all fired it is `busy`.
    """

    _state_type: type[FunctionState] = FunctionState
    _journal: Journal | None = None  # of an operator that undoes what a failing call has done

    def __init__(
        self,
        context: OperatorContext,
        function: KeyedProcessFunction | KeyedBroadcastProcessFunction,
        key: KeySelector,
        keys: DeclaredKeys | None = None,
    ) -> None:
        super().__init__(context)
        self._function, self._key = function, key
        self._key_types = KeyTypes(context, keys)
        self._side = SideBuffer()
        self._ctx = KeyContext(self._side, context.clock, context.label)
        self._timers = self._ctx.timers
        self._mark = WATERMARK_MIN
        self._firing: Firing | None = None
        self._wall_firing: Firing | None = None
        self._counts = TimerCounts(self._timers)
        self._opened = False
        self._completed: int | None = 0
        self._of_state: Mapping[str, int] = {}  # metrics of the backend, as of the last sample

    def open(self) -> None:
        where = self.context
        groups = key_group_range(where.max_parallelism, where.parallelism, where.subtask)
        states = declared_state(self._function)
        journal = self._journal
        self._backend = open_backend(where, states, groups, lambda: self._timers.current_watermark, journal)
        self._opened = True
        self._key_types.restore(self._backend, states)
        self._timers.event = self._backend.event_timers
        self._timers.processing = self._backend.processing_timers
        self._eager, self._bound = split_handles(self._backend)
        give_handles(self._function, self._backend.handles)
        self._own = self._state_type(where, self._function)
        self._restore_time()
        with without_key(where, self._function, self._backend.handles, "open"):
            self._function.open(where)

    def _restore_time(self) -> None:
        # The snapshot may have been taken in the middle of firing timers.
        restored = self.context.restored
        marks = [s.watermark for s in restored if s.watermark is not None]
        self._mark = self._timers.current_watermark = min(marks, default=WATERMARK_MIN)
        reached = [s.watermark if s.firing_to is None else s.firing_to for s in restored]
        target = max(self._mark, min((time for time in reached if time is not None), default=self._mark))
        if target > self._mark or self._timers.event.has_due(target):
            # Whether the watermark was to be passed on is not stored: it has been reached in any case.
            self._begin_firing(target, announce=target > self._mark)

    @property
    def busy(self) -> bool:
        return self._firing is not None

    def go_on(self) -> None:
        firing = self._firing
        if firing is None:
            return
        self._backend.settle()
        out, time = KeyedOutput(), self._slice()
        fired = self._fire_slice(firing, out, time)
        self._counts.add(time.fired)
        self._emit(out)
        if fired and firing.announce:
            self.next.watermark(firing.target)

    def process(self, batch: Batch) -> None:
        rest = batch
        while (done := self.process_some(rest)) < len(rest):
            rest = rest.slice(done, len(rest))
            self._fire_all()
        self._fire_all()

    def process_some(self, batch: Batch) -> int:
        return self._run(batch, KeyedRun)

    def _run(self, batch: Batch, kind: RunKind) -> int:
        self._refuse_while_busy("records")
        self._backend.settle()
        out = KeyedOutput()
        if batch.watermarks is None:
            self._ctx.timestamp = None
            done = kind(self, batch, out, [], None, None)(0, len(batch))
        else:
            time = self._slice()
            done = self._run_timed(batch, out, kind, time)
            self._counts.add(time.fired)
        self._emit(out)
        return done

    def watermark(self, timestamp: int) -> None:
        self._refuse_while_busy("a watermark")
        if timestamp <= self._mark:
            self.next.watermark(timestamp)
            return
        self._begin_firing(timestamp, announce=True)
        self.go_on()

    def idle(self) -> None:
        self._refuse_while_busy("idleness")
        self.next.idle()

    def end_of_data(self) -> None:
        self._refuse_while_busy("the end of the data")
        self.next.end_of_data()

    def next_processing_time(self) -> int | None:
        return self._timers.processing.next_time

    def fire_processing_time(self, now_ms: int) -> None:
        self._backend.settle()
        out, time = KeyedOutput(), self._slice()
        fired = self._fire_wall_slice(now_ms, out, time)
        of_wall = time.fired
        if self._mark > WATERMARK_MIN:
            # Outputs of processing-time timers carry the event time that was reached.
            out.times = [self._mark] * len(out.records)
            out.marks = list(out.times)
            if fired and self._firing is None:
                # Event-time timers registered for a past time fire now, not at the next record.
                self._fire_event_time(self._mark, out, time)
        self._counts.add(time.fired - of_wall, of_wall)
        self._emit(out)

    def _fire_wall_slice(self, now_ms: int, out: KeyedOutput, time: Slice) -> bool:
        """Fire the processing-time timers due at `now_ms` (wall clock), in order, until slice `time` ends.
        Outputs go to `out`. The timers that are left fire in the next slice. Return True if all have fired.
        """
        queue, firing = self._timers.processing, self._wall_firing
        if firing is None or firing.target > now_ms:  # the wall clock may have been set back
            firing = Firing(now_ms, queue.pop_due(now_ms))
        self._wall_firing = None
        self._ctx.time_domain = "processing"
        for timestamp, key in firing.due:
            self._call_timer(timestamp, key, out)
            time.left -= 1
            if not time.left and time.over():
                if queue.has_due(firing.target):
                    self._wall_firing = firing
                break
        self._ctx.time_domain = "event"
        return self._wall_firing is None

    @property
    def has_spare_work(self) -> bool:
        return self._counts.wanted or bool(self._backend.migration_progress())

    def do_spare_work(self) -> None:
        if self._counts.wanted:
            self._counts.count()
        self._backend.settle()

    def sample(self) -> None:
        self._of_state = self._backend.measured()

    def measured(self) -> Mapping[str, int]:
        return {**self._counts.measured(), **self._of_state}

    def may_build_on(self, checkpoint: int | None) -> None:
        self._completed = checkpoint

    def snapshot(self, checkpoint: int) -> PendingState | None:
        target = None if self._firing is None else self._firing.target
        pending = self._backend.snapshot_sync(checkpoint, self._completed)
        key_types = self._key_types.stored(self._backend)
        keyed = PendingKeyedState(self.context.uid, pending, self._mark, target, key_types)
        return self._own.snapshot(keyed)

    def peek(self, state: str, key: Hashable) -> StoredValue | None:
        first, last = self._backend.groups
        if not first <= key_group(key, self.context.max_parallelism) <= last:
            raise InternalError(
                f"{self.context.label}, subtask {self.context.subtask}, was asked for key {shortened(key)}, "
                f"which is not in its key groups {first} to {last}; please report this"
            )
        return self._backend.peek(state, key)

    def state_types(self) -> StateTypes:
        return self._backend.state_types() | self._own.state_types()

    def close(self) -> None:
        # Before open(), only the function is closed.
        if not self._opened:
            self._function.close()
            return
        try:
            with without_key(self.context, self._function, self._backend.handles, "close"):
                self._function.close()
        finally:
            self._backend.close()

    def _emit(self, out: KeyedOutput) -> None:
        if out.records:
            self.next.process(out.batch())
        self._side.emit(self)
        if self._counts.wanted:
            self._counts.count()

    def _slice(self) -> Slice:
        return Slice(self.context.clock, self.context.step_target_ms)

    def _refuse_while_busy(self, what: str) -> None:
        if self._firing is not None:
            raise InternalError(
                f"{self.context.label} was given {what} while timers up to {self._firing.target} are being "
                "fired; expected go_on() until it is no longer busy; please report this"
            )

    def _fire_all(self) -> None:
        while self._firing is not None:
            self.go_on()

    def _run_timed(self, batch: Batch, out: KeyedOutput, kind: RunKind, time: Slice) -> int:
        """Process a batch with event time, firing the timers due before each record, until slice `time` ends.
        Outputs go to `out`, with the time of their record or timer. Return how many records were processed:
        fewer than all if the slice ended first, so that the operator is busy. `kind` makes the callable that
        processes a range of records.
        """
        assert batch.watermarks is not None
        assert batch.timestamps is not None
        # After a rescale a reader may restart at an earlier event time than was reached here.
        limits = np.maximum(batch.watermarks, self._mark)
        origins, listed = list[int](), list[list[int]]()
        run = kind(self, batch, out, origins, batch.timestamps, limits)
        position = 0
        while position < len(batch):
            if not self._fire_event_time(int(limits[position]), out, time):
                return position
            stop = self._run_end(limits, position)
            self._timers.event.limit, self._timers.event.interrupt = int(limits[stop - 1]), False
            position = run(position, stop)
            if origins:
                listed = listed or [batch.timestamps.tolist(), limits.tolist()]
                out.times.extend([listed[0][i] for i in origins])
                out.marks.extend([listed[1][i] for i in origins])
                origins.clear()
            self._mark = max(self._mark, int(limits[position - 1]))
        # Timers that are due by the last record's watermark fire now, not at the next batch.
        self._fire_event_time(self._mark, out, time)
        return position

    def _next_due(self) -> int | None:
        """Return the event time at which something fires next, None if nothing waits for one."""
        return self._timers.event.next_time

    def _run_end(self, marks: Int64s, position: int) -> int:
        due = self._next_due()
        if due is None or marks[-1] < due:
            return len(marks)
        return position + max(1, int(np.searchsorted(marks[position:], due, side="left")))

    def _fire_event_time(self, timestamp: int, out: KeyedOutput, time: Slice) -> bool:
        # False: slice `time` ended before all timers up to `timestamp` had fired, so the operator is busy.
        due = self._next_due()
        if due is None or due > timestamp:
            self._reach(timestamp)
            return True
        return self._fire_slice(self._begin_firing(timestamp, announce=False), out, time)

    def _begin_firing(self, target: int, *, announce: bool) -> Firing:
        at_end = target == WATERMARK_MAX
        allowed = END_TIMERS_MAX + len(self._timers.event) if at_end else None
        firing = self._firing = Firing(target, (), announce, allowed)
        return firing

    def _fire_slice(self, firing: Firing, out: KeyedOutput, time: Slice) -> bool:
        """Fire the due timers of `firing` in order of time, into `out`, until slice `time` ends or all have
        fired. Timers that are registered meanwhile for a time up to the target fire, too. Return True if all
        have fired; then the operator is no longer busy, and its event time is the target. UsageError: at the
        end of the input, more than `END_TIMERS_MAX` new timers were registered.
        """
        queue, target = self._timers.event, firing.target
        while True:
            for timestamp, key in firing.due:
                if firing.allowed is not None:
                    firing.allowed -= 1
                    self._check_end(firing.allowed, timestamp, key)
                before = len(out.records)
                self._call_timer(timestamp, key, out)
                if fresh := len(out.records) - before:
                    out.times.extend([timestamp] * fresh)
                    out.marks.extend([self._mark] * fresh)
                time.left -= 1
                if not time.left and time.over() and queue.has_due(target):
                    return False
            due = queue.next_time
            if due is None or due > target:
                break
            # A timer's outputs come before the watermark that fired it.
            self._reach(min(due - 1, target))
            firing.due = queue.pop_due(due)
        self._firing = None
        self._reach(target)
        return True

    def _reach(self, mark: int) -> None:
        if mark > self._mark:
            self._mark = mark
        self._timers.current_watermark = self._mark

    def _check_end(self, allowed: int, timestamp: int, key: Hashable) -> None:
        if allowed < 0:
            raise UsageError(
                f"{self.context.label} registers timer after timer at the end of the input (now of key "
                f"{key!r} at {timestamp}); event time is over there, so on_timer must stop at some point"
            )

    def _call_timer(self, timestamp: int, key: Hashable, out: KeyedOutput) -> None:
        try:
            self._fire(timestamp, key, out)
        except BaseException as error:
            raise timer_error(self.context, error, key, timestamp) from None

    def _fire(self, timestamp: int, key: Hashable, out: KeyedOutput) -> None:
        ctx = self._ctx
        ctx.key, ctx.timestamp = key, timestamp
        for handle in self._bound:
            handle.bind(key)
        for eager in self._eager:
            eager.load(key)
        result = self._function.on_timer(timestamp, cast(OnTimerContext, ctx))
        if result is not None:
            out.records.extend(checked_outputs(result))
        for eager in self._eager:
            eager.store()
