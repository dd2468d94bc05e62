"""Simulated workers, and the gang of worker processes in memory that starts them one by one and kills them.

A worker is the production class `Worker` in a shell that does what `runtime.worker.worker_process` does with
threads and sockets.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from headgate.common.ids import JobId
from headgate.core.liveness import Lease
from headgate.runtime.master.job_master import JobMaster
from headgate.runtime.protocol import messages as m
from headgate.runtime.worker.worker import Worker, WorkerState
from headgate.runtime.worker.worker_ports import WorkerPorts
from headgate.testing.simulation.links import ControlMessage, make_link
from headgate.testing.simulation.simulated_event_loops import SimEventLoop
from headgate.testing.simulation.simulated_processes import Process, ProcessKilled, Scene, SimThread


class GangOwner(Process):
    """A simulated driver as its gangs and workers see it."""

    prefix: str  # tells its workers from those of other drivers, in the trace
    job_id: str  # of the execution that it runs

    @abstractmethod
    def attach(self, worker: WorkerProcess) -> None:
        """Connect a worker that has just started with this driver's job master, by its `master_link`."""

    @abstractmethod
    def worker_ended(self, worker: WorkerProcess, error: str | None) -> None:
        """Report that a worker process has exited; `error` says why, None if it had finished its work."""

    @abstractmethod
    def with_master(self, act: Callable[[JobMaster], None]) -> None:
        """Have the driver's main loop call `act` with the job master, unless the driver exits before."""


def _recorder(scene: Scene, where: str) -> Callable[[ControlMessage], None]:
    return lambda message: scene.checkpoint_traces.message(scene.now(), where, message)


class WorkerProcess(Process):
    """A simulated worker process in `slot` of gang number `gang`; registers with its job master at once."""

    def __init__(self, scene: Scene, driver: GangOwner, gang: int, slot: int) -> None:
        super().__init__(scene, f"worker {driver.prefix}{gang}.{slot}")
        self.driver, self.gang, self.slot = driver, gang, slot
        self.beat_name = f"{self.name} heartbeat"
        self.data = scene.network.plane(slot, self._input)
        self.link, self.master_link = make_link(
            self.name,
            scene.now,
            scene.latency,
            lambda: self.alive and self.paused,
            lambda: driver.alive and driver.paused,
        )
        for wire, where in ((self.link.out, driver.name), (self.link.back, self.name)):
            wire.tamper = scene.faults.tampers(wire)
            wire.delivered = _recorder(scene, where)
        self.link.back.on_message, self.link.back.on_lost = self._received, self._link_lost
        ports = WorkerPorts(
            self.clock,
            self.background,
            self.data,
            self.link,
            self.disk,
            self,
            self.post,
            lambda name: SimThread(self, name),
            event_loop=lambda name, _code, _post, ended: SimEventLoop(self, name, ended),
        )
        self.worker = Worker(JobId(driver.job_id), slot, ports)
        settings = scene.settings
        self._interval_ms = settings.heartbeat_interval_ms
        self.lease = Lease(settings.lease_ms, scene.now())
        self.beat_at = scene.now() + self._interval_ms
        self._alarm: int | None = None
        self._dirty_since = scene.now()
        self.link.send(m.Register(gang, slot, 1000 + slot, "simulated", self.data.address))

    @property
    def unheard(self) -> bool:
        """Whether a message between this worker and its job master is still on its way; not data."""
        return bool(len(self.link.out) or len(self.link.back))

    def since(self, now: int) -> int | None:
        if not self.runs:
            return None
        if self.posted:
            return self.posted_since
        if self._dirty_since >= 0:
            return self._dirty_since
        return self._alarm if self._alarm is not None and self._alarm <= now else None

    def next_time(self) -> int | None:
        return self._alarm if self.runs and self._dirty_since < 0 else None

    def act(self) -> str:
        now = self.scene.now()
        try:
            with self.scene.acting(self):
                self.drain()
                worked = self.worker.step()
        except ProcessKilled:
            return "killed on the way"
        self._dirty_since = now if worked else -1
        self._alarm = None if worked else self.worker.next_wakeup()
        if self._alarm is not None:
            self._alarm = max(self._alarm, now + 1)
        if self.worker.state is WorkerState.FINISHED:
            self.end("finished", None)
        return "worked" if worked else "idle"

    def _input(self) -> None:
        self._dirty_since = self.scene.now() if self._dirty_since < 0 else self._dirty_since

    def _received(self, message: m.ToWorker) -> None:
        if isinstance(message, m.HeartbeatSeen):
            self.lease.renewed(message.sent_ms)
            self.worker.traces.wanted(*message.tracing)
            if message.event_times is None:
                return
        self.post(lambda: self.worker.handle(message))

    def _link_lost(self, reason: str) -> None:
        if self.alive:
            self.end(f"fenced: link {reason}", f"slot {self.slot}: the connection to the job master ended")

    def beat(self) -> str:
        """Send a heartbeat to the job master, or exit if the lease, which the job master's answers renew, has
        run out; return a word for the trace. To be called at `beat_at` (virtual ms).
        """
        now = self.scene.now()
        self.beat_at = now + self._interval_ms
        if self.lease.expired(now):
            self.end("fenced: lease ran out", f"slot {self.slot}: the job master was silent")
            return "lease ran out"
        worker = self.worker
        totals, times = (worker.attempt, now, worker.progress, worker.counters()), worker.event_times()
        if visits := worker.traces.take():
            self.link.send(m.Traced(worker.attempt, visits))
        self.link.send(m.Heartbeat(*totals, event_times=times))
        return "sent"

    def end(self, why: str, error: str | None, how: str = "ends") -> None:
        """Exit this process, if it is alive: its connections break, and its gang hears of `error` (None: it
        had finished its work). `how` and `why` are words for the trace.
        """
        if self.alive:
            self.scene.note(f"{self.name} {how}: {why}")
            self.alive = False
            self.background.forget()
            self.data.die()
            self.link.die()
            self.driver.worker_ended(self, error)

    def kill(self, why: str) -> None:
        self.end(why, f"slot {self.slot}: killed", "is killed")


class SimGang:
    """Gangs of simulated workers of one driver, each ended as a whole as in a barrier stage, after random
    delays; implements `common.ports.Gang`. A cancelled gang's paused worker may survive, as a zombie.
    """

    def __init__(self, scene: Scene, driver: GangOwner) -> None:
        self._scene, self._driver = scene, driver
        self._workers: list[WorkerProcess] = []
        self._expected: dict[int, int] = {}
        self._started: dict[int, int] = {}
        self._cancelled: set[int] = set()
        self._errors: dict[int, str] = {}

    def submit(self, gang: int, slots: int) -> None:
        scene = self._scene
        self._expected[gang], self._started[gang] = slots, 0
        for slot in range(slots):
            name = f"start worker {self._driver.prefix}{gang}.{slot}"
            scene.line.after(scene.delay(20), name, self._starter(gang, slot))

    def cancel(self, gang: int) -> None:
        if gang in self._cancelled:
            return
        self._cancelled.add(gang)
        self._errors.setdefault(gang, "cancelled")
        self._scene.line.after(self._scene.delay(10), f"cancel gang {gang}", lambda: self._end_all(gang))

    def worker_ended(self, worker: WorkerProcess, error: str | None) -> None:
        """Note a worker's exit. An `error` ends its gang's other workers within 30 ms; once no worker of the
        gang lives, the driver's job master is told that the gang has exited, and why (None: it had finished).
        """
        gang = worker.gang
        if error is not None and gang not in self._cancelled:
            self._errors.setdefault(gang, error)
            self._cancelled.add(gang)
            if self._driver.alive:
                delay = self._scene.delay(30)
                self._scene.line.after(delay, f"gang {gang} failed", lambda: self._end_all(gang))
        self._report_if_exited(gang)

    def living(self, gang: int | None = None) -> list[WorkerProcess]:
        return [w for w in self._workers if w.alive and (gang is None or w.gang == gang)]

    def _starter(self, gang: int, slot: int) -> Callable[[], None]:
        def start() -> None:
            if not self._driver.alive:
                return
            if gang in self._cancelled:
                self._expected[gang] -= 1
                self._report_if_exited(gang)
                return
            self._started[gang] += 1
            worker = WorkerProcess(self._scene, self._driver, gang, slot)
            self._workers.append(worker)
            self._driver.attach(worker)

        return start

    def _end_all(self, gang: int) -> None:
        for worker in self.living(gang):
            # A paused worker on a machine out of reach survives, and will wake up as a zombie.
            if not (worker.paused and self._scene.rng.random() < 0.5):
                worker.kill("the gang is cancelled")
        self._report_if_exited(gang)

    def _report_if_exited(self, gang: int) -> None:
        if self._started[gang] < self._expected[gang] or self.living(gang):
            return
        self._expected[gang] = 1 << 30
        error = self._errors.get(gang)
        scene, driver = self._scene, self._driver
        if driver.alive:
            scene.line.after(
                scene.delay(20),
                f"gang {gang} is gone ({error})",
                lambda: driver.with_master(lambda master: master.gang_exited(gang, error)),
            )
