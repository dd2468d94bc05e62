"""What goes wrong in a simulation, and when: a few kinds of faults per seed, until a budget is spent."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headgate.common.errors import OperatingError
from headgate.testing.simulation.disk import Verdict
from headgate.testing.simulation.processes import Process, ProcessKilled, WorkerProcess

if TYPE_CHECKING:
    from headgate.testing.simulation.world import World

WORKER_PLACES: Final = ("snapshot.drawn", "ack.before", "ack.after")
DRIVER_PLACES: Final = ("checkpoint.metadata-written", "checkpoint.logged", "sinks.committed")
ARMED_MS: Final = 400
"""How long an armed fault waits for its place to be reached."""
LONGEST_MS: Final = 400
"""Longest pause or hang; beyond every timeout of a simulated job."""


@dataclass(frozen=True, slots=True)
class FaultMix:
    """Which faults a simulation may inject.

    Attributes:
        kinds: names of methods of :class:`Faults`; each seed uses some of them.
        budget_max: faults of one seed at most.
    """

    kinds: tuple[str, ...]
    budget_max: int = 8


ALL_KINDS: Final = (
    "kill",
    "kill_at_place",
    "kill_at_driver_place",
    "kill_while_writing",
    "pause",
    "hang_disk",
    "fail_disk",
    "cut_data",
    "cut_control",
    "raise_at_place",
    "fail_commit",
    "jump_clock",
)
NO_FAULTS: Final = FaultMix((), 0)
ALL_FAULTS: Final = FaultMix(ALL_KINDS)


class Faults:
    """Strikes at moments that the seed picks.

    Args:
        world: the simulation.
        mix: what may happen.
        rng: decides.

    Attributes:
        done: what was done, in order.
    """

    def __init__(self, world: World, mix: FaultMix, rng: random.Random) -> None:
        self._world, self._rng = world, rng
        self.done: list[str] = []
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
        """Whether nothing more will go wrong."""
        return self._left == 0 and self._world.now() >= self._quiet_at

    def maybe_strike(self) -> None:
        """Perhaps do something, between two actions."""
        if not self._left or self._rng.random() >= self._chance or self._world.master.state.terminal:
            return
        self._left -= 1
        getattr(self, self._rng.choice(self._kinds))()

    def heal(self) -> None:
        """Everything works from here on."""
        self._left = 0
        self._armed.clear()
        self._armed_disk.clear()
        for undo in list(self._undo.values()):
            undo()
        self._undo.clear()

    # -- kinds of faults

    def kill(self) -> None:
        """SIGKILL of a worker."""
        worker = self._some_worker()
        if worker is not None:
            self._did(f"kill {worker.name}")
            worker.kill("at random")

    def kill_at_place(self) -> None:
        """SIGKILL of a worker at a named place in its code."""
        self._arm(self._rng.choice(WORKER_PLACES), "kill the worker at", self._kill_from_inside)

    def kill_at_driver_place(self) -> None:
        """SIGKILL of a worker while the job master is at a named place in its code."""

        def strike(_: Process) -> None:
            worker = self._some_worker()
            if worker is not None:
                worker.kill("while the job master is busy")

        self._arm(self._rng.choice(DRIVER_PLACES), "kill a worker at", strike)

    def kill_while_writing(self) -> None:
        """SIGKILL of a worker right before it writes a file."""
        self._arm("write.before", "kill the worker at", self._kill_from_inside)

    def pause(self) -> None:
        """SIGSTOP, and SIGCONT later: perhaps longer than the heartbeat's timeout."""
        worker = self._some_worker()
        if worker is not None:
            worker.paused = True
            self._until(worker.name, "pause", lambda: setattr(worker, "paused", False))

    def hang_disk(self) -> None:
        """Writes of one process hang: checkpoints run into their timeout."""
        processes: list[Process] = [self._world.driver, *self._world.gang.living()]
        process = self._rng.choice(processes)
        process.held = True
        self._until(process.name, "hang the disk of", lambda: setattr(process, "held", False))

    def fail_disk(self) -> None:
        """The next operations fail, some of them without saying whether they worked."""
        verdict: Verdict = self._rng.choice(("fails", "unsure"))
        whose = self._rng.choice(("master", "worker"))
        what = self._rng.choice(("create", "create", ""))
        count = self._rng.randint(1, 4)
        self._did(f"the next {count} {what or 'disk'} operations of a {whose}: {verdict}")
        self._armed_disk += [(whose, what, verdict)] * count

    def cut_data(self) -> None:
        """A connection between two workers breaks."""
        worker = self._some_worker()
        if worker is not None and worker.data.peers:
            peer = self._rng.choice(worker.data.peers)
            self._did(f"cut {worker.name} from slot {peer.slot}")
            self._world.network.cut(worker.data, peer, self._rng.randint(0, 3))

    def cut_control(self) -> None:
        """The connection between a worker and the job master breaks."""
        worker = self._some_worker()
        if worker is not None:
            self._did(f"cut {worker.name} from the job master")
            worker.link.cut(self._rng.randint(0, 2))

    def raise_at_place(self) -> None:
        """A task fails, and its process lives on."""

        def strike(process: Process) -> None:
            raise OperatingError(f"injected failure in {process.name}")

        self._arm("snapshot.drawn", "raise at", strike)

    def fail_commit(self) -> None:
        """A sink cannot publish for now, or did and says that it could not."""

        def strike(_: Process) -> None:
            raise OperatingError("the answer to the commit was lost")

        self._arm(self._rng.choice(("sinks.committed", "sink.publishing")), "raise at", strike)

    def jump_clock(self) -> None:
        """Somebody's wall clock jumps by up to an hour."""
        processes: list[Process] = [self._world.driver, *self._world.gang.living()]
        process, jump_ms = self._rng.choice(processes), self._rng.randint(-3_600_000, 3_600_000)
        self._did(f"{process.name}'s wall clock jumps by {jump_ms} ms")
        process.clock.skew_ms += jump_ms

    # -- where they strike

    def probe(self, process: Process) -> PlaceProbe:
        """The probe of a process."""
        return PlaceProbe(self, process)

    def reached(self, process: Process, place: str) -> None:
        """A process is at a named place."""
        self._world.note(f"{process.name} is at {place}")
        if process.background.busy and place in DRIVER_PLACES:
            self._world.interleave(process)
        strike = self._armed.pop(place, None)
        if strike is not None:
            strike(process)

    def disk(self, process: Process, operation: str, name: str) -> Verdict:
        """What becomes of a process's disk operation."""
        whose = "worker" if isinstance(process, WorkerProcess) else "master"
        writes = operation.startswith("create")
        if writes and whose == "worker" and (strike := self._armed.pop("write.before", None)):
            strike(process)
        for index, (target, what, verdict) in enumerate(self._armed_disk):
            if target == whose and operation.startswith(what):
                del self._armed_disk[index]
                return verdict if writes else "fails"
        return "works"

    def die_if_killed(self, process: Process) -> None:
        """The code of a process that was killed meanwhile must not go on."""
        if not process.alive:
            raise ProcessKilled(process.name)

    def _kill_from_inside(self, process: Process) -> None:
        assert isinstance(process, WorkerProcess)
        process.kill("at a named place")
        raise ProcessKilled(process.name)

    def _arm(self, place: str, what: str, strike: Callable[[Process], None]) -> None:
        self._did(f"{what} {place}")
        self._armed[place] = strike
        self._quiet_at = max(self._quiet_at, self._world.now() + ARMED_MS)

    def _until(self, whom: str, what: str, undo: Callable[[], None]) -> None:
        span_ms = self._rng.choice((20, 60, 150, LONGEST_MS))
        self._did(f"{what} {whom} for {span_ms} ms")
        key = len(self.done)
        self._undo[key] = undo
        self._quiet_at = max(self._quiet_at, self._world.now() + span_ms)
        self._world.line.after(span_ms, f"end of fault {key}", lambda: self._undo.pop(key, _nothing)())

    def _some_worker(self) -> WorkerProcess | None:
        living = self._world.gang.living()
        return self._rng.choice(living) if living else None

    def _did(self, what: str) -> None:
        self.done.append(f"{self._world.now()} ms: {what}")
        self._world.note(f"FAULT {what}")


class PlaceProbe:
    """Implements `common.ports.Probe` for one process."""

    def __init__(self, faults: Faults, process: Process) -> None:
        self._faults, self._process = faults, process

    def reached(self, place: str) -> None:
        """The code is at `place`."""
        self._faults.reached(self._process, place)


def _nothing() -> None:
    """It was undone already."""
