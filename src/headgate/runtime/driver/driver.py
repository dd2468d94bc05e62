"""Runs a job in the driver: opens storage and control server, and runs the job master's loop until the end.

Ctrl-C arrives in that loop as KeyboardInterrupt: the job is cancelled, and the exception raised again once
it has ended, or after 20 s. For a job in the background of its program, `api.jobs.job_handle` handles Ctrl-C.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType

from headgate.api.jobs.executor_contract import JobResult, JobSpec
from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage import reachability
from headgate.checkpoint.storage.settings import storage_settings
from headgate.checkpoint.storage.storage_contract import OfThisProcess
from headgate.checkpoint.storage.uris import disks_with
from headgate.checkpoint.store.store_contract import CommitPermit, CompletedCheckpointStore
from headgate.common.errors import JobCancelledError, TerminatedError
from headgate.common.files.durable import clock
from headgate.common.files.permissions import permissions_of_job
from headgate.common.ids import JobId
from headgate.common.ports import Disk, Gang, Link
from headgate.common.process.children import OwnProcess
from headgate.common.process.log_lines import LoggedJob
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.common.process.search_path import framework_path
from headgate.common.process.system import BackgroundThread, Mailbox, SystemClock, SystemRandomness
from headgate.common.settings import options as o
from headgate.core.execution import JobState
from headgate.display.printed import Prints, where_prints_show
from headgate.graph.physical import PhysicalPlan
from headgate.ha.high_availability import HighAvailability, open_leadership, readable, where_to_begin
from headgate.ha.second_jobs import take_places
from headgate.restore.assignment import check_compatible
from headgate.restore.point import RestorePoint
from headgate.runtime.driver.claiming import check_claim, keeps, refuse_in_use, taken_over
from headgate.runtime.driver.driver_logs import logging_job, logs_of_workers
from headgate.runtime.driver.endpoint.endpoint_settings import endpoint_settings
from headgate.runtime.driver.job_control import JobControl
from headgate.runtime.driver.restored_elsewhere import Keeping
from headgate.runtime.driver.shown_job import ShownJob
from headgate.runtime.driver.sigterm import TURN_MS, StopAtSigterm, sigterm_is_heard
from headgate.runtime.driver.start_checks import checks, with_stored_groups
from headgate.runtime.driver.swallowed_signals import Interrupts
from headgate.runtime.job.job_settings import JobSettings, job_settings
from headgate.runtime.job.listener import JobListener
from headgate.runtime.job.live_state import LiveState
from headgate.runtime.job.master_ports import MasterPorts
from headgate.runtime.job.replanning import replanner
from headgate.runtime.job.shipped_program import Program
from headgate.runtime.master.job_master import JobMaster
from headgate.runtime.protocol import messages as m
from headgate.runtime.transport.control_server import ControlServer, WorkerKey
from headgate.runtime.transport.handshake import Hello
from headgate.runtime.worker.worker_process import WorkerSpec, load_probe

SECRET_BYTES = 32
CANCEL_GRACE_S = 20.0  # how long a cancelled job may take to end before the driver stops waiting for it


@dataclass(frozen=True, slots=True)
class GangContext:
    """Everything that a gang (the worker processes of a job, started together) needs to start its workers.
    The gang calls `exited`, from any thread, once all its workers have exited: with the gang's number, and
    with the reason if their exit was not normal, else None. `restored`: snapshot that the job starts from.
    """

    worker: WorkerSpec
    exited: Callable[[int, str | None], None]
    restored: RestorePoint | None = None


def run_job(
    job: JobSpec,
    make_gang: Callable[[GangContext], Gang],
    listener: JobListener,
    dies_with_parent: bool = True,
    answers_commands: bool = True,
) -> JobResult:
    """Run a job from its start to its end in this thread, and return its result.

    `make_gang` creates the starter of its worker processes; `listener` gets reports of its events; with
    `dies_with_parent` workers exit with the process that started them; `answers_commands`: whether other
    processes can control the job where the configuration does not say it. Raises UsageError or OperatingError
    if the job cannot start, the last attempt's error (UserFunctionError for user code) once the restart
    strategy gives up, JobCancelledError if another thread or process cancelled the job, and after Ctrl-C
    KeyboardInterrupt once it has ended (or after 20 s).
    """
    permissions = permissions_of_job(storage_settings(job.config).permissions)
    with logging_job(job.name, job.config) as named, permissions, sigterm_is_heard(job.config):
        return _Driver(job, listener, dies_with_parent, answers_commands, named).run(make_gang)


class _Driver:
    def __init__(
        self,
        job: JobSpec,
        listener: JobListener,
        dies_with_parent: bool,
        answers_commands: bool,
        named: LoggedJob,
    ) -> None:
        self._job, self._dies_with_parent, self._named = job, dies_with_parent, named
        self._settings, self._storage_settings = job_settings(job.config), storage_settings(job.config)
        self._disks = disks_with(self._storage_settings)
        answers = endpoint_settings(job.config, answers_commands)
        self._id = JobId(f"{readable(job.name)}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}")
        named.id = self._id
        self._leading: HighAvailability | None = None
        self._submitted: JobMaster | None = None
        self._keeping: Keeping | None = None
        self._clock, self._mailbox, self._interrupts = SystemClock(), Mailbox(), Interrupts()
        self._process = OwnProcess()
        self._shown = ShownJob(job, listener, self._clock, answers, named)
        self._statistics = self._shown.statistics
        self._links: dict[WorkerKey, Link] = {}
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._marker: str | None = secrets.token_hex(8)

    def run(self, make_gang: Callable[[GangContext], Gang]) -> JobResult:
        began = self._clock.monotonic_ms()
        with ExitStack() as opened:
            disk = self._open_storage()
            store = self._lead(disk, opened)
            if self._leading is not None and store is None:
                return JobResult(self._id, self._job.name, duration_ms=self._clock.monotonic_ms() - began)
            explicit = self._kept_point(opened) if store is None else None
            plan = adopt_key_groups(self._job, explicit)
            if explicit is not None:
                self._id = check_claim(self._job.config, disk, explicit, self._disks) or self._id
            self._check_beginning(explicit)
            second = self._job.config.get(o.ALLOW_SECOND)
            take_places(self._id, self._job.name, plan, disk, opened, allow_second=second)
            service, permit = self._claimed(disk, store, opened)
            point = taken_over(self._job.config, service, explicit, self._disks)
            if store is not None and service is not None:
                explicitly = self._claimed_point(service, opened)
                point = where_to_begin(service, explicitly, self._disks, self._fell_back())
                plan = adopt_key_groups(self._job, point)
            self._named.id = self._id
            self._shown.open(opened)
            code = self._job.user_code or SAME_INTERPRETER
            background = BackgroundThread("headgate-checkpoints", code.call)
            opened.callback(self._mailbox.drain)  # results of the last work in the background
            opened.callback(background.close)
            generation = 1 if permit is None else permit.generation
            server = self._serve(generation)
            opened.callback(server.close)
            worker = self._worker_spec(server.address, generation)
            ports = self._ports(background, make_gang(GangContext(worker, self._gang_exited, point)))
            marker = None if disk is None else self._marker
            self._master = job_master(
                self._id, self._job, plan, self._settings, ports, service, permit, point, marker
            )
            self._loop()
        return self._result(began)

    def _ports(self, background: BackgroundThread, gang: Gang) -> MasterPorts:
        return MasterPorts(
            clock=self._clock,
            background=background,
            gang=gang,
            randomness=SystemRandomness(),
            probe=load_probe(self._job.config.get(o.PROBE)),
            post=self._mailbox.post,
            listener=self._statistics,
            require_leadership=None if self._leading is None else self._leading.require,
            disks=self._disks,
            code=self._job.user_code or SAME_INTERPRETER,
            record_end=None if self._leading is None else self._leading.end,
        )

    def _loop(self) -> None:
        master = self._master
        note = self._statistics.note
        self._stop = StopAtSigterm(master, self._job.config, self._clock, note)
        control = JobControl(master, self._mailbox.post, self._clock.now_ms(), self._stop.begin)
        live = LiveState(master.query, self._mailbox.post)
        storage = self._settings.storage
        disk = None if storage is None else self._disks(storage)
        self._shown.begin(master, control, live, self._mailbox.post, disk)
        if self._job.begins is not None:
            self._job.begins(control)
        if self._leading is not None:
            self._leading.on_lost(lambda error: self._mailbox.post(lambda: master.fenced(error)))
            self._leading.on_doubt(lambda text: self._mailbox.post(lambda: note(text)))
        self._submitted = master
        self._process.call(master.submit)
        try:
            self._turns()
        except KeyboardInterrupt as error:
            if self._stopped_with_savepoint(error):
                raise
            master.cancel(handed_over=isinstance(error, TerminatedError))
            deadline = clock.monotonic() + CANCEL_GRACE_S
            while not master.state.terminal and clock.monotonic() < deadline:
                self._turn(200)
            raise
        finally:
            control.close()
            self._shown.close(master.state.value)

    def _turns(self) -> None:
        with self._interrupts.remembered():
            while not self._master.state.terminal:
                self._turn(1000)
                self._interrupts.raise_again()

    def _stopped_with_savepoint(self, error: KeyboardInterrupt) -> bool:
        # A second signal while it stops cancels the job.
        if not isinstance(error, TerminatedError) or not self._stop.concerns(error):
            return False
        self._interrupts.forget()
        with suppress(KeyboardInterrupt):
            self._stop.begin()
            self._turns()
        error.savepoint = self._master.savepoint
        return self._master.state.terminal

    def _has_ended(self, error: BaseException | None) -> bool:
        # By itself or on its user's request, so that the next run begins anew.
        master = self._submitted
        if master is not None and (master.goes_on or master.state.terminal):
            return not master.goes_on
        return isinstance(error, KeyboardInterrupt) and not isinstance(error, TerminatedError)

    def _turn(self, wait_max_ms: float) -> None:
        # Enumerators are user code.
        self._process.call(self._mailbox.drain)
        self._process.call(self._master.tick)
        self._stop.tick()
        if self._keeping is not None and self._master.checkpoints.has_own:
            self._keeping.end()
            self._keeping = None
        if self._master.state.terminal:
            return
        due = self._master.next_wakeup()
        wait = wait_max_ms if due is None else max(0, min(wait_max_ms, due - self._clock.monotonic_ms()))
        self._mailbox.wait(min(wait, TURN_MS) if self._stop.under_way else wait)

    def _result(self, began: int) -> JobResult:
        master = self._master
        if master.error is not None:
            raise master.error
        if master.state is not JobState.FINISHED:
            raise JobCancelledError(f"job {self._job.name!r} was {master.state.value}")
        seen = self._statistics
        return JobResult(
            job_id=self._id,
            name=self._job.name,
            restarts=master.restarts,
            checkpoints=seen.checkpoints,
            records_in=seen.records_in(master.restored_totals),
            records_out=seen.records_out(master.restored_totals),
            skipped=self._shown.metrics.skipped(),
            duration_ms=self._clock.monotonic_ms() - began,
            savepoint=master.savepoint,
        )

    # -- what must be in place first -------------------------------------------------------------

    def _restore_point(self) -> RestorePoint | None:
        if self._job.restore_from is None:
            return None
        # All of it is read before anything starts: no subtask may run on a part of it.
        fell_back, disks = self._fell_back(), self._disks
        disk, checkpoint = open_checkpoint(self._job.restore_from, fell_back, whole=True, disks=disks)
        return RestorePoint(checkpoint, disk.describe())

    def _kept_point(self, opened: ExitStack) -> RestorePoint | None:
        # A checkpoint of another job stays until this one has one of its own.
        point = self._restore_point()
        refuse_in_use(self._job.config, point, self._id, self._disks)
        while point is not None and keeps(self._job.config, point, self._id):
            self._keeping = Keeping(self._disks(point.storage or ""), point.checkpoint)
            opened.callback(self._keeping.close)
            self._keeping.begin()
            # What was read before may have been deleted since.
            point = self._restore_point()
            if point is None or point.checkpoint.checkpoint == self._keeping.checkpoint:
                return point
            self._keeping.end()
        return point

    def _fell_back(self) -> Callable[[str], None] | None:
        return self._statistics.note if self._settings.fallback_to_older else None

    def _claimed_point(
        self, service: CheckpointService, opened: ExitStack
    ) -> Callable[[], RestorePoint | None]:
        def claimed() -> RestorePoint | None:
            point = self._kept_point(opened)
            self._check_beginning(point)
            return taken_over(self._job.config, service, point, self._disks)

        return claimed

    def _check_beginning(self, point: RestorePoint | None) -> None:
        if point is not None:
            plan = adopt_key_groups(self._job, point)
            for check in checks(self._job.config, self._id, plan, point.checkpoint):
                check()

    def _lead(self, disk: Disk | None, opened: ExitStack) -> CompletedCheckpointStore | None:
        # Waits until this driver leads the job, and returns the log of its checkpoints; None without high
        # availability, and if the leader before has brought the job to its end.
        leading = open_leadership(self._job.config, self._job.name, disk, self._clock)
        if leading is None:
            return None
        self._leading = leading

        def leave(
            _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
        ) -> None:
            ended = self._has_ended(error)
            if isinstance(error, TerminatedError):
                error.goes_on = not ended
            leading.close(ended=ended)

        # Left last of all: what is committed until then is committed by the leader.
        opened.push(leave)
        led = leading.wait(self._statistics.note, self._job.given_up)
        if led is None:
            self._statistics.note(
                f"the driver that led job {self._job.name!r} has brought it to its end; nothing is left to do"
            )
            self._statistics.ended(JobState.FINISHED.value)
            return None
        self._id = led.job
        return led.store

    def _claimed(
        self, disk: Disk | None, store: CompletedCheckpointStore | None, opened: ExitStack
    ) -> tuple[CheckpointService | None, CommitPermit | None]:
        if self._leading is None:
            return self._claim(disk, store, opened)
        # A driver that leads goes on trying while its storage has no room.
        note, given_up = self._statistics.note, self._job.given_up
        return self._leading.patiently(lambda: self._claim(disk, store, opened), note, given_up)

    def _claim(
        self, disk: Disk | None, store: CompletedCheckpointStore | None, opened: ExitStack
    ) -> tuple[CheckpointService | None, CommitPermit | None]:
        if disk is None:
            return None, None
        probe = load_probe(self._job.config.get(o.PROBE))
        service = CheckpointService(disk, self._id, probe, store, self._disks, self._clock)
        permit = service.claim()
        if self._marker is not None:
            if self._leading is not None:
                # After the claim: drivers whose markers are still there are dead, or may as well be.
                self._marker = reachability.take_over_markers(disk, self._id, self._marker)
            reachability.write_marker(disk, self._marker)
            opened.callback(reachability.delete_marker, disk, self._marker)
        return service, permit

    def _open_storage(self) -> Disk | None:
        uri = self._settings.storage
        if uri is None:
            return None
        disk = self._disks(uri)
        # Workers may have another working directory: they get the absolute path.
        self._settings = dataclasses.replace(self._settings, storage=disk.describe())
        reachability.probe(disk)
        if isinstance(disk, OfThisProcess) or self._marker is None:
            # Workers cannot reach it: their state comes in their acknowledgements.
            self._settings = dataclasses.replace(self._settings, storage=None)
            self._marker = None
        return disk

    def _serve(self, generation: int) -> ControlServer:
        hello = Hello(job=self._id, generation=generation, attempt=0, slot=0, gang=0, purpose="control")
        post, links = self._mailbox.post, self._links

        def connected(worker: WorkerKey, _: Hello, link: Link) -> None:
            post(lambda: links.__setitem__(worker, link))

        def received(worker: WorkerKey, message: m.FromWorker) -> None:
            post(lambda: self._master.message(links[worker], message))

        def lost(worker: WorkerKey, reason: str) -> None:
            post(lambda: self._master.link_lost(links[worker], reason))

        host = self._job.config.get(o.BIND_HOST)
        return ControlServer(self._secret, host, hello, received, connected, lost)

    def _worker_spec(self, address: str, generation: int) -> WorkerSpec:
        settings: JobSettings = self._settings
        logs, shows = logs_of_workers(self._job.name, self._job.config), where_prints_show()
        return WorkerSpec(
            control_address=address,
            secret=self._secret,
            job=self._id,
            generation=generation,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            lease_ms=settings.lease_ms,
            bind_host=self._job.config.get(o.BIND_HOST),
            frame_size_max=settings.worker.frame_size_max,
            sys_path=tuple(path for path in framework_path() if path),
            dies_with_parent=self._dies_with_parent,
            logs=logs,
            probe=self._job.config.get(o.PROBE),
            storage=self._storage_settings,
            sends_prints=shows is Prints.CELL or (shows is Prints.TERMINAL and not logs.all_json),
        )

    def _gang_exited(self, gang: int, error: str | None) -> None:
        self._mailbox.post(lambda: self._master.gang_exited(gang, error))


def job_master(
    job: JobId,
    spec: JobSpec,
    plan: PhysicalPlan,
    settings: JobSettings,
    ports: MasterPorts,
    service: CheckpointService | None,
    permit: CommitPermit | None,
    point: RestorePoint | None,
    marker: str | None,
) -> JobMaster:
    """Create the job master of one run of `spec`, by `plan`; it does nothing before `submit()`.
    `service`: log of checkpoints, `permit`: right to write it (both None: off); `point`: snapshot to restore,
    None: no state; `marker`: token of a file in the storage that workers must see, None: they need not.
    """
    program = Program(job, plan, settings.worker, spec.record_types)
    replan = replanner(job, spec, plan, settings.worker, ports.code)
    return JobMaster(job, spec.name, plan, program, settings, ports, service, permit, point, marker, replan)


def adopt_key_groups(job: JobSpec, point: RestorePoint | None) -> PhysicalPlan:
    """Return the job's plan, with the number of key groups of snapshot `point` unless the job sets max
    parallelism; `point` None: the plan as it is. UsageError: the plan cannot take over the snapshot's state.
    """
    if point is None:
        return job.plan
    plan = with_stored_groups(job.plan, job.config, point.checkpoint)
    ignore = job.config.get(o.IGNORE_UNCLAIMED_STATE)
    check_compatible(plan, point.checkpoint, ignore_unclaimed=ignore)
    return plan
