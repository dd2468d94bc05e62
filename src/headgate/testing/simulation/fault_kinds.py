"""Faults of workers, disks and connections in a simulation: how each is injected and undone."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headgate.common.errors import OperatingError
from headgate.runtime.protocol import messages as m
from headgate.testing.simulation.drivers import DriverProcess, JobScene
from headgate.testing.simulation.links import ControlMessage, ControlWire, Tamper
from headgate.testing.simulation.simulated_processes import Process, ProcessKilled
from headgate.testing.simulation.simulated_workers import WorkerProcess
from headgate.testing.simulation.virtual_disk import Verdict

ARMED_MS: Final = 400
"""Time (ms) that a fault waits for a process to reach its named place, until it counts as done."""
LONGEST_MS: Final = 400
"""Longest pause or hang (ms); above every timeout of a simulated job."""
WORKER_PLACES: Final = ("snapshot.drawn", "ack.before", "ack.after")
DRIVER_PLACES: Final = (
    "checkpoint.metadata-written", "checkpoint.logged", "sink.publishing", "sink.abandoning",
    "sinks.committed",
)  # fmt: skip

LOSABLE: Final = (
    m.Heartbeat, m.HeartbeatSeen, m.Trigger, m.Acknowledge, m.Decline, m.CheckpointComplete,
    m.CheckpointAborted, m.Recovered, m.Stop, m.Idle,
)  # fmt: skip
"""Messages that a fault may lose: a timeout, or a later message, makes up for each of them.

A connection loses nothing without breaking, so a loss stands for a bug at its ends. Any other message is lost
with its connection only (`cut_control`): its sender has no way to notice, and need not have.
"""

REPEATABLE: Final = (*LOSABLE, m.Deployed, m.DataEnded, m.TaskFailed)
"""Messages that a fault may repeat, late. Any other message would take effect a second time."""


@dataclass(frozen=True, slots=True)
class FaultMix:
    """Kinds of faults that a simulation may inject; each seed picks some of them.

    Attributes:
        kinds: names of methods of `Faults`; one that is named several times is picked more often.
        budget_max: most faults and requests that one seed injects; 0: none.
    """

    kinds: tuple[str, ...]  # names of methods of `Faults`
    budget_max: int = 8  # faults and requests of one seed at most


class Injecting:
    """Base of the fault classes: chooses kinds, number and moments of faults by the seed, and ends them.

    A public method of a subclass, without arguments, injects one fault of the kind of its name and records it
    with `scene.fault`; it does nothing if the process that it needs is not there.
    """

    def __init__(self, scene: JobScene, mix: FaultMix, rng: random.Random) -> None:
        self._scene, self._rng = scene, rng
        kinds = [kind for kind in mix.kinds if rng.random() < 0.4]
        self._kinds = kinds or list(mix.kinds)
        self._left = rng.randint(1, mix.budget_max) if mix.budget_max else 0
        self._chance = 1 / rng.choice((30, 100, 400))
        self._armed: dict[str, Callable[[Process], None]] = {}
        self._armed_disk: list[tuple[str, str, Verdict]] = []
        self._quiet_at = 0
        self._undo: dict[int, Callable[[], None]] = {}

    @property
    def spent(self) -> bool:
        """Whether all faults of this seed were injected, and the time that they last or wait is over."""
        return self._left == 0 and self._scene.now() >= self._quiet_at

    @property
    def drivers_change(self) -> bool:
        """Whether this seed may inject faults of drivers, so that the job may get more than one driver."""
        return any("driver" in kind for kind in self._kinds)

    def maybe_inject(self) -> None:
        """Inject one fault now, at random; nothing once the seed's number of faults is used up or the job has
        ended. To be called before each action of the simulation.
        """
        if not self._left or self._rng.random() >= self._chance or self._scene.done:
            return
        self._left -= 1
        getattr(self, self._rng.choice(self._kinds))()

    def heal(self) -> None:
        """End all faults that last, drop those that wait for a place or a disk operation, and inject no more,
        so that the job can come to its end.
        """
        self._left = 0
        self._armed.clear()
        self._armed_disk.clear()
        for undo in list(self._undo.values()):
            undo()
        self._undo.clear()

    def _arm(self, place: str, what: str, inject: Callable[[Process], None]) -> None:
        self._scene.fault(f"{what} {place}")
        self._armed[place] = inject
        self._quiet_at = max(self._quiet_at, self._scene.now() + ARMED_MS)

    def _until(self, whom: str, what: str, undo: Callable[[], None]) -> None:
        span_ms = self._rng.choice((20, 60, 150, LONGEST_MS))
        self._scene.fault(f"{what} {whom} for {span_ms} ms")
        key = len(self._scene.faults_done)
        self._undo[key] = undo
        self._quiet_at = max(self._quiet_at, self._scene.now() + span_ms)
        self._scene.line.after(span_ms, f"end of fault {key}", lambda: self._undo.pop(key, lambda: None)())

    def _some_worker(self) -> WorkerProcess | None:
        living = self._scene.living()
        return self._rng.choice(living) if living else None

    def _some_driver(self) -> DriverProcess | None:
        living = self._scene.living_drivers()
        leading = [driver for driver in living if driver.runs_job]
        return self._rng.choice(leading or living) if living else None

    def _some_process(self) -> Process | None:
        living: list[Process] = [*self._scene.living_drivers(), *self._scene.living()]
        return self._rng.choice(living) if living else None


class WorkerFaults(Injecting):
    """Faults of workers: they are killed or paused, fail, or lose a connection to another worker."""

    def kill(self) -> None:
        worker = self._some_worker()
        if worker is not None:
            self._scene.fault(f"kill {worker.name}")
            worker.kill("at random")

    def kill_at_place(self) -> None:
        self._arm(self._rng.choice(WORKER_PLACES), "kill the worker at", _kill_from_inside)

    def kill_at_driver_place(self) -> None:
        def inject(_: Process) -> None:
            worker = self._some_worker()
            if worker is not None:
                worker.kill("while the job master is busy")

        self._arm(self._rng.choice(DRIVER_PLACES), "kill a worker at", inject)

    def kill_while_writing(self) -> None:
        self._arm("write.before", "kill the worker at", _kill_from_inside)

    def pause(self) -> None:
        worker = self._some_worker()
        if worker is not None:
            worker.paused = True
            self._until(worker.name, "pause", lambda: setattr(worker, "paused", False))

    def raise_at_place(self) -> None:
        """Raise an error in the task that next takes a snapshot; its process lives on."""

        def inject(process: Process) -> None:
            raise OperatingError(f"injected failure in {process.name}")

        self._arm("snapshot.drawn", "raise at", inject)

    def cut_data(self) -> None:
        """Break a random connection of two workers, if any; up to three frames each way still arrive."""
        worker = self._some_worker()
        if worker is not None and worker.data.peers:
            peer = self._rng.choice(worker.data.peers)
            self._scene.fault(f"cut {worker.name} from slot {peer.slot}")
            self._scene.network.cut(worker.data, peer, self._rng.randint(0, 3))

    def jump_clock(self) -> None:
        process, jump_ms = self._some_process(), self._rng.randint(-3_600_000, 3_600_000)
        if process is not None:
            self._scene.fault(f"{process.name}'s wall clock jumps by {jump_ms} ms")
            process.clock.skew_ms += jump_ms


class StorageFaults(Injecting):
    """Faults of storage: operations fail, hang, find no space or lose their answer; sinks cannot commit."""

    full = False
    """Whether the simulated disk has no space at present."""

    def hang_disk(self) -> None:
        process = self._some_process()
        if process is not None:
            process.held = True
            self._until(process.name, "hang the disk of", lambda: setattr(process, "held", False))

    def fail_disk(self) -> None:
        """Make the next 1 to 4 operations, or file creations, of any worker or any driver fail. A creation
        has no effect, or ("unsure") takes effect and fails nevertheless; other operations have no effect.
        """
        verdict: Verdict = self._rng.choice(("fails", "unsure"))
        whose = self._rng.choice(("master", "worker"))
        what = self._rng.choice(("create", "create", ""))
        count = self._rng.randint(1, 4)
        self._scene.fault(f"the next {count} {what or 'disk'} operations of a {whose}: {verdict}")
        self._armed_disk += [(whose, what, verdict)] * count

    def fill_disk(self) -> None:
        self.full = True
        self._until("everybody", "no space on the disk of", lambda: setattr(self, "full", False))

    def fail_commit(self) -> None:
        def inject(_: Process) -> None:
            raise OperatingError("the answer to the commit was lost")

        self._arm(self._rng.choice(("sinks.committed", "sink.publishing")), "raise at", inject)


class MessageFaults(Injecting):
    """Faults of control messages: late, lost or repeated ones, and broken connections."""

    _losing: set[str]  # names of wires, as of those that repeat
    _repeating: set[str]

    def cut_control(self) -> None:
        """Break a worker's connection to its job master; up to two messages each way still arrive."""
        worker = self._some_worker()
        if worker is not None:
            self._scene.fault(f"cut {worker.name} from the job master")
            worker.link.cut(self._rng.randint(0, 2))

    def slow_control(self) -> None:
        """Delay a worker's control messages in one direction by 10, 50 or 200 ms more, for 20 to 400 ms."""
        wire = self._some_wire()
        if wire is not None:
            wire.slow_ms = self._rng.choice((10, 50, 200))
            self._until(wire.name, f"{wire.slow_ms} ms of delay", lambda: setattr(wire, "slow_ms", 0))

    def lose_messages(self) -> None:
        """Lose half of a worker's :data:`LOSABLE` messages in one direction, at random, for 20 to 400 ms."""
        self._tampered("lose messages", self._losing)

    def repeat_messages(self) -> None:
        """Repeat 3 in 10 of a worker's :data:`REPEATABLE` messages in one direction, 1 to 200 ms later."""
        self._tampered("repeat messages", self._repeating)

    def tampers(self, wire: ControlWire) -> Tamper:
        def tamper(message: ControlMessage, data: bytes) -> str:
            if wire.name in self._losing and isinstance(message, LOSABLE) and self._rng.random() < 0.5:
                return "lost"
            repeats = wire.name in self._repeating and isinstance(message, REPEATABLE)
            if repeats and self._rng.random() < 0.3:
                wire.repeat(data, self._rng.choice((1, 10, 60, 200)))
            return "arrives"

        return tamper

    def _tampered(self, what: str, names: set[str]) -> None:
        wire = self._some_wire()
        if wire is not None:
            names.add(wire.name)
            self._until(wire.name, what, lambda: names.discard(wire.name))

    def _some_wire(self) -> ControlWire | None:
        worker = self._some_worker()
        return None if worker is None else self._rng.choice((worker.link.out, worker.link.back))


def _kill_from_inside(process: Process) -> None:
    assert isinstance(process, WorkerProcess)
    process.kill("at a named place")
    raise ProcessKilled(process.name)
