"""Kills a driver at a step that is counted, not drawn: for trying every step of one checkpoint in turn.

A step is one operation on the disk, by whomever, or one control message that arrives, between the
moment a checkpoint is triggered and the one when its predecessor was deleted: in between it is stored,
committed and reported. After the last checkpoint of a job comes its end, which has steps of its own.
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
    """Steps of one checkpoint; with `strike_at` the driver is killed at one of them.

    Attributes:
        checkpoint: whose steps are counted.
        strike_at: the number of a step, from 0; None only counts.
        phase: whether the driver dies before that step has its effect, or after.
        silently: whether the driver's workers are left without news.
        to_end: whether steps go on until the driver has left.
        last: the latest checkpoint that was triggered.
        steps: what happened, in words.
        struck: whether the driver was killed.
    """

    checkpoint: int
    strike_at: int | None = None
    phase: Phase = "before"
    silently: bool = False
    to_end: bool = False
    last: int = 0
    steps: list[str] = field(default_factory=list)
    struck: bool = False
    _open: bool = False
    _driver: DriverProcess | None = None

    def triggered(self, driver: DriverProcess, checkpoint: int) -> None:
        """The first task was asked for a checkpoint: the steps begin, or end where its predecessor stays."""
        self.last = max(self.last, checkpoint)
        if checkpoint == self.checkpoint and self._driver is None:
            self._open, self._driver = True, driver
        elif checkpoint > self.checkpoint + 1 and self._driver is driver:
            self._open = self.to_end

    def reached(self, process: Process, place: str) -> None:
        """A process is at a named place: when the predecessor was deleted the steps end."""
        if process is self._driver and place == "checkpoint.retired":
            self._open = self.to_end

    def disk(self, process: Process, operation: str, name: str) -> int | None:
        """A process is about to touch the disk; gives the step's number."""
        if isinstance(process, WorkerProcess):
            return self._step(process.driver, f"{process.name} {operation} {name}")
        return self._step(process, f"{process.name} {operation} {name}")

    def message(self, driver: Process, wire: str) -> int | None:
        """A control message is about to arrive; gives the step's number."""
        return self._step(driver, f"message, {wire}")

    def after(self, step: int | None) -> None:
        """A step has had its effect."""
        if step is not None and step == self.strike_at and self.phase == "after":
            self._strike(step)

    def _step(self, owner: Process, what: str) -> int | None:
        if not self._open or owner is not self._driver:
            return None
        self.steps.append(what)
        step = len(self.steps) - 1
        if step == self.strike_at and self.phase == "before":
            self._strike(step)
        return step

    def _strike(self, step: int) -> None:
        driver = self._driver
        if driver is not None and driver.alive:
            self.struck = True
            driver.scene.fault(f"kill {driver.name} {self.phase} step {step}")
            driver.kill(f"{self.phase} step {step}, {self.steps[step]}", silently=self.silently)
