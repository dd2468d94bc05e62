"""Drivers that die, stand still or get company, and users that want something at the wrong moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.api.jobs.executor_contract import JobControl
from headgate.common.errors import HeadgateError
from headgate.testing.simulation.drivers import DriverProcess
from headgate.testing.simulation.fault_kinds import DRIVER_PLACES
from headgate.testing.simulation.invariants import Checks
from headgate.testing.simulation.simulated_processes import Process, ProcessKilled
from headgate.testing.simulation.striking import Striking
from headgate.testing.simulation.virtual_disk import URI

SAVEPOINTS: Final = f"{URI}/savepoints"
WIDTHS: Final = (1, 2, 3, 4)

Answer = str | int | None
Ask = Callable[[JobControl, Callable[[Answer, HeadgateError | None], None]], None]


class DriverFaults(Striking):
    """What may happen to a driver. Its workers live on until they notice."""

    def kill_driver(self) -> None:
        """SIGKILL of a driver, in the middle of whatever it does."""
        driver = self._some_driver()
        if driver is not None:
            self._scene.fault(f"kill {driver.name}")
            driver.kill("at random", silently=self._silently())

    def kill_driver_at_place(self) -> None:
        """SIGKILL of a driver at a named place in its code."""
        self._arm(self._rng.choice(DRIVER_PLACES), "kill the driver at", self._kill_driver_inside)

    def kill_driver_at_disk(self) -> None:
        """SIGKILL of a driver at one of its next operations on the disk."""
        self._scene.fault("kill the driver at one of its next disk operations")
        self._until_driver_dies = self._rng.randint(1, 12)

    def pause_driver(self) -> None:
        """SIGSTOP of a driver, and SIGCONT later; meanwhile it may be thought dead and be replaced."""
        driver = self._some_driver()
        if driver is None or driver.paused:
            return
        driver.paused = True
        self._until(driver.name, "pause", lambda: setattr(driver, "paused", False))
        if self._rng.random() < 0.7:
            delay = self._rng.randint(0, 60)
            self._scene.line.after(delay, f"{driver.name} is thought dead", lambda: self._replace(driver))

    def second_driver(self) -> None:
        """Somebody starts a driver although there is one."""
        if len(self._scene.living_drivers()) < 3:
            self._scene.fault("start another driver")
            self._scene.start_driver()

    def at_driver_disk(self, process: DriverProcess) -> None:
        """A driver is about to touch the disk."""
        if self._until_driver_dies:
            self._until_driver_dies -= 1
            if not self._until_driver_dies:
                self._kill_driver_inside(process)

    _until_driver_dies = 0

    def _replace(self, driver: DriverProcess) -> None:
        if not self._scene.done and driver.alive and driver.paused:
            self._scene.start_driver()

    def _kill_driver_inside(self, process: Process) -> None:
        assert isinstance(process, DriverProcess)
        process.kill("at a named place", silently=self._silently())
        raise ProcessKilled(process.name)

    def _silently(self) -> bool:
        return self._rng.random() < 0.4


class Requests(Striking):
    """What users may ask of a running job, at any moment; each request is answered once."""

    _checks: Checks

    def ask_checkpoint(self) -> None:
        """A checkpoint, now."""
        self._ask("a checkpoint", lambda control, then: control.checkpoint(then))

    def ask_savepoint(self) -> None:
        """A savepoint, beside the checkpoints."""
        form = self._rng.choice(("canonical", "native"))
        self._ask(f"a {form} savepoint", lambda control, then: control.savepoint(SAVEPOINTS, form, then))

    def ask_stop(self) -> None:
        """The job is stopped with a savepoint, and started from it."""
        form = self._rng.choice(("canonical", "native"))
        self._ask(
            f"to stop with a {form} savepoint",
            lambda control, then: control.stop(SAVEPOINTS, form, False, then),
        )

    def rescale(self) -> None:
        """The job goes on at another parallelism."""
        width, from_last = self._rng.choice(WIDTHS), self._rng.random() < 0.5
        self._ask(f"parallelism {width}", lambda control, then: control.rescale(width, then, from_last))

    def cancel(self) -> None:
        """The job is cancelled, and started from its last checkpoint."""
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
            said = f"no: {type(error).__name__}" if error is not None else str(answer)
            self._scene.note(f"{driver.name} answers wish {number} ({what}): {said}")
            self._checks.answered(driver, number, answer, error)

        ask(driver.control, then)
