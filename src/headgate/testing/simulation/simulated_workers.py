"""Workers of a simulation: the production class `Worker` with its link, its loop and its heartbeat.

The shell does what `runtime.worker.worker_process` does with threads and sockets.
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
from headgate.testing.simulation.simulated_processes import Process, ProcessKilled, Scene, SimThread


class GangOwner(Process):
    """A driver as its gangs and workers know it.

    Attributes:
        prefix: tells its workers from those of other drivers, in the story.
        job_id: of the execution that it runs.
    """

    prefix: str
    job_id: str

    @abstractmethod
    def attach(self, worker: WorkerProcess) -> None:
        """Connect the link of a worker that has just started to the job master."""

    @abstractmethod
    def worker_ended(self, worker: WorkerProcess, error: str | None) -> None:
        """A worker has exited; `error` says why unless it finished."""

    @abstractmethod
    def tell(self, what: Callable[[JobMaster], None]) -> None:
        """Call `what` with the job master, in the driver's loop."""


def _chronicler(scene: Scene, where: str) -> Callable[[ControlMessage], None]:
    return lambda message: scene.chronicle.message(scene.now(), where, message)


class WorkerProcess(Process):
    """A worker, its link and its heartbeat.

    Args:
        driver: its job master gives the orders.
        gang: number among the gangs of that driver.
    """

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
            wire.tamper = scene.tampers(wire)
            wire.delivered = _chronicler(scene, where)
        self.link.back.on_message, self.link.back.on_lost = self._received, self._link_lost
        ports = WorkerPorts(
            self.clock,
            self.background,
            self.data,
            self.link,
            self.disk,
            scene.probe(self),
            self.post,
            lambda name: SimThread(self, name),
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
        """Whether something that it said, or that was said to it, has not arrived."""
        return bool(len(self.link.out) or len(self.link.back))

    # -- the main loop

    def since(self, now: int) -> int | None:
        """Since when the loop has something to do."""
        if not self.runs:
            return None
        if self.posted:
            return self.posted_since
        if self._dirty_since >= 0:
            return self._dirty_since
        return self._alarm if self._alarm is not None and self._alarm <= now else None

    def next_time(self) -> int | None:
        """Until when the loop sleeps."""
        return self._alarm if self.runs and self._dirty_since < 0 else None

    def act(self) -> str:
        """One turn, as in `runtime.worker_process`."""
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
        else:
            self.post(lambda: self.worker.handle(message))

    def _link_lost(self, reason: str) -> None:
        if self.alive:
            self.end(f"fenced: link {reason}", f"slot {self.slot}: the connection to the job master ended")

    # -- the heartbeat

    def beat(self) -> str:
        """The side thread's turn."""
        now = self.scene.now()
        self.beat_at = now + self._interval_ms
        if self.lease.expired(now):
            self.end("fenced: lease ran out", f"slot {self.slot}: the job master was silent")
            return "lease ran out"
        worker = self.worker
        self.link.send(m.Heartbeat(worker.attempt, now, worker.progress, list(worker.counters())))
        return "sent"

    # -- the end

    def end(self, why: str, error: str | None) -> None:
        """The process leaves by itself."""
        if self.alive:
            self.scene.note(f"{self.name} ends: {why}")
            self._gone()
            self.driver.worker_ended(self, error)

    def kill(self, why: str) -> None:
        """SIGKILL."""
        if self.alive:
            self.scene.note(f"{self.name} is killed: {why}")
            self._gone()
            self.driver.worker_ended(self, f"slot {self.slot}: killed")

    def _gone(self) -> None:
        self.alive = False
        self.background.forget()
        self.data.die()
        self.link.die()
