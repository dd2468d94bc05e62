"""A subtask that begins with a reader: it gets splits, reads records, and emits barriers on order.

Behind the barrier of a savepoint that stops the job it emits nothing: no records, no event time, no end. It
goes on living, so that its worker answers, until the job ends or the attempt is begun anew.

Its operators are always called in the loop: nothing that is marked as blocking is chained to a source.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.api.source import PollStatus, Split
from headgate.common.ids import SubtaskId
from headgate.common.time import WATERMARK_MAX
from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.handler import SUBSUMED
from headgate.runtime.worker.exchange.output import Outputs
from headgate.runtime.worker.in_flight.gathering import InFlightCapture
from headgate.runtime.worker.in_flight.recovered import RecoveredInput
from headgate.runtime.worker.operators.operator_contract import Operator
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.snapshot.finishing import AttemptServices
from headgate.runtime.worker.snapshot.snapshot_taker import TakeInputs, waits_until
from headgate.runtime.worker.snapshot.taken_snapshot import BarrierMetrics
from headgate.runtime.worker.task.task import Task

SPLIT_RETRY_MS = 100
NOTHING_RETRY_MS = 2


class SourceTask(Task):
    """See the module.

    `finished`: whether the restored checkpoint says that everything was read; the reader is not even made
    then.
    """

    head: SourceOperator

    def __init__(
        self,
        subtask: SubtaskId,
        operators: Sequence[Operator],
        outputs: Outputs,
        services: AttemptServices,
        step_target_ms: int,
        recovered: RecoveredInput | None = None,
        *,
        finished: bool = False,
    ) -> None:
        super().__init__(subtask, operators, outputs, services, step_target_ms, recovered)
        self._finished = self.head.finished = finished
        self._asked = False
        self._resume_at = 0
        self._answered = False
        # With the monotonic time until which each may wait, if there is one.
        self._deferred: list[tuple[Barrier, int | None]] = []
        self._stopped = False

    def open(self) -> None:
        """See :class:`Task`; a reader with restored splits knows what it has to read."""
        super().open()
        self._answered = self._finished or not self.head.needs_split

    def _attend(self) -> bool:
        worked = super()._attend()
        due = self._deferral_ends()
        if due is not None and self.clock.monotonic_ms() > due:
            waiting, _ = self._deferred.pop(0)
            self._take_snapshot(waiting.as_unaligned())
            worked = True
        return worked

    def _deferral_ends(self) -> int | None:
        """After when a barrier waits no longer for restored records (monotonic ms)."""
        return self._deferred[0][1] if self._deferred and self._answered else None

    def _barrier_timeout(self) -> int | None:
        due, held = self._deferral_ends(), super()._barrier_timeout()
        if due is None:
            return held
        return due + 1 if held is None else min(held, due + 1)

    def _input_waits(self) -> bool:
        if self._stopped:
            return False
        return not self.ended and not self._ending and self._resume_at <= self.clock.monotonic_ms()

    def _take_input(self) -> bool:
        if self._finished:
            self.end()
            return True
        with self.budget.step() as step:
            polled = self.head.poll(self.budget.records)
            if not isinstance(polled, PollStatus):
                self.records_in += len(polled)
                step.records = len(polled)
                self.head.process(polled)
        if isinstance(polled, PollStatus):
            return self._no_records(polled)
        self._know()
        return True

    def _recovery_over(self, recovered: RecoveredInput) -> None:
        self._trigger_deferred()

    def end(self) -> None:
        """See :class:`Task`."""
        super().end()
        self._know()

    def next_wakeup(self) -> int | None:
        """See :class:`Task`."""
        due = super().next_wakeup()
        if self.ended or self._stopped or not self.outputs.available:
            return due
        return self._resume_at if due is None else min(due, self._resume_at)

    def next_processing_time(self) -> int | None:
        """See :class:`Task`; one that stopped has nothing to say any more, not even that it is idle."""
        return None if self._stopped else super().next_processing_time()

    def splits_assigned(self, splits: list[Split] | None) -> None:
        """The enumerator answered."""
        # Before the splits are taken over: in a deferred checkpoint the enumerator still holds them.
        self._know()
        if splits is None:
            # `_asked` stays: there is nobody to ask any more.
            self.head.no_more_splits()
            self._resume_at = 0
            return
        self._asked = False
        if splits:
            self.head.add_splits(splits)
            self._resume_at = 0
        else:
            self._resume_at = self.clock.monotonic_ms() + SPLIT_RETRY_MS
            self.outputs.note_step(self.clock.monotonic_ms())

    def trigger(self, barrier: Barrier) -> None:
        """The coordinator asks for a checkpoint: this is position S_n.

        A reader that does not know yet whether it will read anything first learns it, so that the
        barrier is never the first sign of its channels. Restored records come before a barrier that
        does not overtake them. One that waits gives way to a newer one, but for a savepoint's.
        """
        if self._stopped:
            return
        if self._may_take_snapshot(barrier):
            self._take_snapshot(barrier)
            return
        for older, _ in self._deferred:
            if older.savepoint is None:
                self.snapshots.decline(older.checkpoint, SUBSUMED)
        self._deferred = [each for each in self._deferred if each[0].savepoint is not None]
        until = None if barrier.timeout_ms is None else waits_until(barrier, self.clock)
        self._deferred.append((barrier, until))

    def _may_take_snapshot(self, barrier: Barrier) -> bool:
        """Whether nothing has to come before: what is restored, or a savepoint that waits itself."""
        return self._answered and not self._deferred and (self._recovered is None or barrier.overtakes)

    def aborted(self, checkpoint: int) -> None:
        """See :class:`Task`."""
        super().aborted(checkpoint)
        self._deferred = [each for each in self._deferred if each[0].checkpoint != checkpoint]

    def _know(self) -> None:
        """Take the snapshots that waited until it is known whether this reader has something to read."""
        self._answered = True
        self._trigger_deferred()

    def _trigger_deferred(self) -> None:
        waiting, self._deferred = self._deferred, []
        for barrier, _ in waiting:
            self.trigger(barrier)

    def _take_snapshot(self, barrier: Barrier) -> None:
        if barrier.drains and not self.ended:
            self._invoke(lambda: self.head.watermark(WATERMARK_MAX))
        delay = max(0.0, float(self.clock.now_ms() - barrier.trigger_ms))
        metrics = BarrierMetrics(delay, 0.0, barrier.overtakes)
        # A restored end stays one, although this attempt may not have taken the steps to it yet.
        through = self.ended or self._finished
        self.snapshots.take(barrier, metrics, self.counters(), through, self._take_along(barrier))
        self.snapshots.inputs_complete(barrier.checkpoint)
        self._stopped = barrier.stops

    def _take_along(self, barrier: Barrier) -> TakeInputs | None:
        def take(capture: InFlightCapture) -> None:
            self._take_recovered(capture)

        return take if barrier.overtakes and self._recovered is not None else None

    def _no_records(self, status: PollStatus) -> bool:
        if status is PollStatus.END_OF_INPUT:
            self.end()
            return True
        if not self._asked and self.head.needs_split:
            self._asked = True
            self.reports.request_splits(self.id)
        now = self.clock.monotonic_ms()
        self._resume_at = now + NOTHING_RETRY_MS
        if self._answered:
            self.outputs.note_step(now)
        return False
