"""Drivers of a simulation: started, elected, killed, replaced. The job master inside is the production class.

`DriverProcess` does what `runtime.driver` does around a job master with threads and signals. Several may
exist at once: one that was thought dead, and those that took over or stand by.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from typing_extensions import override

from headgate.checkpoint.layout import log_folder
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage import reachability
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.checkpoint.store.store_contract import CompletedCheckpointStore
from headgate.common.errors import FencedError, HeadgateError, StorageError
from headgate.common.ids import JobId
from headgate.ha.files.file_election import FileElection
from headgate.ha.high_availability import where_to_begin
from headgate.ha.leading import LedStore
from headgate.runtime.driver.driver import adopt_key_groups, job_master
from headgate.runtime.driver.job_control import JobControl
from headgate.runtime.job.job_settings import JobSettings
from headgate.runtime.job.listener import JobListener
from headgate.runtime.job.master_ports import MasterPorts
from headgate.runtime.master.job_master import JobMaster
from headgate.runtime.protocol import messages as m
from headgate.testing.simulation.clock import Action, SimRandom
from headgate.testing.simulation.links import ControlMessage, SimLink
from headgate.testing.simulation.simulated_jobs import Submission
from headgate.testing.simulation.simulated_leadership import SimLeadership
from headgate.testing.simulation.simulated_processes import ProcessKilled, Scene
from headgate.testing.simulation.simulated_workers import GangOwner, SimGang, WorkerProcess

ELECTION: Final = ".headgate-leaders/simulated"
LEADER_LEASE_MS: Final = 120
"""Lease of the simulated leader election (ms): so long a leader that stands still blocks others."""


class DriverStarter(Protocol):
    """Starts simulated drivers, and decides whether another one is needed when one has exited."""

    def start(self) -> DriverProcess:
        """Start one more driver process, beside any that live, for the job's current execution; return it."""

    def job_id(self, run: int) -> str:
        """Return the job id of an execution; `run` is the number of the job's executions before it."""

    def did_not_start(self, driver: DriverProcess, error: Exception) -> None:
        """Report that `driver` failed with `error` before its job ran; it is about to exit. Violation for a
        UsageError, or if no fault was injected and no other driver was ever started.
        """

    def driver_exited(self, driver: DriverProcess, how: str) -> None:
        """Report that a driver has exited; plan another one, or the job's next execution, if one is needed.
        `how`: "killed", "over" (the job's end was on record), "did not start", "superseded", or a job state.
        """


class DriverObserver(Protocol):
    """Gives each simulated driver's job master a checking listener, and checks files before a kill."""

    def listener(self, scene: JobScene, driver: DriverProcess) -> JobListener:
        """Return a new listener for `driver`'s job master; it raises Violation for a broken invariant."""

    def killed(self, driver: DriverProcess) -> None:
        """Check all stored files before a driver is killed; Violation if one is absent or damaged."""


class JobScene(Scene):
    """Shared state of one simulated job: all its drivers and workers, and the faults injected so far."""

    supervisor: DriverStarter
    checks: DriverObserver

    def __init__(self, seed: int, settings: JobSettings, story_max: int | None) -> None:
        super().__init__(seed, settings, story_max)
        self.workers: list[WorkerProcess] = []  # of all gangs, but for those that were forgotten
        self.drivers: list[DriverProcess] = []  # all that were ever started
        self.finished: DriverProcess | None = None  # it brought the job to its end, or failed for good
        self.faults_done: list[str] = []  # in order

    @property
    def driver(self) -> DriverProcess:
        """The driver whose code runs now; else the one that ended the job, or the newest one."""
        if isinstance(self.at_work, DriverProcess):
            return self.at_work
        return self.finished or self.drivers[-1]

    @property
    def master(self) -> JobMaster:
        """The job master of the driver in :attr:`driver`; AssertionError before that driver has made one."""
        master = self.driver.master
        assert master is not None, f"{self.driver.name} has no job master yet"
        return master

    @property
    def done(self) -> bool:
        return self.finished is not None

    def living(self) -> list[WorkerProcess]:
        return [worker for worker in self.workers if worker.alive]

    def living_drivers(self) -> list[DriverProcess]:
        return [driver for driver in self.drivers if driver.alive]

    def add_worker(self, worker: WorkerProcess) -> None:
        self.workers = [known for known in self.workers if known.alive or known.unheard]
        self.workers.append(worker)
        self.network.sweep()

    def fault(self, what: str) -> None:
        self.faults_done.append(f"{self.now()} ms: {what}")
        self.note(f"FAULT {what}")

    @abstractmethod
    def triggered(self, driver: DriverProcess, checkpoint: int) -> None:
        """Record that `driver` sends a worker the trigger of checkpoint id `checkpoint`."""


class DriverProcess(GangOwner):
    """The simulated driver process `number` (from 1): election if it `elects`, then job master and loop."""

    scene: JobScene

    def __init__(self, scene: JobScene, number: int, submission: Submission, elects: bool) -> None:
        super().__init__(scene, "master" if number == 1 else f"master {number}")
        self.number, self.submission, self.job_id = number, submission, submission.job_id
        self.prefix = "" if number == 1 else f"{number}/"
        self.gang = SimGang(scene, self)
        self.chance = SimRandom(random.Random(f"{scene.seed} chance {number}"))
        self.master: JobMaster | None = None
        self.control: JobControl | None = None
        self.generation = 0  # of its claim; 0 before
        self.asked: dict[int, str] = {}  # requests of users to the job, by number
        self.looked = False  # whether it has taken part in the election
        self._next: Action = partial(self._uninterrupted, self._campaign if elects else self._boot)
        self._within = self._proving = False
        self._wake_at: int | None = scene.now()
        self._prove_at = 0
        # Unlike that of any other driver, also where a job begins on the disk that another one left.
        self._marker = f"marker{number}of" + "".join(filter(str.isalnum, submission.job_id))
        self._links: list[SimLink[m.ToWorker, m.FromWorker]] = []
        self.leadership: SimLeadership | None = None
        if elects:
            election = FileElection(
                self.disk(), ELECTION, self.clock, LEADER_LEASE_MS, self.chance.token, f"driver {number}"
            )
            self.leadership = SimLeadership(submission.spec.name, election, self.clock)
            self.leadership.on_lost(self._lost_leadership)

    @property
    def runs_job(self) -> bool:
        return self.alive and self.master is not None and not self.master.state.terminal

    @property
    @override
    def mid_operation(self) -> bool:
        return self.background.busy or self._within or self._proving

    def actions(self, now: int) -> Iterator[tuple[str, int | None, Action]]:
        """Yield (name for the trace, since, action) per thread that may act; nothing while paused or exited.
        `since` is the virtual time (ms) from which the thread has had work, None if it has none at `now`.
        """
        if not self.runs:
            return
        if not self._within:
            yield self.name, self._since(now), self.act
        yield self.background.name, self.background.since(now), self.background.act
        leadership = self.leadership
        if leadership is None or self._proving:
            return
        if leadership.leads and not self.held:
            due = self._prove_at if self._prove_at <= now else None
            yield f"{self.name} leadership", due, self._prove
        deadline = leadership.deadline_ms
        if leadership.unreported_loss or (deadline is not None and deadline <= now):
            yield f"{self.name} lease", now, leadership.watch

    def next_times(self) -> list[int | None]:
        """Return when (virtual ms) each thread wakes up, None: not by itself; [] if paused or exited."""
        if not self.runs:
            return []
        if self.leadership is None:
            return [self._wake_at]
        return [self._wake_at, self._prove_at, self.leadership.deadline_ms]

    def _since(self, now: int) -> int | None:
        if self.posted:
            return self.posted_since
        return self._wake_at if self._wake_at is not None and self._wake_at <= now else None

    def act(self) -> str | None:
        with self.scene.acting(self):
            try:
                return self._next()
            except ProcessKilled:
                return "killed on the way"

    @override
    def with_master(self, act: Callable[[JobMaster], None]) -> None:
        self.post(lambda: act(self._demand()))

    @override
    def attach(self, worker: WorkerProcess) -> None:
        self.scene.add_worker(worker)
        link = worker.master_link
        self._links.append(link)
        link.sent = self._sent
        link.back.on_message = lambda message: self.with_master(lambda master: master.message(link, message))
        link.back.on_lost = lambda reason: self.with_master(lambda master: master.link_lost(link, reason))

    @override
    def worker_ended(self, worker: WorkerProcess, error: str | None) -> None:
        self.gang.worker_ended(worker, error)

    def _sent(self, message: ControlMessage) -> None:
        if isinstance(message, m.Trigger):
            self.scene.triggered(self, message.checkpoint)

    def kill(self, why: str, *, silently: bool) -> None:
        """Kill this driver as by SIGKILL, after a check of the stored files; ignored if it has exited. `why`
        is for the trace. If `silently`, its machine is lost, too: its workers notice only when their leases
        run out; otherwise they notice when the news that their links broke arrives.
        """
        if not self.alive:
            return
        self.scene.note(f"{self.name} is killed: {why}{' with its machine' if silently else ''}")
        self.scene.checks.killed(self)
        for link in self._links:
            (link.vanish if silently else link.die)()
        self._exited("killed")

    def _exited(self, how: str) -> None:
        self.alive = False
        self.posted.clear()
        self.background.forget()
        self.scene.supervisor.driver_exited(self, how)

    def _uninterrupted(self, what: Callable[[], str]) -> str:
        # Other processes may act meanwhile, but not this driver's main thread.
        self._within = True
        try:
            return what()
        finally:
            self._within = False

    def _campaign(self) -> str:
        leadership = self.leadership
        assert leadership is not None
        now = self.scene.now()
        self._wake_at = now + leadership.pause_ms
        try:
            seen = leadership.look()
            self.looked = True
        except StorageError as error:
            return f"cannot see the election: {error}"
        if seen.ended:
            self._exited("over")
            return "the job has ended"
        if leadership.leads:
            self.job_id = self.scene.supervisor.job_id(seen.run)
            self._next, self._wake_at = partial(self._uninterrupted, self._boot), now
            self._prove_at = now + leadership.pause_ms
            return f"leads run {seen.run}"
        return f"stands by: {seen.leader}"

    def _boot(self) -> str:
        try:
            self._make_master().submit()
        except (HeadgateError, OSError) as error:
            self.scene.supervisor.did_not_start(self, error)
            self._exited("did not start")
            return f"could not start: {error}"
        self._next, self._wake_at = self._turn, self.scene.now()
        return f"leads in generation {self.generation}"

    def _turn(self) -> str:
        master = self._demand()
        self.drain()
        master.tick()
        if master.state.terminal:
            assert self.control is not None
            self.control.close()
            self._next, self._wake_at = self._leave, self.scene.now()
        else:
            due = master.next_wakeup()
            # A wake-up time in the past keeps the loop busy, but must not keep time from passing.
            self._wake_at = None if due is None else max(due, self.scene.now() + 1)
        return master.state.value

    def _leave(self) -> str:
        self.drain()
        if not self.background.idle:
            self._wake_at = self.scene.now() + 1
            return "waits for its background work"
        self.drain()
        return self._uninterrupted(self._exit)

    def _exit(self) -> str:
        master = self._demand()
        with suppress(StorageError):
            reachability.delete_marker(self.disk(), self._marker)
        if self.leadership is not None:
            if not master.goes_on:  # a failure is no end of the job: the next driver goes on
                with suppress(StorageError, FencedError):  # then the next one finds nothing left to do
                    self.leadership.end()
            self.leadership.close()
        self._exited(master.state.value)
        return "exits"

    def _prove(self) -> str:
        assert self.leadership is not None
        self._prove_at = self.scene.now() + self.leadership.pause_ms
        self._proving = True
        try:
            with self.scene.acting(self):
                return self.leadership.prove()
        except ProcessKilled:
            return "killed on the way"
        finally:
            self._proving = False

    def _lost_leadership(self, error: FencedError) -> None:
        if self.master is not None:
            self.with_master(lambda master: master.fenced(error))
        else:
            self.post(lambda: self._exited("superseded"))

    def _make_master(self) -> JobMaster:
        scene, spec, settings = self.scene, self.submission.spec, self.scene.settings
        service, permit, marker, job = None, None, None, JobId(self.job_id)
        point = explicit = self.submission.point
        if settings.storage is not None:
            disk = self.disk()
            service = CheckpointService(disk, job, self, self._store(job))
            permit = service.claim()
            self.generation = permit.generation
            scene.note(f"{self.name} has claimed {self.job_id} as generation {self.generation}")
            if self.leadership is not None:
                self._marker = reachability.take_over_markers(disk, job, self._marker)
            marker = self._marker
            reachability.write_marker(disk, marker)
            point = where_to_begin(service, lambda: explicit, self.disk)
        plan = adopt_key_groups(spec, point)
        ports = MasterPorts(
            self.clock,
            self.background,
            self.gang,
            self.chance,
            self,
            self.post,
            scene.checks.listener(scene, self),
            self.disk,
            None if self.leadership is None else self.leadership.require,
            record_end=None if self.leadership is None else self.leadership.end,
        )
        self.master = job_master(job, spec, plan, settings, ports, service, permit, point, marker)
        self.control = JobControl(self.master, self.post, self.clock.now_ms())
        return self.master

    def _store(self, job: JobId) -> CompletedCheckpointStore:
        log = CompletedCheckpointLog(self.disk(), log_folder(job), self.chance.token)
        return log if self.leadership is None else LedStore(log, self.leadership)

    def _demand(self) -> JobMaster:
        assert self.master is not None
        return self.master
