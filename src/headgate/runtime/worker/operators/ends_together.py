"""Windows of rows end for many keys together: state of all of them is read and removed in bulk.

That is done where only the end of a window makes it emit, and where state is in memory: then nothing but the
program's function of whole windows is called for a key, and it can neither register timers nor see more of
the state than what it remembers of its window.
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
from headgate.state.heap.handles import HeapMapState, HeapTable

LEAST: Final = 16
"""Keys that are taken together at first, and after a slice of time has ended among them."""

MOST: Final = 256
"""Keys that are taken together at most."""


def ends_together(operator: KeyedProcessOperator, function: WindowFunction) -> EndsTogether | None:
    """Return what ends windows of many keys of an opened operator, None if they must end one by one."""
    states = list(operator._backend.handles.values())
    in_memory = all(type(state) is HeapMapState and type(state.table) is HeapTable for state in states)
    if not in_memory or type(operator._timers.event) is not TimerQueue or not function.ends_at_once:
        return None
    return None if function.ends(Window(0, 0), ()) is None else EndsTogether(operator, function)


class EndsTogether:
    """Ends the windows of many keys together for one operator; its timers are taken off the queue."""

    def __init__(self, operator: KeyedProcessOperator, function: WindowFunction) -> None:
        self._operator, self._function = operator, function
        self._due, self._remembered = cast(Any, function.due), cast(Any, function.remembered)
        self._portion, self._over = LEAST, False

    def fire(self, firing: Firing, out: KeyedOutput, time: Slice) -> bool:
        """Fire due timers of `firing` in order, into `out`, until slice `time` ends or a timer is no end of a
        window alone. Return False if the slice ended while timers are due.
        """
        operator, queue, target = self._operator, self._operator._timers.event, firing.target
        while (due := queue.next_time) is not None and due <= target:
            window = self._function.assigner.window_ending(due + 1)
            if window is None or self._due.table.entries:
                return True
            operator._reach(min(due - 1, target))
            keys = queue.first_at(due, self._portion)
            fired = self._end(window, keys, out, time)
            queue.discard(due, keys[:fired])
            if firing.allowed is not None:
                firing.allowed -= fired
            self._portion = LEAST if self._over else min(2 * self._portion, MOST)
            if self._over and queue.has_due(target):
                return False
        return True

    def _end(self, window: Window, keys: Sequence[Hashable], out: KeyedOutput, time: Slice) -> int:
        """End `window` for `keys` until slice `time` ends; return for how many."""
        timestamp, before = window.max_timestamp, len(out.records)
        self._operator._ctx.timestamp = timestamp
        ends = self._function.ends(window, keys)
        assert ends is not None
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
        remembers, place, key, self._over = bool(remembered.table.entries), -1, None, False
        try:
            for place, key in enumerate(keys):
                ctx.key = key
                view_of(window, ctx)
                if remembers:
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
