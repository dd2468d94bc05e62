"""One subtask: its chain, where its records come from, and its part in checkpoints.

Everything here runs in the worker's one loop thread, a step at a time. A step is about as long as
`execution.step-target`, so a barrier never waits for a long batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headgate.api.source import PollStatus
from headgate.common.ids import SubtaskId
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.alignment.aligned import SUBSUMED
from headgate.runtime.control.messages import Counters
from headgate.runtime.elements import Barrier
from headgate.runtime.logs import TaskContext
from headgate.runtime.operators.base import Operator, PendingState, blamed
from headgate.runtime.operators.source import SourceOperator
from headgate.runtime.output import Outputs
from headgate.runtime.pace import Pace

SPLIT_RETRY_MS = 100
NOTHING_RETRY_MS = 2


@dataclass(frozen=True, slots=True)
class DrawnSnapshot:
    """The synchronous part of a subtask's snapshot, ready for the asynchronous one."""

    subtask: SubtaskId
    checkpoint: int
    pending: Sequence[PendingState]
    start_delay_ms: float
    alignment_ms: float
    sync_ms: float
    counters: Counters
    state_types: dict[str, dict[str, Any]]


class TaskHost(Protocol):
    """What a subtask asks of its worker."""

    clock: Any

    def snapshot_drawn(self, drawn: DrawnSnapshot) -> None:
        """Finish beside the loop, then acknowledge."""
        ...

    def checkpoint_declined(self, subtask: SubtaskId, checkpoint: int, reason: str) -> None:
        """This subtask will not draw `checkpoint`."""
        ...

    def request_splits(self, subtask: SubtaskId) -> None:
        """A reader has nothing left to read."""
        ...

    def data_ended(self, subtask: SubtaskId, counters: Counters) -> None:
        """All input is processed; these are the final totals."""
        ...


class Task(ABC):
    """What all subtasks share.

    Attributes:
        id: vertex and subtask.
        operators: the chain, head first.
        outputs: the chain's end.
        log_context: what log lines say while it runs.
        ended: whether all input is processed. The subtask lives on for barriers.
    """

    def __init__(
        self,
        subtask: SubtaskId,
        operators: Sequence[Operator],
        outputs: Outputs,
        host: TaskHost,
        step_target_ms: int,
    ) -> None:
        self.id, self.operators, self.outputs, self.host = subtask, operators, outputs, host
        self.head = operators[0]
        self.log_context = TaskContext()
        self.ended = False
        self.records_in = 0
        self.watermark = WATERMARK_MIN
        self.pace = Pace(host.clock, step_target_ms)
        self._opened: list[Operator] = []

    def open(self) -> None:
        """Open the operators, last first, so that each finds its receivers ready."""
        for operator in reversed(self.operators):
            self._opened.insert(0, operator)
            with blamed(operator.context, "in open()"):
                operator.open()

    @abstractmethod
    def step(self) -> bool:
        """Do up to one step of work; False when there was nothing to do."""

    def next_wakeup(self) -> int | None:
        """When the subtask wants to step without being fed, in monotonic ms."""
        return self.outputs.next_flush()

    def next_processing_time(self) -> int | None:
        """The earliest wall-clock ms that an operator waits for; after the last record none does."""
        if self.ended:
            return None
        if not self.outputs.available:
            return None  # credit will wake the loop; until then nothing could be emitted
        return min((t for op in self.operators if (t := op.next_processing_time()) is not None), default=None)

    def run_timers(self) -> bool:
        """Fire processing-time timers that are due and flush what waited long enough."""
        self.outputs.flush_due(self.host.clock.monotonic_ms())
        due = self.next_processing_time()
        if due is None:
            return False
        now = self.host.clock.now_ms()
        if due > now:
            return False
        for operator in self.operators:
            operator.fire_processing_time(now)
        self.outputs.note_step(self.host.clock.monotonic_ms())
        return True

    def draw(self, barrier: Barrier, start_delay_ms: float, alignment_ms: float) -> None:
        """Emit the barrier, then take the synchronous part of every operator's snapshot."""
        began = self.host.clock.monotonic_ms()
        self.outputs.barrier(barrier)
        pending = []
        for operator in self.operators:
            with blamed(operator.context, f"for checkpoint {barrier.checkpoint}"):
                if (state := operator.snapshot(barrier.checkpoint)) is not None:
                    pending.append(state)
        types = {op.context.uid: found for op in self.operators if (found := op.state_types())}
        sync_ms = self.host.clock.monotonic_ms() - began
        self.host.snapshot_drawn(
            DrawnSnapshot(
                subtask=self.id,
                checkpoint=barrier.checkpoint,
                pending=pending,
                start_delay_ms=start_delay_ms,
                alignment_ms=alignment_ms,
                sync_ms=sync_ms,
                counters=self.counters(),
                state_types=types,
            )
        )

    def checkpoint_complete(self, checkpoint: int) -> None:
        """`checkpoint` is in the log and committed."""
        for operator in self.operators:
            with blamed(operator.context, f"at the completion of checkpoint {checkpoint}"):
                operator.checkpoint_complete(checkpoint)

    def end(self) -> None:
        """The last record was processed: let event time run out, then say so downstream."""
        self.head.watermark(WATERMARK_MAX)
        self.head.end_of_data()
        self.ended = True
        self.host.data_ended(self.id, self.counters())

    def close(self) -> None:
        """Close all operators that began to open; the first error is raised when all had their turn."""
        first: Exception | None = None
        for operator in self._opened:
            try:
                with blamed(operator.context, "in close()"):
                    operator.close()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first

    def counters(self) -> Counters:
        """Running totals."""
        skipped = self.head.skipped if isinstance(self.head, SourceOperator) else 0
        mark = None if self.watermark == WATERMARK_MIN else self.watermark
        pace = self.pace
        return Counters(
            self.id.vertex,
            self.id.subtask,
            self.records_in,
            self.outputs.records_out,
            skipped,
            mark,
            round(pace.busy_ms),
            round(pace.backpressured_ms),
            pace.longest_ms,
        )


class SourceTask(Task):
    """A subtask that begins with a reader."""

    head: SourceOperator

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._asked = False
        self._resume_at = 0
        self._answered = False
        self._deferred: Barrier | None = None

    def open(self) -> None:
        """See :class:`Task`; a reader with restored splits knows what it has to read."""
        super().open()
        self._answered = not self.head.needs_split

    def step(self) -> bool:
        """Read and process one batch."""
        if self.ended:
            return False
        if not self.outputs.available:
            self.pace.blocked()
            return False
        if self._resume_at > self.host.clock.monotonic_ms():
            return False
        with self.pace.step() as step:
            polled = self.head.poll(self.pace.records)
            if isinstance(polled, PollStatus):
                return self._no_records(polled)
            self.records_in += len(polled)
            step.records = len(polled)
            self.head.process(polled)
        self._know()
        self.outputs.note_step(self.host.clock.monotonic_ms())
        return True

    def end(self) -> None:
        """See :class:`Task`."""
        super().end()
        self._know()

    def next_wakeup(self) -> int | None:
        """See :class:`Task`."""
        flush = super().next_wakeup()
        if self.ended or not self.outputs.available:
            return flush
        return self._resume_at if flush is None else min(flush, self._resume_at)

    def splits_assigned(self, splits: list[Any] | None) -> None:
        """The enumerator answered."""
        # Before the splits are taken over: in a deferred checkpoint the enumerator still holds them.
        self._know()
        if splits is None:
            # `_asked` stays: there is nobody to ask any more.
            self.head.reader.no_more_splits()
            self._resume_at = 0
            return
        self._asked = False
        if splits:
            self.head.reader.add_splits(splits)
            self._resume_at = 0
        else:
            self._resume_at = self.host.clock.monotonic_ms() + SPLIT_RETRY_MS
            self.outputs.note_step(self.host.clock.monotonic_ms())

    def trigger(self, barrier: Barrier) -> None:
        """The coordinator asks for a checkpoint: this is position S_n.

        A reader that does not know yet whether it will read anything first learns it, so that the
        barrier is never the first sign of its channels.
        """
        if not self._answered:
            if self._deferred is not None:
                self.host.checkpoint_declined(self.id, self._deferred.checkpoint, SUBSUMED)
            self._deferred = barrier
            return
        self.draw(barrier, max(0.0, self.host.clock.now_ms() - barrier.trigger_ms), 0.0)

    def _know(self) -> None:
        """It is known now whether this reader has something to read: draw what waited for that."""
        self._answered = True
        if self._deferred is not None:
            barrier, self._deferred = self._deferred, None
            self.trigger(barrier)

    def _no_records(self, status: PollStatus) -> bool:
        if status is PollStatus.END_OF_INPUT:
            self.end()
            return True
        if not self._asked and self.head.needs_split:
            self._asked = True
            self.host.request_splits(self.id)
        now = self.host.clock.monotonic_ms()
        self._resume_at = now + NOTHING_RETRY_MS
        if self._answered:
            self.outputs.note_step(now)
        return False
