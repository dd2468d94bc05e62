"""Virtual time of a simulation: the time line, each process's clocks, and the actions that are possible."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

EPOCH_MS = 1_700_000_000_000
"""Wall clock at the beginning of every simulation, in ms since 1970."""

Action = Callable[[], str | None]
"""An action of a process or message that the simulation runs; returns a word for the trace."""


class Timeline:
    """Virtual monotonic time in ms, which only :meth:`advance` moves, and actions planned for times on it.

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
        """Plan `action` for virtual time `when_ms`, or for now if that has passed; actions of one time keep
        their order. It runs only when a caller takes and calls it. `name` is for the trace.
        """
        heapq.heappush(self._planned, (max(when_ms, self.now_ms), next(self._numbers), name, action))

    def after(self, delay_ms: int, name: str, action: Callable[[], None]) -> None:
        """Plan `action`, with a name for the trace, for `delay_ms` virtual ms from now, like :meth:`at`."""
        self.at(self.now_ms + delay_ms, name, action)

    def next_time(self) -> int | None:
        return self._planned[0][0] if self._planned else None

    def due(self) -> tuple[int, str] | None:
        """Return (time, name) of the earliest planned action if its time has come, and keep it; else None."""
        if not self._planned or self._planned[0][0] > self.now_ms:
            return None
        when, _, name, _ = self._planned[0]
        return when, name

    def take(self) -> Callable[[], None]:
        """Remove the earliest planned action and return it for the caller to run; IndexError if none."""
        return heapq.heappop(self._planned)[3]

    def advance(self, to_ms: int) -> None:
        """Set the virtual time to `to_ms`; AssertionError if that would go back. It runs no due action."""
        assert to_ms >= self.now_ms
        self.now_ms = to_ms


class SimClock:
    """The clocks of one simulated process; implements `common.ports.Clock`.

    `rng` decides how long things take, up to `step_ms` between two readings of the precise clock. The wall
    clock is off by `skew_ms`, which may be changed at any time: that is a wall clock that jumps.
    """

    def __init__(self, line: Timeline, rng: random.Random, skew_ms: int = 0, step_ms: float = 1.0) -> None:
        self._line, self._rng = line, rng
        self.skew_ms, self._step_ms = skew_ms, step_ms
        self._offset_ms = 0.0

    def now_ms(self) -> int:
        return EPOCH_MS + self._line.now_ms + self.skew_ms

    def monotonic_ms(self) -> int:
        return self._line.now_ms

    def precise_ms(self) -> float:
        self._offset_ms += self._rng.random() * self._step_ms
        return self._line.now_ms + self._offset_ms


class SimRandom:
    """Randomness of a simulated process, from the seed; implements `common.ports.Randomness`."""

    def __init__(self, rng: random.Random) -> None:
        self.token, self.uniform = rng.randbytes, rng.uniform


class Agenda:
    """The actions of processes and messages possible at the time `now`; the simulation picks one.

    `ready` holds the actions in the order of entry, `names` a name for each; None stands for letting time
    pass. `oldest` is since when the action that has waited longest is possible; `following` is the next time
    at which another one becomes possible, or None.

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
        """Add an action that is possible from virtual time `since` (ms) on. One in the future only lowers
        `following`; with None the action is not possible, and nothing is added. `name` is for the trace.
        """
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
        """Record in `following` that an action becomes possible at `time` (ms); ignore None and the past."""
        if time is not None and time > self.now and (self.following is None or time < self.following):
            self.following = time
