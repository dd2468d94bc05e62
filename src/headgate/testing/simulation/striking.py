"""How faults are brought about in a simulation: when to strike, where to lie in wait, and how to undo it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headgate.testing.simulation.drivers import DriverProcess
from headgate.testing.simulation.simulated_processes import Process, WorkerProcess
from headgate.testing.simulation.virtual_disk import Verdict

if TYPE_CHECKING:
    from headgate.testing.simulation.world import World

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
    """What all kinds of faults need.

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

    @property
    def drivers_change(self) -> bool:
        """Whether this seed may have more than one driver."""
        return any("driver" in kind for kind in self._kinds)

    def maybe_strike(self) -> None:
        """Perhaps do something, between two actions."""
        if not self._left or self._rng.random() >= self._chance or self._world.supervisor.done:
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

    def did(self, what: str) -> None:
        """Something was done to the job from outside."""
        self._did(what)

    # -- for the kinds

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
        living = self._world.living()
        return self._rng.choice(living) if living else None

    def _some_driver(self) -> DriverProcess | None:
        """A driver that lives; mostly one that leads."""
        living = self._world.supervisor.living()
        leading = [driver for driver in living if driver.runs_job]
        return self._rng.choice(leading or living) if living else None

    def _some_process(self) -> Process | None:
        living: list[Process] = [*self._world.supervisor.living(), *self._world.living()]
        return self._rng.choice(living) if living else None

    def _did(self, what: str) -> None:
        self.done.append(f"{self._world.now()} ms: {what}")
        self._world.note(f"FAULT {what}")


def _nothing() -> None:
    """It was undone already."""
