"""Windows of rows add the records of a key and window together, as far as nobody can see a difference.

A batch is ordered by key and window, once and by whole columns, and the state of each window is read and
written once for all of its records. That is done where only the end of a window makes it emit: then nothing
comes out between two records, and no timer fires. A record that finds one of its windows ended already, or
that comes after a timer which an earlier one has made due, ends such a portion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

import numpy as np

from headgate.api.functions import KeyedContext
from headgate.api.windows.assigners import CumulativeWindows, SlidingWindows
from headgate.api.windows.window_function import WindowFunction
from headgate.common.errors import UsageError
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.runtime.worker.operators.keyed_context import KeyedOutput
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.operators.keyed_run import KeyedRun
from headgate.runtime.worker.operators.windows_of_rows.added_records import add_to_state
from headgate.runtime.worker.operators.windows_of_rows.key_codes import codes_of_keys
from headgate.runtime.worker.operators.windows_of_rows.ordered_records import Assigned, OrderedRecords
from headgate.runtime.worker.operators.windows_of_rows.recent_records import (
    LEAST_IN_WINDOW,
    Portion,
    RecentRecords,
)

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

LEAST: Final = 8
"""Fewer records than these are not worth ordering."""

_FAR: Final = 2**60
"""Times (ms) up to here, and durations, can be added in 64 bits."""


def adds_together(function: WindowFunction) -> bool:
    """Return whether a function of windows may get the records of a batch together."""
    assigner = function.assigner
    if isinstance(assigner, SlidingWindows | CumulativeWindows):
        return function.adds_together and max(assigner.size_ms, function.lateness_ms) < _FAR
    return False


@runtime_checkable
class TakesTogether(Protocol):
    """The operator of windows. Records may wait in its `recent` before they are in state; None: none do."""

    recent: RecentRecords | None


class RunOfWindows:
    """Calls a function of windows for records of one batch: for those of a key and window at once where that
    is possible, else for one after the other. Made and called as :class:`KeyedRun`.
    """

    def __init__(
        self,
        operator: KeyedProcessOperator,
        batch: Batch,
        out: KeyedOutput,
        origins: list[int],
        times: Int64s | None,
        marks: Int64s | None,
    ) -> None:
        self._operator, self._batch, self._out, self._origins = operator, batch, out, origins
        self._ctx = cast(KeyedContext[Any], operator._ctx)
        function = operator._function
        assert isinstance(function, WindowFunction)
        assert isinstance(operator, TakesTogether)
        self._function, self._keys = function, operator._key_types.keys_of(batch, operator._key)
        self._recent = operator.recent
        self._times, self._marks = times, marks
        self._one_by_one: KeyedRun | None = None
        self._codes: Int64s | None = None
        if times is None or marks is None or len(times) < LEAST:
            return
        if times.min() > -_FAR and times.max() < _FAR:
            self._codes = codes_of_keys(batch, operator._key, self._keys)
            self._judge(times, marks)

    def _single(self, start: int, stop: int) -> int:
        if self._recent is not None:
            self._recent.flush()  # records that came before are first in state
        if self._one_by_one is None:
            known = self._times, self._marks, self._keys
            self._one_by_one = KeyedRun(self._operator, self._batch, self._out, self._origins, *known)
        return self._one_by_one(start, stop)

    def _judge(self, times: Int64s, marks: Int64s) -> None:
        self._reached = marks
        found = self._assigned = Assigned(self._function.assigner, times)
        self._late = found.last_ends - 1 + self._function.lateness_ms <= marks
        self._some_late = bool(self._late.any())
        # One of the windows has ended: it may emit at once, or some take the record and others do not.
        self._alone = np.flatnonzero((found.first_ends - 1 <= marks) & ~self._late)
        # A record that is late registers nothing.
        self._due = np.where(self._late, np.iinfo(np.int64).max, found.first_ends - 1)

    def __call__(self, start: int, stop: int) -> int:
        """Process records from `start` to before `stop`, fewer if one makes a timer due; return the index of
        the next one. Errors are those of :class:`KeyedRun`.
        """
        if self._codes is None:
            return self._single(start, stop)
        place = int(np.searchsorted(self._alone, start))
        if place < len(self._alone):
            alone = int(self._alone[place])
            if alone == start:
                return self._single(start, start + 1)
            stop = min(stop, alone)
        stop = self._until_due(start, stop)
        enough = stop - start >= LEAST or self._waits()
        return stop if enough and self._add(start, stop) else self._single(start, stop)

    def _waits(self) -> bool:
        return self._recent is not None and isinstance(self._batch, ArrowBatch)

    def _until_due(self, start: int, stop: int) -> int:
        # before the first record whose watermark has reached the end of a window that an earlier one is in
        earliest = np.minimum.accumulate(self._due[start : stop - 1])
        reached = np.flatnonzero(earliest <= self._reached[start + 1 : stop])
        return start + 1 + int(reached[0]) if len(reached) else stop

    def _add(self, start: int, stop: int) -> bool:
        assert self._codes is not None
        found = self._assigned
        first, last = found.first[start], found.first[stop]
        pairs, ends = found.records[first:last], found.ends[first:last]
        if self._some_late:
            in_time = ~self._late[pairs]
            pairs, ends = pairs[in_time], ends[in_time]
        if len(pairs) and not self._take(pairs, ends):
            return False
        if self._some_late:
            self._refuse_late(start, stop)
        return True

    def _take(self, pairs: Int64s, ends: Int64s) -> bool:
        assert self._codes is not None
        step = self._assigned.step
        if self._recent is not None:
            least, most = int(ends.min()), int(ends.max())
            many = len(pairs) >= LEAST_IN_WINDOW * ((most - least) // step + 1)
            if many and isinstance(self._batch, ArrowBatch):
                now = self._operator.context.clock.monotonic_ms()
                some = Portion(self._batch, self._keys, self._codes, pairs, ends, now, least, most)
                self._recent.add(some, step)
                return True
            self._recent.flush()
        ordered = OrderedRecords(self._batch, pairs, ends, self._codes, step)
        try:
            adder = self._function.adder(ordered)
        except UsageError:
            return False  # state cannot hold one of them; then the error is to name it
        add_to_state(self._operator, self._function, ordered, self._keys, adder)
        return True

    def _refuse_late(self, start: int, stop: int) -> None:
        late = (np.flatnonzero(self._late[start:stop]) + start).tolist()
        rows = self._batch.rows() if late else ()
        for index in late:
            self._turn_to(index)
            self._function.refuse_late(rows[index], self._ctx)

    def _turn_to(self, index: int) -> None:
        assert self._times is not None
        assert self._marks is not None
        ctx: Any = self._ctx
        ctx.key, ctx.timestamp = self._keys[index], int(self._times[index])
        self._operator._timers.current_watermark = int(self._marks[index])
