"""A worker's process: connects to the job master, runs the worker's loop, and sends heartbeats.

The process exits at once when it must not continue: the job master has ended or replaced it, its lease has
expired, its parent process died, or its heartbeat failed. Only output of completed checkpoints is committed.
"""

from __future__ import annotations

import functools
import gc
import os
import pkgutil
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from headgate.checkpoint.storage.settings import StorageSettings, use_storage_settings
from headgate.checkpoint.storage.uris import disks_with
from headgate.common.ids import JobId
from headgate.common.ports import Link, NoProbe, Probe, UserCode
from headgate.common.process.children import descriptors_closed
from headgate.common.process.collections_time import CollectionsTime
from headgate.common.process.log_levels import LogLevels
from headgate.common.process.logs import report
from headgate.common.process.processes import resident_bytes
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.common.process.system import BackgroundThread, Mailbox, SystemClock
from headgate.core.liveness import Lease
from headgate.runtime.job.black_box import BlackBox, black_box
from headgate.runtime.protocol import messages as m
from headgate.runtime.transport.control_link import connect_control
from headgate.runtime.transport.dataplane import SocketDataPlane
from headgate.runtime.transport.handshake import Hello
from headgate.runtime.worker.exchange.record_traces import RecordTraces
from headgate.runtime.worker.printing import LogOutlet, SendingOutlet, printing_to
from headgate.runtime.worker.stack_samples import StackSamples
from headgate.runtime.worker.task.chain_runner import UserThread
from headgate.runtime.worker.worker import Worker, WorkerState
from headgate.runtime.worker.worker_logs import WorkerLogs, logs_sent
from headgate.runtime.worker.worker_ports import WorkerPorts

LINGER_S = 2.0
"""How long the exit waits for the last messages to be sent."""

EXIT_FENCED = 75
"""Exit code of a worker process that must not continue, because it was replaced or lost its job master."""

YOUNG_OBJECTS = 10_000
"""Count of new objects after which Python's garbage collector runs in a worker; see decision 0207."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """The settings that the driver starts a worker process with, so that it finds its job master; picklable.
    Where workers are threads, `dies_with_parent` is False. `probe` names a factory of a fault probe, for
    tests. With `sends_prints`, lines that user code prints go to the job master, else to the log.
    """

    control_address: str  # of the job master
    secret: bytes  # of the job; authenticates worker and job master to each other
    job: str  # the job's id
    generation: int  # of the job master
    heartbeat_interval_ms: int  # between two heartbeats
    lease_ms: int  # how long to continue without an answer of the job master
    bind_host: str  # where to listen for peers
    frame_size_max: int  # largest frame accepted from a peer, in bytes
    sys_path: tuple[str, ...] = ()  # the driver's import path, for modules next to the user's program
    dies_with_parent: bool = True  # whether it exits with its parent process; False where workers are threads
    logs: WorkerLogs = field(default_factory=WorkerLogs)  # how it writes its log
    # "module:attribute" of a factory for `common.ports.Probe`, for fault injection; or None
    probe: str | None = None
    # how storages other than directories are accessed
    storage: StorageSettings = field(default_factory=StorageSettings)
    # whether lines that user code prints are sent to the job master, which shows them; else they go to the
    # log, or where workers are threads, to the standard output
    sends_prints: bool = False


def run_worker(
    spec: WorkerSpec,
    gang: int,
    slot: int,
    abandon: Callable[[str], None] | None = None,
    code: UserCode = SAME_INTERPRETER,  # the modules in which user code lives in this process
    # lists the threads of the worker and its user code
    threads: Callable[[], Iterable[threading.Thread]] = threading.enumerate,
) -> None:
    """Run the worker of slot `slot` (from 0) of gang number `gang` in this process; return when the job has
    ended. A gang is the set of workers that are started by one request. `abandon` is called with the reason,
    perhaps repeatedly and in another thread, when this worker must not continue; by default the process
    exits. `code` finds the modules of user code here; `threads` lists the threads of worker and user code.
    Raises OperatingError: the job master cannot be reached; ProtocolError: it did not prove the job's secret,
    or refused this worker; FencedError: the worker's generation was replaced.
    """
    if spec.dies_with_parent:
        spec.logs.set_up()
        use_storage_settings(spec.storage)
    sys.path.extend(path for path in spec.sys_path if path not in sys.path)
    tempfile.gettempdir()  # fixed now, before user code can change the environment that it depends on
    _Process(spec, gang, slot, abandon or _end_process, code, threads).run()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Run the garbage collector less often in the `with` block, unless it is off or runs rarely already.
    Its thresholds are those of the whole process, and are restored at the end.
    """
    before = gc.get_threshold()
    if 0 < before[0] < YOUNG_OBJECTS:  # 0 means that it is off
        gc.set_threshold(YOUNG_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def limit_threads() -> None:
    """Limit the thread pools of Arrow and Polars to one thread each, because one slot is one core.
    Polars reads its limit when it is loaded: call this before. A limit that is set in the environment stays.
    """
    import pyarrow as pa

    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)


def _end_process(reason: str) -> None:
    report(f"headgate: this worker stops: {reason}")
    os._exit(EXIT_FENCED)


@dataclass
class _Process:
    _spec: WorkerSpec
    _gang: int
    _slot: int
    _abandon: Callable[[str], None]
    _code: UserCode
    _threads: Callable[[], Iterable[threading.Thread]]

    def __post_init__(self) -> None:
        spec = self._spec
        self._clock, self._mailbox = SystemClock(), Mailbox()
        self._lease = Lease(spec.lease_ms, self._clock.monotonic_ms())
        self._over = threading.Event()
        self._abandoned = False
        self._parent = os.getppid()
        self._loop_thread = threading.get_ident()
        self._traces = RecordTraces(self._clock, self._slot)
        self._samples, self._levels = StackSamples(self._loop_thread), LogLevels()
        self._box: BlackBox | None = None
        self._giving_up = threading.Lock()
        self._collections = CollectionsTime()

    def run(self) -> None:
        # Closed in reverse order, also when the job master cannot be reached.
        with ExitStack() as opened:
            spec, slot, call = self._spec, self._slot, self._code.call
            opened.enter_context(self._collections.watching())
            opened.callback(self._samples.wanted, 0)
            background = BackgroundThread(f"headgate-snapshots-{slot}", call)
            opened.callback(background.close)
            wake, frame_max = self._mailbox.wake, spec.frame_size_max
            data = SocketDataPlane(spec.secret, spec.bind_host, slot, wake, frame_max)
            opened.callback(data.close)
            opened.callback(self._levels.use, {})  # Spark uses the process for other jobs afterwards
            hello, events = Hello(spec.job, spec.generation, 0, slot, self._gang, "control"), self._received
            control = connect_control(spec.control_address, spec.secret, hello, events, self._link_lost)
            opened.callback(control.wait_closed, LINGER_S)
            opened.callback(control.close)
            link: Link = control
            probe, disks = load_probe(spec.probe), disks_with(spec.storage)
            post, user_thread = self._mailbox.post, functools.partial(UserThread, call=call)
            box = opened.enter_context(black_box()) if spec.dies_with_parent else None
            if spec.dies_with_parent:
                opened.enter_context(spec.logs.naming(spec.job, slot, spec.secret))
                link = opened.enter_context(logs_sent(link))
            if box is not None:
                opened.enter_context(rare_collections())
                self._box = box
                opened.enter_context(self._threads_watched())
            mine = self._code, self._threads, box
            outside = self._clock, background, data, link, disks, probe, post, user_thread
            ports = WorkerPorts(*outside, *mine, traces=self._traces)
            opened.enter_context(self._printing(link))
            self._worker, self._link = Worker(JobId(spec.job), slot, ports), link
            opened.callback(self._worker.close)
            # Sends the last totals, before the subtasks are closed.
            opened.callback(self._send_heartbeat)
            place = "" if box is None else str(box.path)
            link.send(m.Register(self._gang, slot, os.getpid(), platform.node(), data.address, place))
            heartbeat = threading.Thread(target=self._beat, name=f"headgate-heartbeat-{slot}", daemon=True)
            heartbeat.start()
            opened.callback(heartbeat.join)
            opened.callback(self._over.set)
            self._loop()

    def _printing(self, link: Link) -> AbstractContextManager[None]:
        outlet: LogOutlet | None = None
        if self._spec.sends_prints:
            outlet = SendingOutlet(lambda lines, left_out: link.send(m.Printed(0, lines, left_out)))
        elif self._spec.dies_with_parent or (self._spec.logs.all_json and LogOutlet.is_heard()):
            outlet = LogOutlet()
        alone = self._spec.dies_with_parent
        return printing_to(outlet, self._spec.job, self._slot, alone=alone, box=self._box)

    def _loop(self) -> None:
        worker, mailbox, clock = self._worker, self._mailbox, self._clock
        while worker.state is not WorkerState.FINISHED and not self._abandoned:
            worked = mailbox.drain()
            worked |= worker.step()
            if worked:
                continue
            due = worker.next_wakeup()
            wait_ms = 1000.0 if due is None else max(0, min(1000, due - clock.monotonic_ms()))
            mailbox.wait(wait_ms)

    def _received(self, message: m.ToWorker) -> None:
        if isinstance(message, m.HeartbeatSeen):
            self._lease.renewed(message.sent_ms)
            self._samples.wanted(message.sampling)
            self._traces.wanted(*message.tracing)
            if self._spec.dies_with_parent:  # else the driver has set them in this process
                self._levels.use(message.log_levels or {})
            if message.event_times is None:
                return
        self._mailbox.post(lambda: self._worker.handle(message))

    def _link_lost(self, reason: str) -> None:
        if not self._over.is_set():
            self._give_up(f"the connection to the job master ended ({reason})", unheard=True)

    def _beat(self) -> None:
        try:
            self._beat_until_over()
        except Exception as error:
            self._give_up(f"its heartbeat failed ({type(error).__name__}: {error})")

    def _beat_until_over(self) -> None:
        interval_s = self._spec.heartbeat_interval_ms / 1000
        while not self._over.wait(interval_s):
            now = self._clock.monotonic_ms()
            if self._lease.expired(now):
                self._give_up(f"the job master was silent for {self._spec.lease_ms} ms", unheard=True)
            elif self._spec.dies_with_parent and os.getppid() != self._parent:
                self._give_up("its parent process ended", unheard=True)
            elif self._box is not None and descriptors_closed():
                self._give_up("its files and connections cannot be used any more")
            else:
                self._send_heartbeat()

    def _send_heartbeat(self) -> None:
        worker, now = self._worker, self._clock.monotonic_ms()
        counters, standstills = worker.counters(), worker.standstills(self._loop_thread)
        beat = worker.attempt, now, worker.progress, counters, standstills, resident_bytes()
        spent = round(time.process_time() * 1000), self._collections.us
        if visits := self._traces.take():
            with suppress(Exception):  # the heartbeat goes on without them
                self._link.send(m.Traced(worker.attempt, visits))
        self._link.send(m.Heartbeat(*beat, worker.event_times(), *spent, self._samples.found()))

    @contextmanager
    def _threads_watched(self) -> Iterator[None]:
        before = threading.excepthook

        def ended(what: threading.ExceptHookArgs) -> None:
            if what.thread is None or not what.thread.name.startswith("headgate-"):
                before(what)
            elif descriptors_closed():
                self._give_up("its files and connections cannot be used any more")
            elif not self._abandoned:
                before(what)

        threading.excepthook = ended
        try:
            yield
        finally:
            threading.excepthook = before

    def _give_up(self, reason: str, unheard: bool = False) -> None:
        if self._box is not None:
            self._giving_up.acquire()  # never released: a later reason adds nothing
            closed = descriptors_closed()
            if unheard and not closed:
                self._box.remove()
            if closed:
                reason = (
                    f"code in this process has closed {closed} descriptors of Headgate's files and "
                    "connections (os.close, os.closerange or the like); close only what it has opened itself"
                )
            self._box.say(f"it stopped by itself: {reason}")
        self._abandoned = True
        self._mailbox.wake()
        self._abandon(reason)


def load_probe(path: str | None) -> Probe:
    """Return a probe made by the factory `path`, "module:attribute", for tests; None: one without effect."""
    if path is None:
        return NoProbe()
    probe: Probe = pkgutil.resolve_name(path)()
    return probe
