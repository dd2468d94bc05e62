"""Injection of faults into a simulated job: a few kinds of faults per seed, until a budget is spent.

A `FaultMix` lists the kinds that are injected together. The code of a simulated process calls `Faults` at
named places and at each operation on the disk, where a fault may then be injected.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from typing_extensions import override

from headgate.api.jobs.executor_contract import JobControl
from headgate.common.errors import HeadgateError
from headgate.testing.simulation.crash_points import CrashPoints
from headgate.testing.simulation.drivers import DriverProcess, JobScene
from headgate.testing.simulation.fault_kinds import (
    DRIVER_PLACES,
    FaultMix,
    Injecting,
    MessageFaults,
    StorageFaults,
    WorkerFaults,
)
from headgate.testing.simulation.invariants import Checks
from headgate.testing.simulation.simulated_processes import Process, ProcessKilled
from headgate.testing.simulation.simulated_workers import WorkerProcess
from headgate.testing.simulation.virtual_disk import URI, Verdict

WORKER_KINDS: Final = (
    "kill", "kill_at_place", "kill_at_driver_place", "kill_while_writing", "pause", "cut_data", "cut_control",
    "raise_at_place", "jump_clock",
)  # fmt: skip
STORAGE_KINDS: Final = ("hang_disk", "fail_disk", "fill_disk", "fail_commit")
MESSAGE_KINDS: Final = ("slow_control", "lose_messages", "repeat_messages")
DRIVER_KINDS: Final = (
    "kill_driver", "kill_driver_at_place", "kill_driver_at_disk", "pause_driver", "second_driver",
)  # fmt: skip
REQUESTS: Final = ("ask_checkpoint", "ask_savepoint", "ask_stop", "rescale", "cancel")
ALL_KINDS: Final = (*WORKER_KINDS, *STORAGE_KINDS, *MESSAGE_KINDS, *DRIVER_KINDS)

NO_FAULTS: Final = FaultMix((), 0)
ALL_FAULTS: Final = FaultMix(ALL_KINDS)
WITHOUT_DRIVERS: Final = FaultMix((*WORKER_KINDS, *STORAGE_KINDS, *MESSAGE_KINDS))
MIXES: Final[Mapping[str, FaultMix]] = {
    "default": FaultMix((*ALL_KINDS, *REQUESTS)),
    "coordinator": FaultMix((*DRIVER_KINDS, "fail_commit", "hang_disk", "kill", "repeat_messages"), 12),
    "storage": FaultMix((*STORAGE_KINDS, *DRIVER_KINDS[:3], "kill_while_writing", "kill", "ask_stop"), 12),
    "messages": FaultMix((*MESSAGE_KINDS, "kill", "raise_at_place", "cut_control", "pause"), 12),
    # Several times the same: each is picked by itself.
    "rescales": FaultMix((*["rescale"] * 5, "kill", "raise_at_place", "cancel"), 12),
}
"""Name -> mix of faults: all kinds; mostly those of drivers, storage or messages; or other parallelisms."""

SAVEPOINTS: Final = f"{URI}/savepoints"
WIDTHS: Final = (1, 2, 3, 4)

Answer = str | int | None
Ask = Callable[[JobControl, Callable[[Answer, HeadgateError | None], None]], None]

__all__ = ["ALL_FAULTS", "ALL_KINDS", "MIXES", "NO_FAULTS", "REQUESTS", "FaultMix", "Faults"]


class DriverFaults(Injecting):
    """Faults of drivers: they are killed, paused or doubled. Their workers live on until they notice."""

    _until_driver_dies = 0  # operations on the disk; 0: it does not die

    def kill_driver(self) -> None:
        driver = self._some_driver()
        if driver is not None:
            self._scene.fault(f"kill {driver.name}")
            driver.kill("at random", silently=self._silently())

    def kill_driver_at_place(self) -> None:
        self._arm(self._rng.choice(DRIVER_PLACES), "kill the driver at", self._kill_driver_inside)

    def kill_driver_at_disk(self) -> None:
        """Kill the driver that is about to do one of the next twelve disk operations of all drivers."""
        self._scene.fault("kill the driver at one of its next disk operations")
        self._until_driver_dies = self._rng.randint(1, 12)

    def pause_driver(self) -> None:
        """Stop a driver as by SIGSTOP for 20 to 400 ms. At 7 in 10 the supervisor starts another driver
        within 60 ms, unless the paused one has gone on by then or the job has ended.
        """
        driver = self._some_driver()
        if driver is None or driver.paused:
            return
        driver.paused = True
        self._until(driver.name, "pause", lambda: setattr(driver, "paused", False))
        if self._rng.random() < 0.7:
            delay = self._rng.randint(0, 60)
            self._scene.line.after(delay, f"{driver.name} is thought dead", lambda: self._replace(driver))

    def second_driver(self) -> None:
        if len(self._scene.living_drivers()) < 3:
            self._scene.fault("start another driver")
            self._scene.supervisor.start()

    def at_driver_disk(self, process: DriverProcess) -> None:
        if self._until_driver_dies:
            self._until_driver_dies -= 1
            if not self._until_driver_dies:
                self._kill_driver_inside(process)

    def _replace(self, driver: DriverProcess) -> None:
        if not self._scene.done and driver.alive and driver.paused:
            self._scene.supervisor.start()

    def _kill_driver_inside(self, process: Process) -> None:
        assert isinstance(process, DriverProcess)
        process.kill("at a named place", silently=self._silently())
        raise ProcessKilled(process.name)

    def _silently(self) -> bool:
        return self._rng.random() < 0.4


class Requests(Injecting):
    """Requests of users to a job, one method per kind, at random moments; each must be answered once."""

    _checks: Checks

    def ask_checkpoint(self) -> None:
        self._ask("a checkpoint", lambda control, then: control.checkpoint(then))

    def ask_savepoint(self) -> None:
        form = self._rng.choice(("canonical", "native"))
        self._ask(f"a {form} savepoint", lambda control, then: control.savepoint(SAVEPOINTS, form, then))

    def ask_stop(self) -> None:
        """Request to stop the job with a savepoint; the supervisor then starts the job again from there."""
        form = self._rng.choice(("canonical", "native"))
        self._ask(
            f"to stop with a {form} savepoint",
            lambda control, then: control.stop(SAVEPOINTS, form, False, then),
        )

    def rescale(self) -> None:
        width, from_last = self._rng.choice(WIDTHS), self._rng.random() < 0.5
        self._ask(f"parallelism {width}", lambda control, then: control.rescale(width, then, from_last))

    def cancel(self) -> None:
        """Cancel the job; the supervisor then starts the job again from its last completed checkpoint."""
        driver = self._some_driver()
        if driver is not None and driver.control is not None and driver.runs_job:
            self._scene.fault(f"cancel the job of {driver.name}")
            driver.control.cancel()

    def _ask(self, what: str, ask: Ask) -> None:
        driver = self._some_driver()
        if driver is None or driver.control is None or not driver.runs_job:
            return
        self._scene.fault(f"ask {driver.name} for {what}")
        number = len(self._scene.faults_done)
        driver.asked[number] = what

        def then(answer: Answer, error: HeadgateError | None) -> None:
            shown = f"no: {type(error).__name__}" if error is not None else str(answer)
            self._scene.note(f"{driver.name} answers wish {number} ({what}): {shown}")
            self._checks.answered(driver, number, answer, error)

        ask(driver.control, then)


class Faults(WorkerFaults, StorageFaults, MessageFaults, DriverFaults, Requests):
    """Injects all kinds of faults, at moments that the seed picks; implements `FaultInjector`."""

    def __init__(
        self, scene: JobScene, mix: FaultMix, rng: random.Random, checks: Checks, crash_points: CrashPoints
    ) -> None:
        super().__init__(scene, mix, rng)
        self._checks, self._crash_points = checks, crash_points
        self._losing, self._repeating = set[str](), set[str]()

    @override
    def heal(self) -> None:
        super().heal()
        self._until_driver_dies = 0

    def reached(self, process: Process, place: str) -> None:
        self._scene.note(f"{process.name} is at {place}")
        self._crash_points.reached(process, place)
        if process.background.busy and place in DRIVER_PLACES:
            self._scene.interleave(process)
        if inject := self._armed.pop(place, None):
            inject(process)

    def disk(self, process: Process, operation: str, name: str) -> Verdict:
        """Return the outcome of the disk operation that `process` is about to do: "works" unless a fault hits
        it. A fault may kill the process instead, by ProcessKilled. `operation` is "create",
        "create-if-absent", "read", "size", "list" or "delete"; `name` the file or folder, from the root of
        the disk.
        """
        whose = "worker" if isinstance(process, WorkerProcess) else "master"
        writes = operation.startswith("create")
        if isinstance(process, DriverProcess):
            self.at_driver_disk(process)
        elif writes and (inject := self._armed.pop("write.before", None)):
            inject(process)
        if writes and self.full:
            return "full"
        for index, (target, what, verdict) in enumerate(self._armed_disk):
            if target == whose and operation.startswith(what):
                del self._armed_disk[index]
                return verdict if writes else "fails"
        return "works"
