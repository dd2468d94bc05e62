"""What goes wrong in a simulation: a few kinds of faults per seed, until a budget is spent.

Which kinds belong together is a mix. Where faults strike from inside the code of a process, that code
comes by here: at named places and at each operation on the disk.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from typing_extensions import override

from headgate.testing.simulation.crash_points import CrashPoints
from headgate.testing.simulation.driver_faults import DriverFaults, Requests
from headgate.testing.simulation.drivers import DriverProcess, JobScene
from headgate.testing.simulation.fault_kinds import DRIVER_PLACES, MessageFaults, StorageFaults, WorkerFaults
from headgate.testing.simulation.invariants import Checks
from headgate.testing.simulation.simulated_processes import Process
from headgate.testing.simulation.simulated_workers import WorkerProcess
from headgate.testing.simulation.striking import FaultMix
from headgate.testing.simulation.virtual_disk import Verdict

WORKER_KINDS: Final = (
    "kill",
    "kill_at_place",
    "kill_at_driver_place",
    "kill_while_writing",
    "pause",
    "cut_data",
    "cut_control",
    "raise_at_place",
    "jump_clock",
)
STORAGE_KINDS: Final = ("hang_disk", "fail_disk", "fill_disk", "fail_commit")
MESSAGE_KINDS: Final = ("slow_control", "lose_messages", "repeat_messages")
DRIVER_KINDS: Final = (
    "kill_driver",
    "kill_driver_at_place",
    "kill_driver_at_disk",
    "pause_driver",
    "second_driver",
)
WISHES: Final = ("ask_checkpoint", "ask_savepoint", "ask_stop", "rescale", "cancel")
ALL_KINDS: Final = (*WORKER_KINDS, *STORAGE_KINDS, *MESSAGE_KINDS, *DRIVER_KINDS)

NO_FAULTS: Final = FaultMix((), 0)
ALL_FAULTS: Final = FaultMix(ALL_KINDS)
WITHOUT_DRIVERS: Final = FaultMix((*WORKER_KINDS, *STORAGE_KINDS, *MESSAGE_KINDS))
MIXES: Final[Mapping[str, FaultMix]] = {
    "default": FaultMix((*ALL_KINDS, *WISHES)),
    "coordinator": FaultMix((*DRIVER_KINDS, "fail_commit", "hang_disk", "kill", "repeat_messages"), 12),
    "storage": FaultMix((*STORAGE_KINDS, *DRIVER_KINDS[:3], "kill_while_writing", "kill", "ask_stop"), 12),
    "messages": FaultMix((*MESSAGE_KINDS, "kill", "raise_at_place", "cut_control", "pause"), 12),
}
"""By name: everything, mostly what happens to job masters, to storage, to control messages."""

__all__ = ["ALL_FAULTS", "ALL_KINDS", "MIXES", "NO_FAULTS", "WISHES", "FaultMix", "Faults"]


class Faults(WorkerFaults, StorageFaults, MessageFaults, DriverFaults, Requests):
    """Strikes at moments that the seed picks."""

    def __init__(
        self,
        scene: JobScene,
        mix: FaultMix,
        rng: random.Random,
        checks: Checks,
        crash_points: CrashPoints | None = None,
    ) -> None:
        super().__init__(scene, mix, rng)
        self._checks, self._crash_points = checks, crash_points
        self._losing, self._repeating = set[str](), set[str]()

    @override
    def heal(self) -> None:
        super().heal()
        self._until_driver_dies = 0

    def probe(self, process: Process) -> PlaceProbe:
        """The probe of a process."""
        return PlaceProbe(self, process)

    def reached(self, process: Process, place: str) -> None:
        """A process is at a named place."""
        self._scene.note(f"{process.name} is at {place}")
        if self._crash_points is not None:
            self._crash_points.reached(process, place)
        if process.background.busy and place in DRIVER_PLACES:
            self._scene.interleave(process)
        strike = self._armed.pop(place, None)
        if strike is not None:
            strike(process)

    def disk(self, process: Process, operation: str, name: str) -> Verdict:
        """What becomes of a process's disk operation."""
        whose = "worker" if isinstance(process, WorkerProcess) else "master"
        writes = operation.startswith("create")
        if isinstance(process, DriverProcess):
            self.at_driver_disk(process)
        elif writes and (strike := self._armed.pop("write.before", None)):
            strike(process)
        if writes and self.full:
            return "full"
        for index, (target, what, verdict) in enumerate(self._armed_disk):
            if target == whose and operation.startswith(what):
                del self._armed_disk[index]
                return verdict if writes else "fails"
        return "works"


class PlaceProbe:
    """Implements `common.ports.Probe` for one process."""

    def __init__(self, faults: Faults, process: Process) -> None:
        self._faults, self._process = faults, process

    def reached(self, place: str) -> None:
        """The code is at `place`."""
        self._faults.reached(self._process, place)
