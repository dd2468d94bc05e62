"""What each vertex of a running job does at present: records per second, and shares of its time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from headgate.runtime.protocol.messages import Counters

SAMPLES: Final = 6
SAMPLE_MS: Final = 900
"""Paces are those between the oldest and the newest of so many heartbeats, so far apart or more."""

Task = tuple[int, int]


class Pace(NamedTuple):
    """What a vertex has done: `records` in all; per second and as shares of time, None: not known."""

    records: int
    per_s: float | None
    busy: float | None  # of the busiest subtask, 0 to 1
    backpressured: float | None  # of the subtask that was so longest


class VertexPaces:
    """The newest totals of all subtasks of one attempt, and what follows of them."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, dict[Task, Counters]]] = deque(maxlen=SAMPLES)

    def restarted(self) -> None:
        self._samples.clear()

    def update(self, counters: Iterable[Counters], now_ms: int) -> None:
        """Take the newest totals of the attempt's subtasks; `now_ms` is by the monotonic clock."""
        if len(self._samples) > 1 and now_ms - self._samples[-2][0] < SAMPLE_MS:
            self._samples.pop()
        self._samples.append((now_ms, {(each.vertex, each.subtask): each for each in counters}))

    def of(self, vertex: int) -> Pace:
        """Return what a vertex does; a vertex that has told nothing has no records."""
        if not self._samples:
            return Pace(0, None, None, None)
        (first_ms, first), (last_ms, last) = self._samples[0], self._samples[-1]
        mine = [(first.get(task), now) for task, now in last.items() if task[0] == vertex]
        records = sum(_records(now) for _, now in mine)
        passed_ms = last_ms - first_ms
        both = [(before, now) for before, now in mine if before is not None]
        if passed_ms < SAMPLE_MS or not both:
            return Pace(records, None, None, None)
        return Pace(
            records,
            sum(max(0, _records(now) - _records(before)) for before, now in both) * 1000 / passed_ms,
            max(_share(now.busy_ms - before.busy_ms, passed_ms) for before, now in both),
            max(_share(now.backpressured_ms - before.backpressured_ms, passed_ms) for before, now in both),
        )


def _records(counters: Counters) -> int:
    return counters.records_in


def _share(spent_ms: int, passed_ms: int) -> float:
    return min(1.0, max(0.0, spent_ms / passed_ms))
