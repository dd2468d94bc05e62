"""Windows of rows end for many keys together: state of all of them is read and removed in bulk.

That is done where only the end of a window makes it emit, and where state is in memory or has nothing of the
window yet: then nothing but the program's function of whole windows is called for a key, and it can neither
register timers nor see more of the state than what it remembers of its window.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, cast

from headgate.api.windows.ends import Ends
from headgate.api.windows.window import Window
from headgate.api.windows.window_function import WindowFunction
from headgate.core.timers import TimerQueue
from headgate.runtime.job.user_errors import timer_error
from headgate.runtime.worker.operators.keyed_context import Firing, KeyedOutput, Slice
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.operators.windows_of_rows.recent_records import RecentRecords
from headgate.state.heap.handles import HeapMapState, HeapTable

LEAST: Final = 16
"""Keys that are taken together at first, and after a slice of time has ended among them."""

MOST: Final = 256
"""Keys that are taken together at most."""


def ends_together(
    operator: KeyedProcessOperator, function: WindowFunction, recent: RecentRecords | None
) -> EndsTogether | None:
    """Return what ends windows of many keys of an opened operator, None if they must end one by one.
    `recent` are records that wait for that and are not in state yet.
    """
    states = list(operator._backend.handles.values())
    in_memory = all(type(state) is HeapMapState and type(state.table) is HeapTable for state in states)
    in_memory = in_memory and type(operator._timers.event) is TimerQueue
    in_memory = in_memory and function.ends_at_once and function.ends(Window(0, 0), ()) is not None
    return EndsTogether(operator, function, recent, in_memory) if in_memory or recent is not None else None


class EndsTogether:
    """Ends the windows of many keys together for one operator; its timers are taken off the queue.
    `in_memory`: whether state is; else only windows of records that wait in `recent` end together.
    """

    def __init__(
        self,
        operator: KeyedProcessOperator,
        function: WindowFunction,
        recent: RecentRecords | None,
        in_memory: bool,
    ) -> None:
        self._operator, self._function, self._recent = operator, function, recent
        self._in_memory = in_memory
        self._due, self._remembered = cast(Any, function.due), cast(Any, function.remembered)
        self._portion, self._over = LEAST, False

    def fire(self, firing: Firing, out: KeyedOutput, time: Slice) -> bool:
        """Fire due timers of `firing` in order, into `out`, until slice `time` ends or a timer is no end of a
        window alone. Return False if the slice ended while timers are due.
        """
        queue, target, recent = self._operator._timers.event, firing.target, self._recent
        while True:
            due, fresh = queue.next_time, None if recent is None else recent.next_end
            if fresh is not None and fresh - 1 <= target and (due is None or fresh - 1 < due):
                self._end_recent(fresh, firing, out, time)
            elif due is None or due > target or not self._end_stored(due, firing, out, time):
                return True
            self._portion = LEAST if self._over else min(2 * self._portion, MOST)
            if self._over and self._has_due(target):
                return False

    def _has_due(self, target: int) -> bool:
        fresh = None if self._recent is None else self._recent.next_end
        return (fresh is not None and fresh - 1 <= target) or self._operator._timers.event.has_due(target)

    def _end_recent(self, end: int, firing: Firing, out: KeyedOutput, time: Slice) -> None:
        assert self._recent is not None
        self._operator._reach(min(end - 2, firing.target))
        ending = self._recent.ending()
        self._end(ending.window, ending, ending.first(self._portion), out, time)
        self._recent.ended()

    def _end_stored(self, due: int, firing: Firing, out: KeyedOutput, time: Slice) -> bool:
        """End the windows of which state says that they end at `due`; False: timers must fire one by one."""
        window = self._function.assigner.window_ending(due + 1) if self._in_memory else None
        if window is None or self._due.table.entries:
            if self._recent is not None:
                self._recent.flush(firing.target + 1)
            return False
        if self._recent is not None:
            self._recent.flush(due + 1)  # records that wait follow those in state
        queue = self._operator._timers.event
        self._operator._reach(min(due - 1, firing.target))
        keys = queue.first_at(due, self._portion)
        ends = self._function.ends(window, keys)
        assert ends is not None
        fired = self._end(window, ends, keys, out, time)
        queue.discard(due, keys[:fired])
        if firing.allowed is not None:
            firing.allowed -= fired
        return True

    def _end(
        self, window: Window, ends: Ends, keys: Sequence[Hashable], out: KeyedOutput, time: Slice
    ) -> int:
        """End `window` for `keys` until slice `time` ends; return for how many."""
        timestamp, before = window.max_timestamp, len(out.records)
        self._operator._ctx.timestamp = timestamp
        fired = self._call(ends, window, keys, out.records, time)
        ends.forget(fired)
        fresh = len(out.records) - before
        out.times.extend([timestamp] * fresh)
        out.marks.extend([self._operator._mark] * fresh)
        return fired

    def _call(
        self, ends: Ends, window: Window, keys: Sequence[Hashable], records: list[Any], time: Slice
    ) -> int:
        ctx: Any = self._operator._ctx
        view_of, view, results = self._function._view.of, self._function._view, ends.results
        timestamp, remembered = window.max_timestamp, self._remembered
        remembers = self._in_memory and bool(remembered.table.entries)
        binds, place, key, self._over = remembers or not self._in_memory, -1, None, False
        try:
            for place, key in enumerate(keys):
                ctx.key = key
                view_of(window, ctx)
                if binds:
                    remembered.bind(key)
                records += [(timestamp, result) for result in results(place, view)]
                if remembers:
                    view.drop()
                time.left -= 1
                if not time.left and time.over():
                    self._over = True
                    break
        except BaseException as error:
            raise timer_error(self._operator.context, error, key, timestamp) from None
        return place + 1
