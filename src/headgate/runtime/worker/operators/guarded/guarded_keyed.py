"""The keyed operator that goes on without the records and timers on which its function fails."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any, cast

from headgate.api.on_error import FailedCall, OnError
from headgate.common.ports import Clock
from headgate.common.time import WATERMARK_MIN
from headgate.graph.logical import KeyedProcessNode
from headgate.records.batch import Batch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.guarded.bad_records import BadRecords
from headgate.runtime.worker.operators.guarded.guarded_functions import JournalSide
from headgate.runtime.worker.operators.keyed_context import KeyContext, KeyedOutput, Timers
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.operators.keyed_run import KeyedRun
from headgate.runtime.worker.operators.operator_contract import PendingState
from headgate.runtime.worker.operators.wrong_use import with_event_time_hint
from headgate.state.undo.journal import Journal


class JournalTimers(Timers):
    """Timers of which those that a failing call has registered or deleted can be put back."""

    __slots__ = ("_journal",)

    def __init__(self, ctx: KeyContext, clock: Clock, label: str, journal: Journal) -> None:
        super().__init__(ctx, clock, label)
        self._journal = journal

    def register_event_time(self, timestamp: int) -> None:
        if self._ctx.timestamp is None:
            self._note_untimed(timestamp)
        self._register(self.event, timestamp)

    def register_processing_time(self, timestamp: int) -> None:
        self._register(self.processing, timestamp)

    def delete_event_time(self, timestamp: int) -> None:
        self._delete(self.event, timestamp)

    def delete_processing_time(self, timestamp: int) -> None:
        self._delete(self.processing, timestamp)

    def _register(self, queue: Any, timestamp: int) -> None:
        if queue.register(timestamp, self._ctx.key):
            self._journal.notes.append(partial(queue.delete, timestamp, self._ctx.key))

    def _delete(self, queue: Any, timestamp: int) -> None:
        if queue.delete(timestamp, self._ctx.key):
            self._journal.notes.append(partial(queue.register, timestamp, self._ctx.key))


class GuardedKeyedOperator(KeyedProcessOperator):
    """A keyed operator that undoes what a call has done to state, timers and outputs when it fails."""

    _journal: Journal
    _timers_kind: type[JournalTimers] = JournalTimers

    def __init__(self, context: OperatorContext, node: KeyedProcessNode, function: Any) -> None:
        super().__init__(context, function, node.key, node.keys)
        self._journal = Journal()
        self._side = JournalSide(self._journal)
        self._ctx = KeyContext(self._side, context.clock, context.label)
        self._timers = self._ctx.timers = self._timers_kind(
            self._ctx, context.clock, context.label, self._journal
        )
        self._counts = type(self._counts)(self._timers)
        self._bad = BadRecords(context, node.on_error, self._side)

    def process_some(self, batch: Batch) -> int:
        done = self._run(batch, self._run_kind)
        self._bad.seen(done)
        return done

    @property
    def _run_kind(self) -> type[GuardedRun]:
        return GuardedRun

    def failed(self, error: BaseException, record: Any, key: Hashable, *, timer: bool) -> OnError:
        """Undo what the call has done, and leave its record out, or raise its error; return which way of
        leaving it out was taken.
        """
        ctx = self._ctx
        with_event_time_hint(error, ctx.timestamp)
        self._journal.undo()
        call = FailedCall(record, error, key, ctx.timestamp, timer=timer)
        time, mark = ctx.timestamp, self._timers.current_watermark
        if ctx.time_domain == "processing":  # as its side outputs, it has the event time that was reached
            time = mark if mark > WATERMARK_MIN else None
        return self._bad.met(call, time, mark, renewed=self._failed_before(key))

    def _failed_before(self, key: Hashable) -> bool:
        """Return whether what fails now under `key` has failed and was kept, to be tried again."""
        return False

    def _call_timer(self, timestamp: int, key: Hashable, out: KeyedOutput) -> None:
        before = len(out.records)
        self._journal.begin()
        try:
            self._fire(timestamp, key, out)
        except BaseException as error:
            del out.records[before:]
            self.failed(error, None, key, timer=True)

    def snapshot(self, checkpoint: int) -> PendingState | None:
        self._bad.begin()
        return super().snapshot(checkpoint)

    def measured(self) -> Mapping[str, int]:
        return {**super().measured(), **self._bad.measured()}


class GuardedRun(KeyedRun):
    """Calls the user's function for records of one batch, and goes on after one that fails."""

    __slots__ = ()

    guarded = True

    def __call__(self, start: int, stop: int) -> int:
        operator = cast(GuardedKeyedOperator, self._operator)  # which alone makes these
        fresh: list[Any] = []
        while True:
            try:
                position = self._loop(start, stop, *self._arguments, fresh, *self._rest)
                break
            except BaseException as error:
                failed, outputs, _ = self._at
                del fresh[outputs:]
                operator.failed(error, self._record(failed), self._arguments[0][failed], timer=False)
                start = position = failed + 1
                if start == stop or operator._timers.event.interrupt:
                    break
        self._out.records.extend(fresh)
        return position
