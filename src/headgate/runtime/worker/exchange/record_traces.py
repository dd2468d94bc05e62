"""The records of a worker that are followed on their way, while the job master wants that.

It says so in its answers to heartbeats: it numbers the tracings, and the worker sends, with each heartbeat,
which visits of such records to its subtasks have ended. While nothing is traced a subtask that reads input
looks at one attribute for each batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from itertools import count
from typing import Final

from headgate.common.ports import Clock
from headgate.runtime.protocol.trace_numbers import trace_number
from headgate.runtime.protocol.visits import Visit

PAUSE_MS: Final = 50.0
"""A source subtask begins no more than one trace in this time: a traced record goes through alone."""
VISITS_MAX: Final = 5_000  # that wait for a heartbeat; the oldest are dropped
LOOKS: Final = 2_000  # at the clocks, which take more than a millisecond


class RecordTraces:
    """What one worker knows of traced records. Its loop and its subtasks' threads call `begin`, `number` and
    `ended`, other threads `wanted` and `take`. `slot` makes its numbers differ from those of other workers.
    """

    def __init__(self, clock: Clock, slot: int = 0) -> None:
        self.every = 0  # one record in so many is traced; 0: none
        self.attempt = 0
        self._clock, self._slot, self._tracing = clock, slot, 0
        self._counted, self._visits = count(1), deque[Visit](maxlen=VISITS_MAX)
        self._seen: dict[Hashable, int] = {}  # records since the last trace, by subtask of a source
        self._last_ms: dict[Hashable, float] = {}
        self._offset_ms = 0.0

    def wanted(self, tracing: int, every: int) -> None:
        """Trace one record in `every` for the tracing of this number; 0: none."""
        if tracing != self._tracing:
            self._tracing, self._offset_ms = tracing, self._measured_offset_ms()
        self.every = every

    def begin(self, subtask: Hashable, records: int) -> int | None:
        """Count a batch that a source has read; return the place in it of a record that is to be traced."""
        seen, now_ms = self._seen.get(subtask, 0) + records, self._clock.precise_ms()
        self._seen[subtask] = seen
        if seen < self.every or now_ms - self._last_ms.get(subtask, -PAUSE_MS) < PAUSE_MS:
            return None
        self._seen[subtask], self._last_ms[subtask] = 0, now_ms
        return seen * 7919 % records  # not always the first, which waits longest for the batch to be sent

    def number(self) -> int:
        """Return a number for a visit, which no other visit of the job has."""
        return (self.attempt & 0xFFFF) << 44 | (self._slot & 0xFFFF) << 28 | next(self._counted) & 0xFFFFFFF

    def trace_number(self) -> int:
        """Return a number for the way of another record."""
        return trace_number(self._tracing, self.number())

    def wall_us(self) -> int:
        """Return the wall clock in microseconds; the same in all workers of a machine."""
        return round((self._clock.precise_ms() + self._offset_ms) * 1000)

    def duration_us(self) -> int:
        return round(self._clock.precise_ms() * 1000)

    def _measured_offset_ms(self) -> float:
        # The wall clock counts whole milliseconds. Just after it has moved it is exact, and that is soon.
        return max(self._clock.now_ms() - self._clock.precise_ms() for _ in range(LOOKS))

    def ended(self, visit: Visit) -> None:
        self._visits.append(visit)

    def take(self) -> list[Visit]:
        """Return the visits that have ended since the last call."""
        taken: list[Visit] = []
        with suppress(IndexError):  # another thread appends meanwhile, and then the oldest may be dropped
            for _ in range(VISITS_MAX):
                taken.append(self._visits.popleft())
        return taken
