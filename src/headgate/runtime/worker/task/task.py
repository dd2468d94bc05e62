"""The base of all subtasks: runs a chain, chooses what it reads next, and takes part in checkpoints.

Everything here runs in the worker's one loop thread, a step at a time. A step takes about
`execution.step-target`, so a barrier never waits for a long batch. Urgent work comes first in a turn:
barriers that overtake, then due timers, then in-flight records of a restored checkpoint, and only then new
input.

The operators are called by a `ChainRunner`, in the loop or in a thread of their own. While a call is pending
in that thread the subtask takes no step; so every call comes with the action that is to follow it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from headgate.common.ids import SubtaskId
from headgate.common.process.logs import TaskContext, use_task_context
from headgate.common.process.process_exceptions import let_pass
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.graph.logical import Side
from headgate.records.batch import Batch
from headgate.records.detach import detached
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.user_errors import blamed
from headgate.runtime.protocol.elements import Trace
from headgate.runtime.protocol.messages import Counters
from headgate.runtime.worker.exchange.output import Outputs
from headgate.runtime.worker.exchange.record_traces import RecordTraces
from headgate.runtime.worker.in_flight.gathering import InFlightCapture
from headgate.runtime.worker.in_flight.recovered import RecoveredInput
from headgate.runtime.worker.operators.operator_contract import Operator
from headgate.runtime.worker.snapshot.finishing import AttemptServices
from headgate.runtime.worker.snapshot.snapshot_taker import SnapshotTaker
from headgate.runtime.worker.task.chain_runner import ChainRunner, Work
from headgate.runtime.worker.task.measuring import Measuring, Wanted
from headgate.runtime.worker.task.step_budget import StepBudget
from headgate.runtime.worker.task.traced_call import TracedCall

T = TypeVar("T")


@dataclass(slots=True)
class Reading:
    """The batch that a subtask processes in slices, as it is too long for one step; at most one at a time.
    `operator` is the place in the chain (from 0) of the operator that receives it, `cursor` the first record
    not processed yet, `watermark` the event time (ms) to report after the batch; None: it does not move.
    """

    batch: Batch
    operator: int  # place of the operator in the chain that receives it
    channel: int | None  # the input channel it came from; None if it is of a restored checkpoint
    watermark: int | None  # the watermark after the batch; None if event time does not move
    # the operator's input that it is for: the main one for records of a restored checkpoint, since none are
    # in flight on a broadcast input, where barriers never overtake
    side: Side = Side.MAIN
    cursor: int = 0  # the first record that is not processed yet
    trace: Trace | None = None  # of its first record, until that is processed

    def remainder(self) -> Batch:
        rest = self.batch.slice(self.cursor, len(self.batch))
        self.batch, self.cursor = own(rest), 0
        return rest


class TaskParts(NamedTuple):
    """What every subtask is made of: the assembler fills it in and passes it to the subtask's constructor."""

    subtask: SubtaskId
    operators: Sequence[Operator]  # the chain, head first
    outputs: Outputs  # the chain's outputs
    services: AttemptServices
    step_target_ms: int
    recovered: RecoveredInput | None = None  # in-flight records of the restored checkpoint
    runner: Callable[[StepBudget], ChainRunner] = ChainRunner
    wanted: Wanted = Wanted()  # metrics


class Task(ABC):
    """Base class of all subtasks: :class:`SourceTask` reads a source, :class:`GateTask` reads channels.
    An instance is one subtask in one attempt: the worker opens it, calls `step` and `run_timers` in its loop
    thread, and closes it. Errors of operators are raised out of the method that called them.
    """

    def __init__(self, parts: TaskParts) -> None:
        self.id, operators, self.outputs, services, step_target_ms, self._recovered, runner, wanted = parts
        self.operators, self.head = operators, operators[0]
        self.clock, self.reports, _, traces = services
        self._traces = traces or RecordTraces(self.clock)
        self.budget = StepBudget(self.clock, step_target_ms)
        self._times = self.budget.times
        self._measuring = Measuring(self.id, operators, self.outputs, self._times, wanted)
        self._runner = runner(self.budget)
        called = self._runner.called_from_loop(operators)
        self.snapshots = SnapshotTaker(self.id, called, self.outputs, services)
        self.log_context = TaskContext()  # job and operator that log lines show while it runs
        names = ", ".join(operator.context.label for operator in operators)
        self.label = f"subtask {self.id.subtask} of {names}".encode()
        self.ended = False  # whether all input is processed; the subtask stays for barriers
        self.records_in = 0
        self.watermark = WATERMARK_MIN
        self._reading: Reading | None = None
        self._ending = self._timers_fired = False
        self._sample_wanted = True  # whether the metrics that only the loop may read were told since
        self._waiting: deque[Callable[[], None]] = deque()
        self._opened: list[Operator] = []

    def open(self) -> None:
        """Open the operators, last first; raise the first error at once: then :meth:`close` is due, too."""

        def open_all() -> None:
            use_task_context(self.log_context)
            for operator in reversed(self.operators):
                self._opened.insert(0, operator)
                with blamed(operator.context, "in open()"):
                    operator.open()

        self._runner.call(open_all)
        self._times.restart()

    def step(self) -> bool:
        """Take one turn, of about `execution.step-target`: overtaking barriers, due timers, then input.
        Return False if nothing was done: no work, no credit for output (which is not waited for), or a call
        runs in another thread. Raise an operator's error, also that of an earlier call in another thread.
        """
        worked = self._runner.settle()
        if worked:
            self.outputs.note_step(self.clock.monotonic_ms())
        if self._runner.away:
            return worked  # no barrier waits in the outputs then: none was full when the work began
        if self._sample_wanted:
            self._sample()
        worked |= self._poll_barriers()
        if not self._has_work():
            self._times.no_work()
            return self._do_spare_work() or worked
        if not self.outputs.available:
            self._times.blocked()
            return worked
        # Due timers and input take turns, so that neither starves the other.
        self._timers_fired = not self._timers_fired and self.run_timers()
        if self._timers_fired:
            worked = True
            if not self._free():
                return True
        if self._work():
            self.outputs.note_step(self.clock.monotonic_ms())
            worked = True
        return worked

    def _sample(self) -> None:
        self._sample_wanted = False
        for operator in self.operators:
            operator.sample()

    def _do_spare_work(self) -> bool:
        waiting = [operator for operator in self.operators if operator.has_spare_work]
        for operator in waiting:
            self._runner.call(operator.do_spare_work)
        return bool(waiting)

    def _poll_barriers(self) -> bool:
        return self.snapshots.poll_held_barrier(self.clock.monotonic_ms())

    def _has_work(self) -> bool:
        if self.head.waits:
            return self.head.busy
        return (
            self.head.busy
            or bool(self._waiting)
            or self._reading is not None
            or self._recovered is not None
            or self._input_waits()
        )

    def _free(self) -> bool:
        return not self._runner.away and self.outputs.available

    def _work(self) -> bool:
        if self.head.busy:
            self._invoke(self.head.go_on, self._end_if_through)
        elif self._waiting:
            self._waiting.popleft()()
        elif self._reading is not None:
            self._process(self._reading)
        elif self._recovered is not None:
            self._recover(self._recovered)
        else:
            return self._take_input()
        return True

    @abstractmethod
    def _input_waits(self) -> bool:
        """Return whether there may be new input; True is no promise that `_take_input` finds any."""

    @abstractmethod
    def _take_input(self) -> bool:
        """Process the next batch or event of the live input; return False if there was none after all."""

    def _invoke(self, work: Work, then: Callable[[], None] | None = None) -> None:
        self._runner.run(work, lambda _: None if then is None else then())

    def _when_no_timer_is_due(self, action: Callable[[], None]) -> None:
        if self.head.busy or self.head.waits or self._waiting:
            self._waiting.append(action)
        else:
            action()

    def _process(self, reading: Reading) -> None:
        if reading.trace is not None:
            self._process_traced(reading, reading.trace)
            return
        start = reading.cursor
        stop = min(len(reading.batch), start + self.budget.records)
        take = self.operators[reading.operator].entry(reading.side)
        piece = reading.batch.slice(start, stop)
        self._runner.run(lambda: take(piece), lambda taken: self._processed(reading, taken))

    def _process_traced(self, reading: Reading, trace: Trace) -> None:
        take = self.operators[reading.operator].entry(reading.side)
        piece = reading.batch.slice(reading.cursor, reading.cursor + 1)
        call = TracedCall(self.id, self.operators, reading.operator, piece, trace, self._traces)

        def done(taken: int) -> None:
            if taken:
                reading.trace = None
                call.file()
            self._processed(reading, taken)

        self._runner.run(lambda: call.run(take), done)

    def _processed(self, reading: Reading, taken: int) -> None:
        if reading.operator == 0:
            self.records_in += taken
        reading.cursor += taken
        if reading.cursor == len(reading.batch):
            self._reading = None
            self._batch_done(reading)

    def _batch_done(self, reading: Reading) -> None:
        watermark = reading.watermark
        if reading.channel is None and reading.operator == 0 and watermark is not None:
            self._when_no_timer_is_due(lambda: self._advance(watermark))

    def _recover(self, recovered: RecoveredInput) -> None:
        polled = recovered.poll()
        if polled is None:
            self._recovered = None
            self.reports.recovered(self.id)
            self._recovery_done(recovered)
            return
        operator, batch, watermark = polled
        if batch is not None:
            self._reading = Reading(batch, operator, None, watermark)
            self._process(self._reading)
        elif operator == 0:
            self._advance(watermark)

    @abstractmethod
    def _recovery_done(self, recovered: RecoveredInput) -> None:
        """Prepare for live input; called once, when all restored in-flight records are processed."""

    def _take_recovered(self, capture: InFlightCapture) -> None:
        recovered, reading = self._recovered, self._reading
        if recovered is None:
            return
        partly = None
        if reading is not None and reading.channel is None:
            partly = reading.remainder()
        for key, watermark, idle, elements in recovered.remainder(partly):
            capture.begin(key, watermark, idle)
            for element in elements:
                capture.add(key, element)

    def _advance(self, watermark: int) -> None:
        if watermark > self.watermark:
            self.watermark = watermark
            self._invoke(lambda: self.head.watermark(watermark))

    def next_wakeup(self) -> int | None:
        """Return when a step is due although nothing arrives (monotonic ms; timers aside); None: not set."""
        # Where the outputs are blocked, credit will wake the loop.
        head = self.head.next_wakeup() if self.outputs.available else None
        return earliest(self.outputs.next_flush, self._barrier_timeout(), head)

    def _barrier_timeout(self) -> int | None:
        return self.snapshots.next_timeout()

    def next_processing_time(self) -> int | None:
        """Return when the first processing-time timer is due (wall clock, ms); None: no timer is set or may
        fire: not after the end of input, without credit, or while a call or earlier timers are pending.
        """
        if self._runner.away or self.ended or self.head.busy:
            return None
        due: int | None = None
        for operator in self.operators:
            time = operator.next_processing_time()
            if time is not None and (due is None or time < due):
                due = time
        # Where the outputs are blocked, credit will wake the loop; until then nothing could be emitted.
        return due if due is not None and self.outputs.available else None

    def run_timers(self) -> bool:
        """Flush outputs and fire processing-time timers that are due; return False if nothing was due."""
        flushed = self._flush_due()
        due = self.next_processing_time()
        if due is None:
            return flushed
        now = self.clock.now_ms()
        if due > now:
            return flushed

        def fire() -> None:
            for operator in self.operators:
                operator.fire_processing_time(now)

        self._invoke(fire, lambda: self.outputs.note_step(self.clock.monotonic_ms()))
        return True

    def _flush_due(self) -> bool:
        due = self.outputs.next_flush
        if due is None or (now := self.clock.monotonic_ms()) < due:
            return False
        self.outputs.flush_due(now)
        return True

    def aborted(self, checkpoint: int) -> None:
        self.snapshots.aborted(checkpoint)

    def checkpoint_complete(self, checkpoint: int) -> None:
        """Tell the operators, once no call of theirs is pending, that the job has completed `checkpoint`.
        Unfinished snapshots of it and of older ones are no longer acknowledged. Raises an operator's error.
        """

        def notify() -> None:
            for operator in self.operators:
                with blamed(operator.context, f"at the completion of checkpoint {checkpoint}"):
                    operator.checkpoint_complete(checkpoint)

        self.snapshots.machine.complete(checkpoint)
        self.between_steps(notify, lambda _: None)

    def between_steps(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do `work` in the operators' thread, then call `then` in the loop with its result.
        At once or, while user code is being called in another thread, in a later :meth:`step`; an error of
        `work` is raised from there, without a call of `then`.
        """
        self._runner.when_back(lambda: then(self._runner.call(work)))

    def end(self) -> None:
        """Begin to end the input: over some steps, send the last watermark, fire timers, send end of data."""
        self._ending = True
        self._invoke(lambda: self.head.watermark(WATERMARK_MAX), self._end_if_through)

    def _end_if_through(self) -> None:
        # The last timers may take many steps; barriers pass between them.
        if not self._ending or self.head.busy or self.head.waits:
            return
        self._ending = False
        self._invoke(self.head.end_of_data, self._all_done)

    def _all_done(self) -> None:
        self.ended = True
        self._sample()
        self.reports.data_ended(self.id, self.counters())

    @property
    def calling(self) -> tuple[int, float] | None:
        return self._runner.calling

    @property
    def left_behind(self) -> bool:
        return self._runner.left_behind

    def close(self) -> None:
        """Close all operators that began to open, then raise the first error; called once, at the end.
        If user code still runs in another thread, they are closed when it returns, if ever, without a wait
        here: until then the subtask is :attr:`left_behind`, and an error is only logged.
        """
        if self._opened:
            self._runner.end(self._close_all)

    def _close_all(self) -> None:
        first: BaseException | None = None
        for operator in self._opened:
            try:
                with blamed(operator.context, "in close()"):
                    operator.close()
            except BaseException as error:
                let_pass(error)
                first = first or error
        if first is not None:
            raise first

    @property
    def records(self) -> tuple[int, int]:
        """How many records the head of the chain has processed and the chain has emitted in this attempt."""
        return self.records_in, self.outputs.records_out

    def counters(self) -> Counters:
        """Return the subtask's metrics since the attempt began; may be called in the heartbeat's thread."""
        self._sample_wanted = True
        return self._measuring.counters(self.records_in, self.watermark)


def earliest(*times: int | None) -> int | None:
    """Return the lowest of some times; None stands for never."""
    return min((time for time in times if time is not None), default=None)


def own(batch: Batch) -> Batch:
    """Return `batch` so that nobody else changes its rows: mutable rows deeply copied, else `batch`."""
    return detached(batch) if isinstance(batch, RowBatch) else batch
