"""Virtual time: one time line for the whole simulation, and each process's own view of it."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

EPOCH_MS = 1_700_000_000_000
"""Wall clock at the beginning of every simulation, in ms since 1970."""


class Timeline:
    """Time that moves only when it is told to, and what was planned for later.

    Attributes:
        now_ms: virtual monotonic milliseconds since the beginning.

    Example:
        >>> line, done = Timeline(), []
        >>> line.at(5, "later", lambda: done.append("later"))
        >>> line.advance(5); line.due()[1]
        'later'
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._planned: list[tuple[int, int, str, Callable[[], None]]] = []
        self._count = 0

    def at(self, when_ms: int, name: str, action: Callable[[], None]) -> None:
        """Plan `action`; plans for the same time keep their order."""
        self._count += 1
        heapq.heappush(self._planned, (max(when_ms, self.now_ms), self._count, name, action))

    def after(self, delay_ms: int, name: str, action: Callable[[], None]) -> None:
        """Plan `action` for `delay_ms` from now."""
        self.at(self.now_ms + delay_ms, name, action)

    def next_time(self) -> int | None:
        """When the next plan is due."""
        return self._planned[0][0] if self._planned else None

    def due(self) -> tuple[int, str, Callable[[], None]] | None:
        """The next plan if its time has come; it stays planned."""
        if not self._planned or self._planned[0][0] > self.now_ms:
            return None
        when, _, name, action = self._planned[0]
        return when, name, action

    def take(self) -> Callable[[], None]:
        """Remove the next plan and give its action."""
        return heapq.heappop(self._planned)[3]

    def advance(self, to_ms: int) -> None:
        """Let time pass until `to_ms`."""
        assert to_ms >= self.now_ms
        self.now_ms = to_ms


class SimClock:
    """One process's clocks; implements `common.ports.Clock`.

    Args:
        line: the time line.
        rng: draws how long things take; only `precise_ms` shows it.
        skew_ms: how far this process's wall clock is off.
        step_ms: greatest fraction that passes between two looks at the precise clock.

    Attributes:
        skew_ms: may be changed at any time: that is a wall clock that jumps.
    """

    def __init__(self, line: Timeline, rng: random.Random, skew_ms: int = 0, step_ms: float = 1.0) -> None:
        self._line, self._rng = line, rng
        self.skew_ms, self._step_ms = skew_ms, step_ms
        self._offset_ms = 0.0

    def now_ms(self) -> int:
        """Wall clock."""
        return EPOCH_MS + self._line.now_ms + self.skew_ms

    def monotonic_ms(self) -> int:
        """The time line."""
        return self._line.now_ms

    def precise_ms(self) -> float:
        """The time line, with work taking a random while."""
        self._offset_ms += self._rng.random() * self._step_ms
        return self._line.now_ms + self._offset_ms


class SimRandom:
    """Implements `common.ports.Randomness` from a seed."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def token(self, size: int) -> bytes:
        """`size` bytes."""
        return self._rng.randbytes(size)

    def uniform(self, low: float, high: float) -> float:
        """A number in between."""
        return self._rng.uniform(low, high)
