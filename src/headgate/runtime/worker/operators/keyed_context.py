"""The context, the timers and the output of a keyed function, and the firing of timers in slices."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic

import numpy as np

from headgate.api.functions import OutputTag
from headgate.common.ports import Clock
from headgate.common.time import WATERMARK_MIN
from headgate.core.timers import TimerQueue
from headgate.records.row_batch import RowBatch
from headgate.runtime.worker.operators.operator_contract import R
from headgate.runtime.worker.operators.outputs import SideBuffer
from headgate.runtime.worker.operators.wrong_use import NO_EVENT_TIME

_LOG: Final = logging.getLogger(__name__)

STRIDE_MAX: Final = 16
"""Most timers that fire between two readings of the clock, once they have proved cheap."""


class Timers:
    """The timers of a keyed operator, as its function sees them: each is registered for the current key.
    It implements `api.functions.TimerService`; the operator sets its queues, which are in the state backend.
    """

    __slots__ = ("_clock", "_ctx", "_label", "current_watermark", "event", "processing", "untimed")

    def __init__(self, ctx: KeyContext, clock: Clock, label: str) -> None:
        self.untimed, self._label = False, label
        self.current_watermark = WATERMARK_MIN
        self.event: TimerQueue[Hashable] = TimerQueue()
        self.processing: TimerQueue[Hashable] = TimerQueue()
        self._ctx, self._clock = ctx, clock

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def register_event_time(self, timestamp: int) -> None:
        if self._ctx.timestamp is None:
            self._note_untimed(timestamp)
        self.event.register(timestamp, self._ctx.key)

    def _note_untimed(self, timestamp: int | None) -> None:
        if timestamp is None:
            raise TypeError(f"a timer is registered for None: {NO_EVENT_TIME}")
        if self.untimed:
            return
        self.untimed = True
        _LOG.warning(
            "%s registers timers in event time, and its stream has none, so they fire at the end of the "
            "input, and never where it has no end; call with_event_time() before key_by(), or register them "
            "in processing time",
            self._label,
        )

    def register_processing_time(self, timestamp: int) -> None:
        self.processing.register(timestamp, self._ctx.key)

    def delete_event_time(self, timestamp: int) -> None:
        self.event.delete(timestamp, self._ctx.key)

    def delete_processing_time(self, timestamp: int) -> None:
        self.processing.delete(timestamp, self._ctx.key)


class KeyContext:
    """The context that a keyed function gets with each record and timer.
    `timestamp` is in ms, None without event time; `time_domain` is "processing" only for timers of that time.
    """

    __slots__ = ("_side", "key", "time_domain", "timers", "timestamp")

    def __init__(self, side: SideBuffer, clock: Clock, label: str) -> None:
        self.key: Hashable = None
        self.timestamp: int | None = None
        self.time_domain = "event"
        self.timers = Timers(self, clock, label)
        self._side = side

    def side_output(self, tag: OutputTag, value: R) -> None:
        time, mark = self.timestamp, self.timers.current_watermark
        if self.time_domain == "processing":
            time = mark if mark > WATERMARK_MIN else None
        self._side.add(tag, value, time, mark)


class KeyedOutput(Generic[R]):
    """Collects a keyed operator's main output for one batch: records, their timestamps and watermarks."""

    __slots__ = ("marks", "records", "times")

    def __init__(self) -> None:
        self.records: list[R] = []
        self.times: list[int] = []
        self.marks: list[int] = []

    def batch(self) -> RowBatch:
        """Return the collected records as a batch; without event time unless each has a timestamp."""
        if len(self.times) != len(self.records):
            return RowBatch(self.records)
        times = np.array(self.times, dtype=np.int64)
        return RowBatch(self.records, times, np.array(self.marks, dtype=np.int64))


class Slice:
    """Limits the time for which timers fire in one step to `target_ms` of the wall clock; None is no limit.
    The clock is read after 1, then 2, 4, 8, 16, 16 ... more timers: an expensive one ends the slice at once,
    and cheap ones do not pay. The caller decrements `left` for each timer, and calls :meth:`over` at 0.
    """

    __slots__ = ("_clock", "_ends", "_granted", "_stride", "left")

    def __init__(self, clock: Clock, target_ms: int | None) -> None:
        self._clock, self._stride = clock, 1
        self._ends = 0.0 if target_ms is None else clock.precise_ms() + target_ms
        self.left = self._granted = -1 if target_ms is None else 1  # from -1 it never reaches 0

    @property
    def fired(self) -> int:
        return self._granted - self.left

    def over(self) -> bool:
        """Return whether the time has passed; if not, `left` timers may fire until the next call."""
        over = self._clock.precise_ms() >= self._ends
        if not over:
            self._stride = min(2 * self._stride, STRIDE_MAX)
        self.left = 1 if over else self._stride
        self._granted += self.left
        return over


@dataclass(slots=True)
class Firing:
    """The due timers of event or processing time, which fire in slices of a few ms until all have fired.
    `target`: timers at or before it (ms) are due; `announce`: it is passed on as a watermark after the last;
    `allowed`: how many more timers may fire (None: any number).
    """

    target: int  # timers at or before it are due, in ms
    # the timers taken from the queue; kept from slice to slice, as taking a bucket of a million timers
    # costs as much as a slice.
    due: Iterable[tuple[int, Hashable]]
    announce: bool = False  # whether the target is passed on as a watermark when all have fired
    allowed: int | None = None  # how many more timers may fire; None: any number
