"""How faults are brought about in a simulation: when to strike, where to lie in wait, and how to undo it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headgate.testing.simulation.drivers import DriverProcess, JobScene
from headgate.testing.simulation.simulated_processes import Process
from headgate.testing.simulation.simulated_workers import WorkerProcess
from headgate.testing.simulation.virtual_disk import Verdict

ARMED_MS: Final = 400
"""How long an armed fault waits for its place to be reached."""
LONGEST_MS: Final = 400
"""Longest pause or hang; beyond every timeout of a simulated job."""


@dataclass(frozen=True, slots=True)
class FaultMix:
    """Which faults a simulation may inject.

    Attributes:
        kinds: names of methods of :class:`headgate.testing.simulation.faults.Faults`; each seed uses some.
        budget_max: faults of one seed at most.
    """

    kinds: tuple[str, ...]
    budget_max: int = 8


class Striking:
    """What all kinds of faults need."""

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
        """Whether nothing more will go wrong."""
        return self._left == 0 and self._scene.now() >= self._quiet_at

    @property
    def drivers_change(self) -> bool:
        """Whether this seed may have more than one driver."""
        return any("driver" in kind for kind in self._kinds)

    def maybe_strike(self) -> None:
        """Perhaps do something, between two actions."""
        if not self._left or self._rng.random() >= self._chance or self._scene.done:
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

    # -- for the kinds

    def _arm(self, place: str, what: str, strike: Callable[[Process], None]) -> None:
        self._scene.fault(f"{what} {place}")
        self._armed[place] = strike
        self._quiet_at = max(self._quiet_at, self._scene.now() + ARMED_MS)

    def _until(self, whom: str, what: str, undo: Callable[[], None]) -> None:
        span_ms = self._rng.choice((20, 60, 150, LONGEST_MS))
        self._scene.fault(f"{what} {whom} for {span_ms} ms")
        key = len(self._scene.faults_done)
        self._undo[key] = undo
        self._quiet_at = max(self._quiet_at, self._scene.now() + span_ms)
        self._scene.line.after(span_ms, f"end of fault {key}", lambda: self._undo.pop(key, _nothing)())

    def _some_worker(self) -> WorkerProcess | None:
        living = self._scene.living()
        return self._rng.choice(living) if living else None

    def _some_driver(self) -> DriverProcess | None:
        """A driver that lives; mostly one that leads."""
        living = self._scene.living_drivers()
        leading = [driver for driver in living if driver.runs_job]
        return self._rng.choice(leading or living) if living else None

    def _some_process(self) -> Process | None:
        living: list[Process] = [*self._scene.living_drivers(), *self._scene.living()]
        return self._rng.choice(living) if living else None


def _nothing() -> None:
    """It was undone already."""
