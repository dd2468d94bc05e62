"""Subtasks of a job whose operators answer at marks: sources begin marks, gates gather them.

`docs/machines/marks.md` says what a mark promises. A job without such operators has no marks, and none of
these subtasks.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.alignment.handler_contract import BarrierHandler, TriggerSnapshot
from headgate.core.alignment.marked_handler import MarkedHandler
from headgate.core.marks import NO_EPOCH, EpochClock, Mark
from headgate.records.batch import Batch
from headgate.runtime.protocol.elements import Barrier, EndOfData, Event
from headgate.runtime.worker.operators.counting_source import CountingSource
from headgate.runtime.worker.operators.operator_contract import Operator
from headgate.runtime.worker.operators.source_alignment import AlignedTimestamps
from headgate.runtime.worker.task.aligned_source import AlignedSourceTask
from headgate.runtime.worker.task.gate_task import GateTask, InputChannel
from headgate.runtime.worker.task.source_task import SourceTask
from headgate.runtime.worker.task.task import TaskParts, earliest


class MarkedGateTask(GateTask):
    """A subtask that passes a mark on once it has come on all channels; until then these wait behind it."""

    def __init__(self, parts: TaskParts, channels: Sequence[InputChannel], handler: BarrierHandler) -> None:
        self._handler = MarkedHandler(handler, len(channels))
        super().__init__(parts, channels, self._handler)

    def _event(self, channel: int, event: Batch | Event) -> None:
        marks = self._handler.marks
        if isinstance(event, Mark) and event.lost:
            marks.lost(event.epoch)
            self._gate.block()
        elif isinstance(event, Mark):
            self._came_out(self._handler.mark(channel, event))
        elif isinstance(event, EndOfData):
            self._came_out(marks.end(channel, event.last))
            self.outputs.last_epoch = marks.last
        super()._event(channel, event)
        self._tell_lost()

    def _poll_barriers(self) -> bool:
        worked = super()._poll_barriers()
        self._tell_lost()
        return worked

    def _tell_lost(self) -> None:
        # Gates below may hold back what another way brings, until they know that none comes on this one.
        lost = self._handler.marks.untold()
        if lost is not None:
            self.outputs.lost(lost)

    def _came_out(self, epoch: int | None) -> None:
        self._gate.block()
        if epoch is not None:
            mark = Mark(epoch, self._handler.marks.rows())
            self._runner.when_back(
                lambda: self._when_no_timer_is_due(lambda: self._invoke(lambda: self.head.mark(mark)))
            )

    def _snapshot_when_drained(self, effect: TriggerSnapshot) -> None:
        if not effect.barrier.marks or self.ended:
            super()._snapshot_when_drained(effect)
            return
        mark = Mark(NO_EPOCH, self._handler.marks.rows())

        def drained() -> None:
            self._invoke(lambda: self.head.mark(mark), lambda: self._when_no_timer_is_due(taken))

        def taken() -> None:
            self._draining = False
            self._take_snapshot(effect)

        self._draining = True
        self._when_no_timer_is_due(drained)

    def _take_snapshot(self, effect: TriggerSnapshot) -> None:
        self._runner.call(lambda: _pass_on(self.operators))
        super()._take_snapshot(effect)

    def _end_if_through(self) -> None:
        # Counts of dropped marks go ahead of the end: no later mark brings them. All input was processed, so
        # what is sent is exact, and a sink in this chain gets it as a whole.
        end = super()._end_if_through
        if not self._ending or self.head.busy or self.head.waits:
            return
        mark = Mark(NO_EPOCH, self._handler.marks.rows())
        self._invoke(lambda: self.head.mark(mark), end)


class MarkedSourceTask(SourceTask):
    """A source subtask that begins marks: one whenever an epoch has begun since the last."""

    head: CountingSource

    def begin_epochs(self, interval_ms: int) -> None:
        """Say how long an epoch lasts; called once, before any step."""
        self._epochs = EpochClock(interval_ms)

    def _poll_barriers(self) -> bool:
        return super()._poll_barriers() | self._begin_epoch()

    def _begin_epoch(self) -> bool:
        epoch = self._epochs.begun(self.clock.now_ms()) if self._may_mark() else None
        if epoch is not None:
            self._emit_mark(epoch)
        return epoch is not None

    def _may_mark(self) -> bool:
        # A mark, like a barrier, is not the first element of a channel on which records may come.
        emits = self._answered and self._recovered is None and self.outputs.available
        return emits and not (self._stopped or self.ended or self._ending)

    def _emit_mark(self, epoch: int) -> None:
        self.outputs.last_epoch = self._epochs.last
        self.head.mark(Mark(epoch, self.head.moved()))

    def _before_barrier(self, barrier: Barrier) -> None:
        if barrier.marks and not self.ended:
            self._emit_mark(NO_EPOCH)
        self._runner.call(lambda: _pass_on(self.operators))

    def end(self) -> None:
        # The last counts go ahead of the end: no later mark of this subtask brings them.
        self._emit_mark(NO_EPOCH)
        super().end()

    def next_wakeup(self) -> int | None:
        due = super().next_wakeup()
        if not self._may_mark():
            return due
        left_ms = self._epochs.next_ms() - self.clock.now_ms()
        return earliest(due, self.clock.monotonic_ms() + max(0, left_ms))


class MarkedAlignedSourceTask(AlignedSourceTask, MarkedSourceTask):
    """A source subtask that begins marks, and reads nothing while it is too far ahead in event time."""


def _pass_on(operators: Sequence[Operator]) -> None:
    for each in operators:
        each.pass_on()


def source_task(parts: TaskParts, interval_ms: int, *, finished: bool) -> SourceTask:
    """Return the subtask of a source: it begins marks if its head counts for them, an epoch lasts
    `interval_ms`, and aligns event time if an operator of the chain does. `finished`: its reader had read
    everything before the restore.
    """
    marked = isinstance(parts.operators[0], CountingSource)
    aligned = [operator for operator in parts.operators if isinstance(operator, AlignedTimestamps)]
    if aligned:
        kind = MarkedAlignedSourceTask if marked else AlignedSourceTask
        task: SourceTask = kind(parts, aligned[0], finished=finished)
    else:
        task = (MarkedSourceTask if marked else SourceTask)(parts, finished=finished)
    if isinstance(task, MarkedSourceTask):
        task.begin_epochs(interval_ms)
    return task
