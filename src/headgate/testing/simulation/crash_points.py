"""Crash points: kills a simulated driver at a counted step, so that a test can try each of a checkpoint.

A step is a disk operation of the driver or its workers, or a control message that arrives, from when a
checkpoint is triggered until its predecessor was deleted: in between it is stored, committed and reported.
After the last checkpoint of a job comes its end, which has steps of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from headgate.testing.simulation.drivers import DriverProcess
from headgate.testing.simulation.simulated_processes import Process
from headgate.testing.simulation.simulated_workers import WorkerProcess

Phase = Literal["before", "after"]
PHASES: Final[tuple[Phase, ...]] = ("before", "after")


@dataclass(slots=True)
class CrashPoints:
    """Counts the steps of one checkpoint, from 0, and kills the driver at step `strike_at`, once."""

    checkpoint: int = 0  # none by default
    strike_at: int | None = None  # the number of a step, from 0; None only counts
    phase: Phase = "before"
    silently: bool = False  # whether the driver's workers are left without news
    to_end: bool = False  # whether steps go on until the driver has exited
    last: int = 0  # the latest checkpoint that was triggered
    steps: list[str] = field(default_factory=list)  # what happened, in words
    struck: bool = False  # whether the driver was killed
    _open: bool = False
    _driver: DriverProcess | None = None

    def triggered(self, driver: DriverProcess, checkpoint: int) -> None:
        """Note a trigger: the chosen checkpoint's first one starts the count, the next but one ends it."""
        self.last = max(self.last, checkpoint)
        if checkpoint == self.checkpoint and self._driver is None:
            self._open, self._driver = True, driver
        elif checkpoint > self.checkpoint + 1 and self._driver is driver:
            self._open = self.to_end

    def reached(self, process: Process, place: str) -> None:
        if process is self._driver and place == "checkpoint.retired":
            self._open = self.to_end

    def disk(self, process: Process, operation: str, name: str) -> int | None:
        """Count a coming disk operation of the chosen checkpoint's driver or of its workers, and kill the
        driver if the step is chosen. Return the step's number for :meth:`after`; None if no steps count now.
        """
        owner = process.driver if isinstance(process, WorkerProcess) else process
        return self._step(owner, f"{process.name} {operation} {name}")

    def message(self, driver: Process, wire: str) -> int | None:
        return self._step(driver, f"message, {wire}")

    def after(self, step: int | None) -> None:
        """Kill the driver now if `step`, which has just had its effect, is the chosen one; ignore None."""
        if step is not None and step == self.strike_at and self.phase == "after":
            self._kill(step)

    def _step(self, owner: Process, what: str) -> int | None:
        if not self._open or owner is not self._driver:
            return None
        self.steps.append(what)
        step = len(self.steps) - 1
        if step == self.strike_at and self.phase == "before":
            self._kill(step)
        return step

    def _kill(self, step: int) -> None:
        driver = self._driver
        if driver is not None and driver.alive:
            self.struck = True
            driver.scene.fault(f"kill {driver.name} {self.phase} step {step}")
            driver.kill(f"{self.phase} step {step}, {self.steps[step]}", silently=self.silently)
