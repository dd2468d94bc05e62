"""The worker: the subtasks of one slot, driven by one loop, as the job master's messages demand.

It is passive: the owner of the process calls `handle` for each message, `step` as long as it returns True,
and otherwise waits until `next_wakeup` or a wake-up call. Production and simulator drive it in the same way.

    state       on                    next state
    any         Deploy, if newer      running (or failed)
    running     Stop                  idle
    running     a subtask raises      failed: nothing runs, the job master has the error
    running     a peer is lost        failed
    failed      Stop                  idle
    any         Finish                finished
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable

from headgate.api.source import Split
from headgate.checkpoint.storage.reachability import NotSharedError, check_marker
from headgate.common import errors
from headgate.common.ids import AttemptId, Fence, Generation, JobId, SubtaskId, SubtaskIndex, VertexId
from headgate.common.process.children import OwnProcess
from headgate.common.process.limits import changes, limits_of
from headgate.common.process.logs import TaskContext, clear_task_context, use_task_context
from headgate.common.process.process_exceptions import let_pass
from headgate.common.refusals.users_frames import is_of_the_program, users_line, users_traceback
from headgate.core.alignment.barriers import Alignment
from headgate.runtime.job.shipped_program import program_from_bytes
from headgate.runtime.job.user_errors import NoRecord, user_error
from headgate.runtime.protocol import messages as m
from headgate.runtime.protocol.elements import Barrier
from headgate.runtime.protocol.error_messages import describe_error
from headgate.runtime.worker.answering import answer
from headgate.runtime.worker.assembly import Assembler, Assembly
from headgate.runtime.worker.exchange.record_traces import RecordTraces
from headgate.runtime.worker.in_flight.catalog import StreamCatalog
from headgate.runtime.worker.in_flight.gathering import CaptureLimits
from headgate.runtime.worker.local_recovery import LocalRecovery
from headgate.runtime.worker.snapshot.finishing import AttemptReports, AttemptServices, Finishing
from headgate.runtime.worker.snapshot.snapshot_writer import SnapshotWriter
from headgate.runtime.worker.standstill import STILL_MS, standstill_of
from headgate.runtime.worker.task.source_task import SourceTask
from headgate.runtime.worker.task.task import Task
from headgate.runtime.worker.worker_ports import WorkerPorts

_LOG = logging.getLogger(__name__)

LEAVING_MS = 2_000  # how long blocking functions of an ended attempt may run on before they are reported


class WorkerState(enum.Enum):
    """The state of a worker: no attempt (IDLE), RUNNING, FAILED and reported, or FINISHED with the job."""

    IDLE = "idle"
    RUNNING = "running"
    FAILED = "failed"
    FINISHED = "finished"


class Worker:
    """The subtasks of one slot of a job, from attempt to attempt; the worker's process makes and drives it.
    Subtask number `slot` (from 0) of every vertex of the plan runs here.
    """

    def __init__(self, job: JobId, slot: int, ports: WorkerPorts) -> None:
        self.job, self.slot, self.ports = job, slot, ports
        self._process = OwnProcess()
        self.clock = ports.clock
        self.state = WorkerState.IDLE  # see the module's table
        self.progress = 0  # number of turns of the loop; reported by the heartbeat
        self.attempt = 0  # the current deployment; 0 before the first
        self.at_work: tuple[Task, int] | None = None  # in the loop now; since when (monotonic ms)
        self.traces = ports.traces or RecordTraces(self.clock, slot)
        self._limits = limits_of()
        self._local = LocalRecovery(job, slot)
        self._assembly: Assembly | None = None
        self._reports: AttemptReports | None = None
        self._finishing: Finishing | None = None
        self._threads_before = _thread_idents()
        self._left_behind: list[Task] = []
        self._idle_until: int | None = None

    def handle(self, message: m.ToWorker) -> None:
        """Process a message of the job master; the module's table has its effects.
        Messages of ended attempts are ignored, except `Finish`, and those for subtasks unless RUNNING. An
        error of the attempt is not raised: it goes to the job master as `TaskFailed`.
        """
        match message:
            case m.Deploy():
                self._deploy(message)
            case m.Finish():
                self.state = WorkerState.FINISHED
                if self._reports is not None:
                    self._reports.over = True
            case m.Stop():
                self._stop(message.attempt)
            case m.HeartbeatSeen():  # the process has renewed its lease
                if message.attempt == self.attempt and self._assembly is not None:
                    self._assembly.alignment.others_reached(message.event_times)
            case _ if message.attempt == self.attempt and self.state is WorkerState.RUNNING:
                self._guarded(lambda: self._handle_running(message), None)

    def _handle_running(self, message: m.ToWorker) -> None:
        assembly = self._assembly
        assert assembly is not None
        match message:
            case m.Trigger():
                timing = message.trigger_ms, Alignment(message.alignment), message.timeout_ms
                barrier = Barrier(message.checkpoint, *timing, message.savepoint, message.completed)
                for task in assembly.tasks.values():
                    if isinstance(task, SourceTask):
                        task.trigger(barrier)
            case m.AssignSplits():
                reader = assembly.tasks[_subtask_of(message)]
                assert isinstance(reader, SourceTask)
                splits = message.splits
                reader.splits_assigned(None if splits is None else [Split(*split) for split in splits])
            case m.CheckpointComplete():
                for task in assembly.tasks.values():
                    task.checkpoint_complete(message.checkpoint)
                self._local.completed(message.checkpoint, self.ports.background)
            case m.CheckpointAborted():
                for task in assembly.tasks.values():
                    task.aborted(message.checkpoint)
            case m.QueryState():
                answer(assembly.tasks[_subtask_of(message)], message, self.ports.link.send)

    def _deploy(self, message: m.Deploy) -> None:
        if message.attempt <= self.attempt:
            return
        self._dispose()
        self._idle_until = None
        self.attempt, self.state = message.attempt, WorkerState.RUNNING
        self._threads_before = _thread_idents()
        self._guarded(lambda: self._build(message), None)

    def _build(self, message: m.Deploy) -> None:
        program = program_from_bytes(message.program, self.ports.code)
        disk = None if message.storage is None else self.ports.open_disk(message.storage)
        if disk is not None and message.marker is not None:
            try:  # storage that the driver does not share with this worker would lose every checkpoint
                check_marker(disk, message.marker)
            except NotSharedError as error:
                raise errors.ConfigError(str(error)) from error
        ports, settings = self.ports, program.settings
        self._local.configure(settings)
        fence = Fence(self.job, Generation(message.generation), AttemptId(message.attempt))
        self._reports = AttemptReports(self.attempt, ports.link, ports.probe)
        inline_max, memory_max = settings.inline_size_max, settings.memory_state_max
        writer = SnapshotWriter(self._local.writing(disk), inline_max, fence, ports.open_disk, memory_max)
        catalog, limits = StreamCatalog(program), CaptureLimits(total_bytes=settings.in_flight_bytes_max)
        background, post = ports.background, ports.post
        self._finishing = Finishing(writer, catalog, limits, background, self.clock, post, self._reports)
        self.traces.attempt = message.attempt
        services = AttemptServices(self.clock, self._reports, self._finishing, self.traces)
        storage = message.restored_storage
        restored = self._local.reading(None if storage is None else ports.open_disk(storage))
        self._assembly = Assembler(program, self.slot, message, services, self.ports, restored).build()
        self.ports.data.open(fence, message.peers)
        for task in self._assembly.tasks.values():
            head, first = task.head.context, program.plan.vertices[task.id.vertex].chain[0]
            # The head operator may run the chain's first functions fused into one.
            task.log_context = TaskContext(self.job, first.uid or head.uid, head.subtask, head.attempt)
            use_task_context(task.log_context)
            self._turn_of(task)
            task.open()
        self.at_work = None
        self._local.report(message.restored_checkpoint, restored)
        self.ports.link.send(m.Deployed(self.attempt))

    def _stop(self, attempt: int) -> None:
        if attempt < self.attempt:
            return
        self._report_totals()
        self._dispose()
        self.state, self.attempt = WorkerState.IDLE, attempt
        self._idle_until = self.clock.monotonic_ms() + LEAVING_MS
        self._report_idle()

    def _report_idle(self) -> None:
        if self._idle_until is None:
            return
        self._left_behind = [task for task in self._left_behind if task.left_behind]
        if self._left_behind and self.clock.monotonic_ms() < self._idle_until:
            return
        self._idle_until = None
        leftover = [
            thread.name
            for thread in self.ports.threads()
            if thread.ident not in self._threads_before and not thread.name.startswith("headgate-")
        ]
        leftover += [f"blocking function of {task.head.context.label}" for task in self._left_behind]
        changed = changes(limits_of(), self._limits) if self.ports.box is not None else []
        self.ports.link.send(m.Idle(self.attempt, leftover, changed))

    def close(self) -> None:
        """Close all subtasks, log their errors; after `Finish` delete the local copies of checkpoints."""
        self._dispose()
        self._local.close(self.ports.background, job_over=self.state is WorkerState.FINISHED)

    def _dispose(self) -> None:
        assembly, self._assembly = self._assembly, None
        finishing, self._finishing = self._finishing, None
        if finishing is not None:
            finishing.close()
        if self._reports is not None:
            self._reports.over = True
        if assembly is None:
            return
        self.ports.data.close_attempt()
        for task in assembly.tasks.values():
            try:
                self._process.call(self.ports.code.call, task.close)
            except BaseException as error:
                let_pass(error)
                text = str(error) if isinstance(error, errors.HeadgateError) else repr(error)
                _LOG.warning("closing %s: %s", task.label.decode(), text)
            if task.left_behind:
                self._left_behind.append(task)

    def step(self) -> bool:
        """Take one turn: deliver received frames, then give each subtask a step or fire its due timers.
        Return False if nothing was done. An error fails the attempt, as in :meth:`handle`, and is not raised.
        """
        self.progress += 1
        if self.state is not WorkerState.RUNNING:
            self._report_idle()
            return False
        worked = self._guarded(self._receive, None)
        assembly = self._assembly
        if assembly is None:
            return True
        for task in assembly.tasks.values():
            use_task_context(task.log_context)
            self._turn_of(task)
            worked |= self._guarded(task.step, task.id) or self._guarded(task.run_timers, task.id)
            if self._assembly is not assembly:
                worked = True
                break
        self.at_work = None
        clear_task_context()
        return worked

    def _turn_of(self, task: Task) -> None:
        self.at_work = task, self.clock.monotonic_ms()
        if self.ports.box is not None:
            self.ports.box.at_work(task.label)

    def next_wakeup(self) -> int | None:
        """Return when to call :meth:`step` although nothing arrives (monotonic ms); None: no time is set."""
        if self._idle_until is not None:
            return self._idle_until
        if self._assembly is None or self.state is not WorkerState.RUNNING:
            return None
        tasks = self._assembly.tasks.values()
        times = [t for task in tasks if (t := task.next_wakeup()) is not None]
        wall = [t for task in tasks if (t := task.next_processing_time()) is not None]
        if wall:
            times.append(self.clock.monotonic_ms() + max(0, min(wall) - self.clock.now_ms()))
        return min(times, default=None)

    def _receive(self) -> bool:
        assembly = self._assembly
        assert assembly is not None
        frames = self.ports.data.receive()
        for slot, frame in frames:
            assembly.exchange.arrived(slot, frame)
        for slot, reason in self.ports.data.lost():
            raise _PeerLostError(slot, reason)
        return bool(frames)

    def _guarded(self, action: Callable[[], bool | None], subtask: SubtaskId | None) -> bool:
        try:
            return bool(self._process.call(self.ports.code.call, action))
        except BaseException as error:
            let_pass(error)
            self._fail(error, subtask)
            return True

    def _fail(self, error: BaseException, subtask: SubtaskId | None) -> None:
        self.state = WorkerState.FAILED
        vertex, index = subtask if subtask is not None else (-1, self.slot)
        if not isinstance(error, Exception) or is_of_the_program(error):  # wherever that was called
            error = self._named(error, subtask)
        lost = error.slot if isinstance(error, _PeerLostError) else None
        kind, arguments = describe_error(error)
        self._report_totals()
        self.ports.link.send(m.TaskFailed(self.attempt, vertex, index, kind, arguments, lost))
        self._dispose()

    def _named(self, error: BaseException, subtask: SubtaskId | None) -> BaseException:
        if isinstance(error, errors.HeadgateError):
            return error
        if self._assembly is not None and subtask is not None:
            return user_error(self._assembly.tasks[subtask].head.context, error, NoRecord("at work"))
        no_record = repr(NoRecord("while a worker loaded the program, or took records in"))
        trace, kind, line = users_traceback(error), type(error).__name__, users_line(error) or ""
        return errors.UserFunctionError("code of the program", no_record, trace, self.attempt, kind, line)

    def standstills(self, loop: int) -> list[m.Standstill]:
        """Return a report, with operator and stack, for each step or call of user code that has run for 1 s.
        Called in the heartbeat's thread; `loop` is the id of the thread that all subtasks here share.
        """
        now, at_work, assembly = self.clock.monotonic_ms(), self.at_work, self._assembly
        calls = [] if at_work is None else [(at_work[0], loop, at_work[1])]
        for task in () if assembly is None else assembly.tasks.values():
            if (calling := task.calling) is not None:
                calls.append((task, calling[0], round(calling[1])))
        return [
            standstill_of(task, thread, now - since)
            for task, thread, since in calls
            if now - since >= STILL_MS
        ]

    def _report_totals(self) -> None:
        if counters := self.counters():
            self.ports.link.send(m.Totals(self.attempt, counters))

    def counters(self) -> list[m.Counters]:
        """Return each subtask's metrics of the attempt, for any thread; [] if no attempt runs."""
        return [] if (now := self._assembly) is None else [each.counters() for each in now.tasks.values()]

    def event_times(self) -> dict[str, int] | None:
        """Return group -> event time (ms) of the aligned sources here; None: no attempt. For any thread."""
        return None if (assembly := self._assembly) is None else assembly.alignment.event_times()


class _PeerLostError(errors.OperatingError):
    """Raised in the loop when the connection to the worker of `slot` is lost: the attempt fails."""

    def __init__(self, slot: int, reason: str) -> None:
        super().__init__(f"the worker of slot {slot} was lost: {reason}")
        self.slot = slot


def _thread_idents() -> set[int]:
    return {thread.ident or 0 for thread in threading.enumerate()}


def _subtask_of(message: m.AssignSplits | m.QueryState) -> SubtaskId:
    return SubtaskId(VertexId(message.vertex), SubtaskIndex(message.subtask))
