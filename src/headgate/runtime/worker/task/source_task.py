"""A source subtask: it gets splits, reads records, and emits a barrier when the job master triggers one.

After the barrier of a savepoint that stops the job it emits nothing more, but stays, so that its worker
answers, until the job ends or another attempt begins.

Its operators are always called in the loop: no function marked as blocking is chained to a source.
"""

from __future__ import annotations

from headgate.api.source import PollStatus, Split
from headgate.common.time import WATERMARK_MAX
from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.handler_contract import SUBSUMED
from headgate.records.batch import Batch
from headgate.runtime.worker.in_flight.recovered import RecoveredInput
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.snapshot.snapshot_taker import waits_until
from headgate.runtime.worker.snapshot.snapshot_writer import BarrierMetrics
from headgate.runtime.worker.task.task import Task, TaskParts, earliest
from headgate.runtime.worker.task.traced_call import TracedCall

SPLIT_RETRY_MS = 100
NOTHING_RETRY_MS = 2


class SourceTask(Task):
    """A subtask whose chain begins with a source; it also begins the barriers of checkpoints.
    `finished`: the reader had read everything before the restore, so that the subtask only ends its input.
    """

    head: SourceOperator

    def __init__(self, parts: TaskParts, *, finished: bool = False) -> None:
        super().__init__(parts)
        self._finished = self.head.finished = finished
        self._asked = False
        self._resume_at = 0
        self._answered = False
        # deferred barriers, and until when at most (monotonic ms)
        self._deferred: list[tuple[Barrier, int | None]] = []
        self._stopped = False

    def open(self) -> None:
        super().open()
        self._answered = self._finished or not self.head.needs_split

    def _poll_barriers(self) -> bool:
        worked = super()._poll_barriers()
        due = self._deferral_ends()
        if due is not None and self.clock.monotonic_ms() > due:
            waiting, _ = self._deferred.pop(0)
            self._take_snapshot(waiting.as_unaligned())
            worked = True
        return worked

    def _deferral_ends(self) -> int | None:
        return self._deferred[0][1] if self._deferred and self._answered else None

    def _barrier_timeout(self) -> int | None:
        due = self._deferral_ends()
        return earliest(super()._barrier_timeout(), None if due is None else due + 1)

    def _input_waits(self) -> bool:
        if self._stopped or self.ended or self._ending:
            return False
        return self._resume_at <= self.clock.monotonic_ms()

    def _take_input(self) -> bool:
        if self._finished:
            self.end()
            return True
        with self.budget.step() as step:
            polled = self.head.poll(self.budget.records)
            if not isinstance(polled, PollStatus):
                self.records_in += len(polled)
                step.records = len(polled)
                self._pass_on(polled)
        if isinstance(polled, PollStatus):
            return self._no_records(polled)
        self._learned_its_input()
        return True

    def _pass_on(self, batch: Batch) -> None:
        place = self._traces.begin(self.id, len(batch)) if self._traces.every else None
        if place is None:
            self.head.process(batch)
            return
        if place:
            self.head.process(batch.slice(0, place))
        call = TracedCall(self.id, self.operators, 0, batch.slice(place, place + 1), None, self._traces)
        call.run(self.head.process_some)
        call.file()
        if place + 1 < len(batch):
            self.head.process(batch.slice(place + 1, len(batch)))

    def _recovery_done(self, recovered: RecoveredInput) -> None:
        self._trigger_deferred()

    def end(self) -> None:
        super().end()
        self._learned_its_input()

    def next_wakeup(self) -> int | None:
        due = super().next_wakeup()
        if self.ended or self._stopped or not self.outputs.available:
            return due
        return earliest(due, self._resume_at)

    def next_processing_time(self) -> int | None:
        # After a savepoint that stops the job no timer may fire.
        return None if self._stopped else super().next_processing_time()

    def splits_assigned(self, splits: list[Split] | None) -> None:
        """Give the reader `splits`, the enumerator's answer to a request: [] for none now, None for never
        again. Deferred snapshots are taken first: in these checkpoints the enumerator still holds the splits.
        """
        self._learned_its_input()
        if splits is None:
            # `_asked` stays: the enumerator has nothing more.
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
        """Emit the barrier of a triggered checkpoint and take the snapshot, now or later (deferred).
        It is deferred until the reader knows whether it will read anything, so that no barrier is the first
        element of a channel, and, unless the barrier overtakes, until restored in-flight records are
        processed. Then a newer barrier declines deferred ones, except a savepoint's. No effect once a
        savepoint has stopped the subtask.
        """
        if self._stopped:
            return
        nothing_before = self._answered and not self._deferred
        if nothing_before and (self._recovered is None or barrier.overtakes):
            self._take_snapshot(barrier)
            return
        for older, _ in self._deferred:
            if older.savepoint is None:
                self.snapshots.decline(older.checkpoint, SUBSUMED)
        self._deferred = [each for each in self._deferred if each[0].savepoint is not None]
        until = None if barrier.timeout_ms is None else waits_until(barrier, self.clock)
        self._deferred.append((barrier, until))

    def aborted(self, checkpoint: int) -> None:
        super().aborted(checkpoint)
        self._deferred = [each for each in self._deferred if each[0].checkpoint != checkpoint]

    def _learned_its_input(self) -> None:
        # It is known now whether this reader has something to read.
        self._answered = True
        self._trigger_deferred()

    def _trigger_deferred(self) -> None:
        waiting, self._deferred = self._deferred, []
        for barrier, _ in waiting:
            self.trigger(barrier)

    def _take_snapshot(self, barrier: Barrier) -> None:
        if barrier.drains and not self.ended:
            self._invoke(lambda: self.head.watermark(WATERMARK_MAX))
        self._before_barrier(barrier)
        delay = max(0.0, float(self.clock.now_ms() - barrier.trigger_ms))
        metrics = BarrierMetrics(delay, 0.0, barrier.overtakes)
        # A restored end of input counts, although this attempt may not have taken the steps to it yet.
        finished = self.ended or self._finished
        take_inputs = self._take_recovered if barrier.overtakes and self._recovered is not None else None
        self.snapshots.take(barrier, metrics, self.records, finished, take_inputs)
        self.snapshots.inputs_complete(barrier.checkpoint)
        self._stopped = barrier.stops

    def _before_barrier(self, barrier: Barrier) -> None:
        """Emit what belongs before a barrier: nothing here."""

    def _no_records(self, status: PollStatus) -> bool:
        if status is PollStatus.END_OF_INPUT:
            self.end()
            return True
        self._times.no_work()
        if not self._asked and self.head.needs_split:
            self._asked = True
            self.reports.request_splits(self.id)
        now = self.clock.monotonic_ms()
        self._resume_at = now + NOTHING_RETRY_MS
        if self._answered:
            self.outputs.note_step(now)
        return False
