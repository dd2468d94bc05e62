"""Faults of workers, disks and connections. Those of drivers are in `driver_faults`."""

from __future__ import annotations

from typing import Final

from headgate.common.errors import OperatingError
from headgate.runtime.protocol import messages as m
from headgate.testing.simulation.links import ControlMessage, ControlWire, Tamper
from headgate.testing.simulation.simulated_processes import Process, ProcessKilled
from headgate.testing.simulation.simulated_workers import WorkerProcess
from headgate.testing.simulation.striking import Striking
from headgate.testing.simulation.virtual_disk import Verdict

WORKER_PLACES: Final = ("snapshot.drawn", "ack.before", "ack.after")
DRIVER_PLACES: Final = (
    "checkpoint.metadata-written",
    "checkpoint.logged",
    "sink.publishing",
    "sink.abandoning",
    "sinks.committed",
)

LOSABLE: Final = (
    m.Heartbeat,
    m.HeartbeatSeen,
    m.Trigger,
    m.Acknowledge,
    m.Decline,
    m.CheckpointComplete,
    m.CheckpointAborted,
    m.Recovered,
    m.Stop,
    m.Idle,
)
"""Messages that something waits for with a timeout, or that a later one makes up for.

A connection loses nothing without breaking, so a loss stands for a bug at its ends. That of any other
message is that of the connection (`cut_control`): its sender has no way to notice, and need not have.
"""

REPEATABLE: Final = (*LOSABLE, m.Deployed, m.DataEnded, m.TaskFailed)
"""Messages that may come twice, the second time late. The others move something on with each that comes."""

TAMPERED_MS: Final = 150
"""How long messages of one worker are lost or repeated."""


class WorkerFaults(Striking):
    """Processes that die, stand still, fail, or lose their peers."""

    def kill(self) -> None:
        """SIGKILL of a worker."""
        worker = self._some_worker()
        if worker is not None:
            self._scene.fault(f"kill {worker.name}")
            worker.kill("at random")

    def kill_at_place(self) -> None:
        """SIGKILL of a worker at a named place in its code."""
        self._arm(self._rng.choice(WORKER_PLACES), "kill the worker at", _kill_from_inside)

    def kill_at_driver_place(self) -> None:
        """SIGKILL of a worker while the job master is at a named place in its code."""

        def strike(_: Process) -> None:
            worker = self._some_worker()
            if worker is not None:
                worker.kill("while the job master is busy")

        self._arm(self._rng.choice(DRIVER_PLACES), "kill a worker at", strike)

    def kill_while_writing(self) -> None:
        """SIGKILL of a worker that writes a file, which stays unfinished."""
        self._arm("write.before", "kill the worker at", _kill_from_inside)

    def pause(self) -> None:
        """SIGSTOP, and SIGCONT later: perhaps longer than the heartbeat's timeout."""
        worker = self._some_worker()
        if worker is not None:
            worker.paused = True
            self._until(worker.name, "pause", lambda: setattr(worker, "paused", False))

    def raise_at_place(self) -> None:
        """A task fails, and its process lives on."""

        def strike(process: Process) -> None:
            raise OperatingError(f"injected failure in {process.name}")

        self._arm("snapshot.drawn", "raise at", strike)

    def cut_data(self) -> None:
        """A connection between two workers breaks."""
        worker = self._some_worker()
        if worker is not None and worker.data.peers:
            peer = self._rng.choice(worker.data.peers)
            self._scene.fault(f"cut {worker.name} from slot {peer.slot}")
            self._scene.network.cut(worker.data, peer, self._rng.randint(0, 3))

    def jump_clock(self) -> None:
        """Somebody's wall clock jumps by up to an hour."""
        process, jump_ms = self._some_process(), self._rng.randint(-3_600_000, 3_600_000)
        if process is not None:
            self._scene.fault(f"{process.name}'s wall clock jumps by {jump_ms} ms")
            process.clock.skew_ms += jump_ms


class StorageFaults(Striking):
    """Disks that refuse, hang, are full, or do not say what they did; sinks that cannot publish."""

    def hang_disk(self) -> None:
        """Operations of one process hang: checkpoints run into their timeout, leaders cannot prove it."""
        process = self._some_process()
        if process is not None:
            process.held = True
            self._until(process.name, "hang the disk of", lambda: setattr(process, "held", False))

    def fail_disk(self) -> None:
        """The next operations fail, some of them without saying whether they worked."""
        verdict: Verdict = self._rng.choice(("fails", "unsure"))
        whose = self._rng.choice(("master", "worker"))
        what = self._rng.choice(("create", "create", ""))
        count = self._rng.randint(1, 4)
        self._scene.fault(f"the next {count} {what or 'disk'} operations of a {whose}: {verdict}")
        self._armed_disk += [(whose, what, verdict)] * count

    def fill_disk(self) -> None:
        """For a while there is no space, for anybody."""
        self.full = True
        self._until("everybody", "no space on the disk of", lambda: setattr(self, "full", False))

    def fail_commit(self) -> None:
        """A sink cannot publish for now, or did and says that it could not."""

        def strike(_: Process) -> None:
            raise OperatingError("the answer to the commit was lost")

        self._arm(self._rng.choice(("sinks.committed", "sink.publishing")), "raise at", strike)

    full = False
    """Whether there is no space at present."""


class MessageFaults(Striking):
    """Control messages that are late, lost, or come twice, and connections that break."""

    def cut_control(self) -> None:
        """The connection between a worker and its job master breaks."""
        worker = self._some_worker()
        if worker is not None:
            self._scene.fault(f"cut {worker.name} from the job master")
            worker.link.cut(self._rng.randint(0, 2))

    def slow_control(self) -> None:
        """Messages of one worker, one way or the other, take long, while those of others overtake them."""
        wire = self._some_wire()
        if wire is not None:
            wire.slow_ms = self._rng.choice((10, 50, 200))
            self._until(wire.name, f"{wire.slow_ms} ms of delay", lambda: setattr(wire, "slow_ms", 0))

    def lose_messages(self) -> None:
        """Some messages of one worker do not arrive; see :data:`LOSABLE`."""
        self._tampered("lose messages", "_losing")

    def repeat_messages(self) -> None:
        """Some messages of one worker come once more, later; see :data:`REPEATABLE`."""
        self._tampered("repeat messages", "_repeating")

    def tampers(self, wire: ControlWire) -> Tamper:
        """What becomes of messages on this wire."""

        def tamper(message: ControlMessage, data: bytes) -> str:
            if wire.name in self._losing and isinstance(message, LOSABLE) and self._rng.random() < 0.5:
                return "lost"
            repeats = wire.name in self._repeating and isinstance(message, REPEATABLE)
            if repeats and self._rng.random() < 0.3:
                wire.repeat(data, self._rng.choice((1, 10, 60, 200)))
            return "arrives"

        return tamper

    def _tampered(self, what: str, among: str) -> None:
        wire = self._some_wire()
        if wire is not None:
            names: set[str] = getattr(self, among)
            names.add(wire.name)
            self._until(wire.name, what, lambda: names.discard(wire.name))

    def _some_wire(self) -> ControlWire | None:
        worker = self._some_worker()
        return None if worker is None else self._rng.choice((worker.link.out, worker.link.back))

    _losing: set[str]
    _repeating: set[str]


def _kill_from_inside(process: Process) -> None:
    assert isinstance(process, WorkerProcess)
    process.kill("at a named place")
    raise ProcessKilled(process.name)
