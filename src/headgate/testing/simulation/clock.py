"""Virtual time: the time line of a simulation, each process's view of it, and what can happen next."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

EPOCH_MS = 1_700_000_000_000
"""Wall clock at the beginning of every simulation, in ms since 1970."""

Action = Callable[[], str | None]
"""Something that a process or a message does; returns a word for the trace."""


class Timeline:
    """Virtual monotonic ms since the beginning, which only :meth:`advance` moves, and the planned actions.

    Example:
        >>> line, done = Timeline(), []
        >>> line.at(5, "later", lambda: done.append("later"))
        >>> line.advance(5); line.due()[1]
        'later'
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._planned: list[tuple[int, int, str, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, when_ms: int, name: str, action: Callable[[], None]) -> None:
        """Plan `action`; plans for the same time keep their order."""
        heapq.heappush(self._planned, (max(when_ms, self.now_ms), next(self._numbers), name, action))

    def after(self, delay_ms: int, name: str, action: Callable[[], None]) -> None:
        """Plan `action` for `delay_ms` from now."""
        self.at(self.now_ms + delay_ms, name, action)

    def next_time(self) -> int | None:
        """Return when the next plan is due."""
        return self._planned[0][0] if self._planned else None

    def due(self) -> tuple[int, str] | None:
        """Time and name of the next plan if its time has come; it stays planned."""
        if not self._planned or self._planned[0][0] > self.now_ms:
            return None
        when, _, name, _ = self._planned[0]
        return when, name

    def take(self) -> Callable[[], None]:
        """Remove the next plan and return its action."""
        return heapq.heappop(self._planned)[3]

    def advance(self, to_ms: int) -> None:
        """Let time pass until `to_ms`."""
        assert to_ms >= self.now_ms
        self.now_ms = to_ms


class SimClock:
    """One process's clocks; implements `common.ports.Clock`.

    `rng` decides how long things take, up to `step_ms` between two looks at the precise clock. The wall clock
    is off by `skew_ms`, which may be changed at any time: that is a wall clock that jumps.
    """

    def __init__(self, line: Timeline, rng: random.Random, skew_ms: int = 0, step_ms: float = 1.0) -> None:
        self._line, self._rng = line, rng
        self.skew_ms, self._step_ms = skew_ms, step_ms
        self._offset_ms = 0.0

    def now_ms(self) -> int:
        """Return the milliseconds of the wall clock."""
        return EPOCH_MS + self._line.now_ms + self.skew_ms

    def monotonic_ms(self) -> int:
        """Return the time line."""
        return self._line.now_ms

    def precise_ms(self) -> float:
        """Return the time line, with work taking a random while."""
        self._offset_ms += self._rng.random() * self._step_ms
        return self._line.now_ms + self._offset_ms


class SimRandom:
    """Implements `common.ports.Randomness` from a seed."""

    def __init__(self, rng: random.Random) -> None:
        self.token, self.uniform = rng.randbytes, rng.uniform


class Agenda:
    """What processes and messages can do at the time `now`, and when more becomes possible (`following`).

    `ready` holds the actions in the order of entry, `names` a name for each; None is for time to pass.
    `oldest` is since when the one that has waited longest is possible, and `now` without any.

    Example:
        >>> agenda = Agenda(10)
        >>> agenda.add("worker 0", 8, lambda: "worked"); agenda.add("wire", 12, lambda: "delivered")
        >>> agenda.names, agenda.oldest, agenda.following
        (['worker 0'], 8, 12)
    """

    __slots__ = ("following", "names", "now", "oldest", "ready")

    def __init__(self, now: int) -> None:
        self.now = self.oldest = now
        self.ready: list[Action | None] = []
        self.names: list[str] = []
        self.following: int | None = None

    def add(self, name: str, since: int | None, action: Action) -> None:
        """Enter an action that is possible since or from a time on; None is never."""
        if since is None:
            return
        if since > self.now:
            self.not_before(since)
            return
        self.ready.append(action)
        self.names.append(name)
        if since < self.oldest:
            self.oldest = since

    def not_before(self, time: int | None) -> None:
        """Something becomes possible at a time; one that has passed changes nothing."""
        if time is not None and time > self.now and (self.following is None or time < self.following):
            self.following = time
