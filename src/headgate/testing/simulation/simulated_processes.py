"""Processes of a simulation: a main loop, a background thread, and for workers the heartbeat.

The shells here do what `runtime.worker_process` and `runtime.driver` do with threads and sockets;
`Worker` and `JobMaster` inside are the production classes.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headgate.common.ids import JobId
from headgate.common.process.interruptions import PastAllHandlers
from headgate.core.liveness import Lease
from headgate.runtime.protocol import messages as m
from headgate.runtime.worker.worker import Worker, WorkerState
from headgate.runtime.worker.worker_ports import WorkerPorts
from headgate.testing.simulation.links import make_link
from headgate.testing.simulation.virtual_disk import URI, SimDisk

if TYPE_CHECKING:
    from headgate.testing.simulation.drivers import DriverProcess
    from headgate.testing.simulation.world import World

T = TypeVar("T")

WORK_MS: Final = (0, 1, 5, 40)
"""How long user code on a thread of its own may take."""
PAUSE_LOOK_MS: Final = 5
"""How often it is looked whether a paused process runs again."""

Work = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class ProcessKilled(PastAllHandlers):
    """Unwinds the code of a process that was killed; nothing of the product may catch it."""


class Process:
    """What all processes share.

    Attributes:
        name: for the story.
        alive: until killed or ended.
        paused: whether it stands still, as after SIGSTOP.
        held: whether only its background work stands still, as on a hanging disk.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.alive, self.paused, self.held = True, False, False
        self.clock = world.new_clock()
        self.background = SimBackground(self)
        self.posted: deque[Callable[[], None]] = deque()
        self.posted_since = 0
        self.step: int | None = None

    @property
    def runs(self) -> bool:
        """Whether it does anything at present."""
        return self.alive and not self.paused

    def post(self, callback: Callable[[], None]) -> None:
        """Hand a callback to the main loop."""
        if not self.posted:
            self.posted_since = self.world.now()
        self.posted.append(callback)

    def drain(self) -> None:
        """Call what was posted."""
        while self.posted:
            self.posted.popleft()()

    def disk(self, uri: str = URI) -> SimDisk:
        """This process's way to the shared files below a URI.

        Raises:
            StorageError: there is nothing below it in a simulation.
        """
        world = self.world
        return SimDisk.at(
            uri,
            world.files,
            lambda operation, name: world.disk_gate(self, operation, name),
            lambda operation, name: world.disk_done(self, operation, name),
        )

    @property
    def mid_operation(self) -> bool:
        """Whether its background work is under way: others may act between its steps."""
        return self.background.busy

    def must_live(self) -> None:
        """The code of a process that was killed meanwhile must not go on.

        Raises:
            ProcessKilled: it was killed.
        """
        if not self.alive:
            raise ProcessKilled(self.name)


class SimBackground:
    """One thread beside a loop; implements `common.ports.Background`."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.name = f"{process.name} background"
        self.busy = False
        self._jobs: deque[tuple[int, Work]] = deque()

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """See `common.ports.Background`."""
        self._jobs.append((self.process.world.now(), (work, done)))

    def since(self, now: int) -> int | None:
        """Since when there is something to do."""
        if not self._jobs or self.busy or self.process.held or not self.process.runs:
            return None
        return self._jobs[0][0]

    def act(self) -> str:
        """Run one job; others may act meanwhile, wherever it touches the disk."""
        _, (work, done) = self._jobs.popleft()
        self.busy = True
        result, failure = None, None
        with self.process.world.acting(self.process):
            try:
                try:
                    result = work()
                    self.process.must_live()
                except Exception as error:
                    failure = error
                done(result, failure)
            except ProcessKilled:
                return "killed on the way"
            finally:
                self.busy = False
        return "done" if failure is None else f"raised {type(failure).__name__}"

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done and nothing under way."""
        return not self._jobs and not self.busy

    def forget(self) -> None:
        """The process was killed: nothing more is begun."""
        self._jobs.clear()


class SimThread:
    """A thread of one subtask; implements `SubtaskThread`.

    Its work happens at once or at the end of a while in which the others act: what two threads must
    not touch shows in either case.
    """

    def __init__(self, process: Process, name: str) -> None:
        self._process, self._name = process, f"{process.name} {name}"
        self._rng = random.Random(f"{process.world.seed} {self._name}")
        self._jobs: deque[Work] = deque()
        self._busy = False

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """See `common.ports.Background`."""
        self._jobs.append((work, done))
        if not self._busy:
            self._begin()

    def call(self, work: Callable[[], T]) -> T:
        """See `SubtaskThread`."""
        assert not self._busy, f"{self._name} is called while it works"
        return work()

    def leave(self) -> None:
        """See `SubtaskThread`."""

    def join(self) -> None:
        """See `SubtaskThread`."""

    def _begin(self) -> None:
        work, done = self._jobs.popleft()
        self._busy = True
        outcome = _attempted(work) if self._rng.random() < 0.5 else None
        self._end_after(self._rng.choice(WORK_MS), work, done, outcome)

    def _end_after(
        self,
        span_ms: int,
        work: Callable[[], Any],
        done: Callable[[Any, BaseException | None], None],
        outcome: tuple[Any, BaseException | None] | None,
    ) -> None:
        def end() -> None:
            if not self._process.alive:
                return
            if self._process.paused:
                self._end_after(PAUSE_LOOK_MS, work, done, outcome)
                return
            try:
                done(*(outcome or _attempted(work)))
                self._busy = False
                if self._jobs:
                    self._begin()
            except ProcessKilled:
                pass  # with everything else of the process

        self._process.world.line.after(span_ms, self._name, end)


def _attempted(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return work(), None
    except Exception as error:
        return None, error


def _chronicler(world: World, where: str) -> Callable[[Any], None]:
    return lambda message: world.chronicle.message(world.now(), where, message)


class WorkerProcess(Process):
    """A worker, its link and its heartbeat.

    Args:
        world: the simulation.
        driver: whose job master it obeys.
        gang: the gang's number, of this driver.
        slot: the slot's number.
    """

    def __init__(self, world: World, driver: DriverProcess, gang: int, slot: int) -> None:
        super().__init__(world, f"worker {driver.prefix}{gang}.{slot}")
        self.driver, self.gang, self.slot = driver, gang, slot
        self.beat_name = f"{self.name} heartbeat"
        self.data = world.network.plane(slot, self._input)
        self.link, self.master_link = make_link(
            self.name,
            world.now,
            world.latency,
            lambda: self.alive and self.paused,
            lambda: driver.alive and driver.paused,
        )
        for wire, where in ((self.link.out, driver.name), (self.link.back, self.name)):
            wire.tamper = world.faults.tampers(wire)
            wire.delivered = _chronicler(world, where)
        self.link.back.on_message, self.link.back.on_lost = self._received, self._link_lost
        ports = WorkerPorts(
            self.clock,
            self.background,
            self.data,
            self.link,
            self.disk,
            world.probe(self),
            self.post,
            lambda name: SimThread(self, name),
        )
        self.worker = Worker(JobId(driver.job_id), slot, ports)
        settings = world.settings
        self._interval_ms = settings.heartbeat_interval_ms
        self.lease = Lease(settings.lease_ms, world.now())
        self.beat_at = world.now() + self._interval_ms
        self._alarm: int | None = None
        self._dirty_since = world.now()
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
        now = self.world.now()
        try:
            with self.world.acting(self):
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
        self._dirty_since = self.world.now() if self._dirty_since < 0 else self._dirty_since

    def _received(self, message: Any) -> None:
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
        now = self.world.now()
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
            self.world.note(f"{self.name} ends: {why}")
            self._gone()
            self.driver.gang.process_ended(self, error)

    def kill(self, why: str) -> None:
        """SIGKILL."""
        if self.alive:
            self.world.note(f"{self.name} is killed: {why}")
            self._gone()
            self.driver.gang.process_ended(self, f"slot {self.slot}: killed")

    def _gone(self) -> None:
        self.alive = False
        self.background.forget()
        self.data.die()
        self.link.die()
