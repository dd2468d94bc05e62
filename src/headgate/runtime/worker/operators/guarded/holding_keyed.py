"""The keyed operator that holds the records of a key behind one on which its function fails.

Decision 0247 has the table of what becomes of a key. A start with another release gives what is held to the
function, slice by slice, before any new input.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, cast

from headgate.api.functions import KeyedProcessFunction
from headgate.api.held_states import EVENT, PROCESSING
from headgate.api.holding import Holding
from headgate.api.on_error import OnError
from headgate.common.ports import Clock
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.graph.logical import KeyedProcessNode
from headgate.metrics import metric_table as table
from headgate.records.detach import detached
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.guarded.guarded_keyed import (
    GuardedKeyedOperator,
    GuardedRun,
    JournalTimers,
)
from headgate.runtime.worker.operators.guarded.held_keys import HeldKeys, HeldQueue, Waiting
from headgate.runtime.worker.operators.keyed_context import KeyContext, KeyedOutput, Slice
from headgate.runtime.worker.operators.keyed_operator import END_TIMERS_MAX
from headgate.runtime.worker.operators.outputs import checked_outputs
from headgate.state.undo.journal import Journal


def guarded_keyed_operator(
    context: OperatorContext, node: KeyedProcessNode, function: Any
) -> GuardedKeyedOperator:
    """Return the operator of a keyed function with `on_error`, which holds records if the node says so."""
    holds = isinstance(node.on_error, Holding)
    return (HoldingKeyedOperator if holds else GuardedKeyedOperator)(context, node, function)


class HoldingTimers(JournalTimers):
    """Timers of which those of a key that is being released wait in its queue, if they are due already.

    Attributes:
        queue: what is held of that key; None: no key is being released.
        mark: event time (ms) that the operator has reached.
    """

    __slots__ = ("mark", "queue")

    def __init__(self, ctx: KeyContext, clock: Clock, label: str, journal: Journal) -> None:
        super().__init__(ctx, clock, label, journal)
        self.queue: HeldQueue | None = None
        self.mark = WATERMARK_MIN

    def _register(self, queue: Any, timestamp: int) -> None:
        held, timer = self.queue, self._waiting(queue, timestamp)
        if held is None or type(timestamp) is not int or timestamp > self._due_to(held, timer):
            super()._register(queue, timestamp)
        elif held.put(timer):
            self._journal.notes.append(partial(held.drop, timer))

    def _delete(self, queue: Any, timestamp: int) -> None:
        held, timer = self.queue, self._waiting(queue, timestamp)
        if held is not None and held.drop(timer):
            self._journal.notes.append(partial(held.put, timer))
        super()._delete(queue, timestamp)

    def _waiting(self, queue: Any, timestamp: int) -> Waiting:
        return EVENT if queue is self.event else PROCESSING, timestamp

    def _due_to(self, held: HeldQueue, timer: Waiting) -> int:
        # After a rescale the operator may be at an earlier event time than the key had reached.
        return max(self.mark, held.came_to) if timer[0] == EVENT else self.now_ms()


class HoldingKeyedOperator(GuardedKeyedOperator):
    """A guarded keyed operator that holds later records of a key on which its function failed, and gives them
    to it after a start with another release. While it does so it is `busy`.
    """

    _timers_kind = HoldingTimers
    _timers: HoldingTimers

    def __init__(self, context: OperatorContext, node: KeyedProcessNode, function: Any) -> None:
        super().__init__(context, node, function)
        self.held = HeldKeys(context, node.on_error, function)
        self._to_release: list[Hashable] = []
        self._end_timers_left = END_TIMERS_MAX

    def open(self) -> None:
        super().open()
        self.held.open(self._backend)
        own = set(map(id, self.held.handles))
        self._eager = [handle for handle in self._eager if id(handle) not in own]
        self._bound = [handle for handle in self._bound if id(handle) not in own]
        self._to_release = self.held.of_other_releases()

    @property
    def _run_kind(self) -> type[GuardedRun]:
        return HoldingRun

    @property
    def busy(self) -> bool:
        return bool(self._to_release) or super().busy

    def go_on(self) -> None:
        if not self._to_release:
            super().go_on()
            return
        self._backend.settle()
        out, time = KeyedOutput[Any](), self._slice()
        self._timers.mark = self._mark
        while self._to_release and not self._released(self._to_release[-1], out, time):
            pass
        self._timers.current_watermark = self._mark
        self._emit(out)

    def failed(self, error: BaseException, record: Any, key: Hashable, *, timer: bool) -> OnError:
        action, ctx = super().failed(error, record, key, timer=timer), self._ctx
        if action is not OnError.QUARANTINE:
            return action
        if key in self.held.under:
            self.held.keep(key)  # it has failed again at its release
        elif timer:
            assert ctx.timestamp is not None
            self.held.add_timer(key, self._waiting(ctx.timestamp), self._timers.current_watermark)
        else:
            mark = None if ctx.timestamp is None else self._timers.current_watermark
            self.held.add(key, record, ctx.timestamp, mark)
        return action

    def _failed_before(self, key: Hashable) -> bool:
        return key in self.held.under  # as nothing else of it is given to the function

    def measured(self) -> Mapping[str, int]:
        return {**super().measured(), table.HELD_RECORDS.name: self.held.records}

    def _call_timer(self, timestamp: int, key: Hashable, out: KeyedOutput) -> None:
        if key in self.held.under:
            self.held.add_timer(key, self._waiting(timestamp), self._timers.current_watermark)
        else:
            super()._call_timer(timestamp, key, out)

    def _waiting(self, timestamp: int) -> Waiting:
        return PROCESSING if self._ctx.time_domain == "processing" else EVENT, timestamp

    # -- the release of a key

    def _released(self, key: Hashable, out: KeyedOutput, time: Slice) -> bool:
        """Give what is held of `key`, the last of those to release, to the function, in order, until slice
        `time` ends or a call fails. Return True if the slice has ended.
        """
        queue = self._timers.queue = self.held.queue(key)
        try:
            while True:
                more = self._next_released(queue, out)
                if not more:
                    self._to_release.pop()
                    if key not in self.held.under:
                        return False  # nothing was left, so nothing was called
                time.left -= 1
                over = not time.left and time.over()
                if over or not more:
                    return over
        finally:
            self._timers.queue = None

    def _next_released(self, queue: HeldQueue, out: KeyedOutput) -> bool:
        """Release the next timer or record of a key; return False: there was none, or it has failed again."""
        entry = queue.first()
        timer = queue.due(entry)
        if timer is not None:
            return self._timer_released(queue, timer, out)
        if entry is None:
            self.held.free(queue.key)
            return False
        if entry.watermark is not None:
            queue.reached = max(queue.reached, entry.watermark)
        # A copy, as the state keeps it until it has succeeded.
        (record,) = detached(RowBatch([self.held.record_in(entry)])).records
        call = partial(self._process_one, record, queue.key, out)
        done = self._attempted(queue, call, out, (entry.timestamp, entry.timestamp), (record, False))
        if done:
            self.held.taken(queue.key, queue.reached)
        return done

    def _timer_released(self, queue: HeldQueue, timer: Waiting, out: KeyedOutput) -> bool:
        domain, timestamp = timer
        emitted_at: int | None = timestamp
        if domain == EVENT:
            queue.reached = max(queue.reached, timestamp - 1)
        else:
            self._ctx.time_domain = "processing"
            emitted_at = self._mark if self._mark > WATERMARK_MIN else None
        if self._mark == WATERMARK_MAX:
            self._end_timers_left -= 1
            self._check_end(self._end_timers_left, timestamp, queue.key)
        queue.drop(timer)  # as of any timer that fires, so that it may be registered again
        try:
            call = partial(self._fire, timestamp, queue.key, out)
            done = self._attempted(queue, call, out, (timestamp, emitted_at), (None, True))
        finally:
            self._ctx.time_domain = "event"
        if not done:
            queue.put(timer)
        return done

    def _attempted(
        self,
        queue: HeldQueue,
        call: Callable[[], None],
        out: KeyedOutput,
        times: tuple[int | None, int | None],
        called_for: tuple[Any, bool],
    ) -> bool:
        """Make a call, whose outputs go to `out`; return False: it has failed, and the key is held again.
        `times` are the event times that the function sees and that outputs get (ms, None: there is none);
        `called_for` is the record, and whether a timer is called instead.
        """
        (timestamp, emitted_at), (record, timer) = times, called_for
        before, self._ctx.timestamp = len(out.records), timestamp
        self._timers.current_watermark = max(
            queue.reached, WATERMARK_MIN if timestamp is not None else self._mark
        )
        self._journal.begin()
        try:
            call()
        except BaseException as error:
            del out.records[before:]
            return self.failed(error, record, queue.key, timer=timer) is not OnError.QUARANTINE
        if emitted_at is not None:
            fresh = len(out.records) - before
            out.times.extend([emitted_at] * fresh)
            out.marks.extend([self._mark] * fresh)
        return True

    def _process_one(self, record: Any, key: Hashable, out: KeyedOutput) -> None:
        ctx = self._ctx
        ctx.key = key
        for handle in self._bound:
            handle.bind(key)
        for eager in self._eager:
            eager.load(key)
        result = cast(KeyedProcessFunction, self._function).process(record, cast(Any, ctx))
        if result is not None:
            out.records.extend(checked_outputs(result))
        for eager in self._eager:
            eager.store()


class HoldingRun(GuardedRun):
    """Calls the user's function for records of one batch, but holds those of held keys."""

    __slots__ = ()

    def __call__(self, start: int, stop: int) -> int:
        operator = cast(HoldingKeyedOperator, self._operator)  # which alone makes these
        timers, fresh = operator._timers.event, list[Any]()
        position = start
        while position < stop and (position == start or not timers.interrupt):
            upto = self._free_to(position, stop)
            if upto == position:
                self._hold(operator, position)
                position += 1
                continue
            try:
                position = self._loop(position, upto, *self._arguments, fresh, *self._rest)
            except BaseException as error:
                failed, outputs, _ = self._at
                del fresh[outputs:]
                operator.failed(error, self._record(failed), self._arguments[0][failed], timer=False)
                position = failed + 1
        self._out.records.extend(fresh)
        return position

    def _free_to(self, start: int, stop: int) -> int:
        """Return the index of the first record, from `start` on, of a held key; `stop` if there is none."""
        held, keys = cast(HoldingKeyedOperator, self._operator).held.under, self._arguments[0]
        return next((i for i in range(start, stop) if keys[i] in held), stop) if held else stop

    def _hold(self, operator: HoldingKeyedOperator, index: int) -> None:
        keys, _, times, marks, *_ = self._arguments
        timed = times is not None and marks is not None
        time, mark = (times[index], marks[index]) if timed else (None, None)
        operator.held.add(keys[index], self._record(index), time, mark)
