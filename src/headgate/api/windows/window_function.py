"""The keyed function that runs windows: assigns records, asks the trigger, merges sessions, forgets windows.

What a window keeps and what its result is, subclasses decide (`folding`, `keeping`). State per key:

    windows   (start, end) -> what the window keeps
    due       (clock, time) -> windows that end or are forgotten at that time, or whose trigger asked for it;
              not where only the end of a window makes it emit, as a time tells which window ends there
    remembered  (start, end) -> what the trigger, and the program's function, remember of the window
    records   (start, end, place) -> record; where records are kept

Outputs are pairs of event time (None: that of the record or timer) and result; the operator takes them apart.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from headgate.api.declared.keyed_states import MapState, map_state
from headgate.api.declared.operator_state import OperatorListState, operator_list_state
from headgate.api.functions import (
    KeyedContext,
    KeyedProcessFunction,
    OnTimerContext,
    OutputTag,
    RuntimeContext,
)
from headgate.api.windows.assigners import CumulativeWindows, SlidingWindows, WindowAssigner
from headgate.api.windows.ends import Ends
from headgate.api.windows.together import Adder, Together
from headgate.api.windows.trigger import Trigger, TriggerResult, TriggerState
from headgate.api.windows.triggers import EndOfWindow
from headgate.api.windows.window import TimeDomain, Window
from headgate.common.errors import UsageError

Key: TypeAlias = "tuple[int, int]"
"""A window as a key of state: its start and end, in ms since 1970."""
Output: TypeAlias = "tuple[int | None, Any]"

LAYOUT: Final = 2
"""The layout of state that is written; the first one had no number, and noted every end in `due`."""

EVENT: Final = 0
PROCESSING: Final = 1


class Rules(NamedTuple):
    """The windows' assigner and trigger, how long they take late records, and where later records go."""

    assigner: WindowAssigner
    trigger: Trigger
    lateness_ms: int = 0  # for so long after its end a window takes records
    late_tag: OutputTag[Any] | None = None  # where later ones go; None: they are dropped


class WindowFunction(KeyedProcessFunction[Any, Any, Any]):
    """Runs windows of one shape for all keys of a subtask; subclasses say what a window keeps.

    Attributes:
        dropped: number of late records that were dropped since the function was opened.
    """

    due: MapState[tuple[int, int], list[tuple[int, int, bool]]] = map_state()  # last: whether asked for
    remembered: MapState[tuple[int, int], dict[str, Any]] = map_state()
    # key groups that are further in event time than their subtask, each with its watermark
    ahead: OperatorListState[tuple[int, int]] = operator_list_state(redistribution="union")
    # LAYOUT, for versions that would misread what this one stores. The first of them does not know this state
    # and refuses it; it would never end a window of which nothing is in `due`.
    layout: OperatorListState[int] = operator_list_state(redistribution="union")
    windows: ClassVar[Any]  # declared by the class that `window_states` makes, with the type of what is kept

    takes_recent = False
    """Whether `computed` gives the results of the records of a window, which need not have been in state."""

    def __init__(self, rules: Rules) -> None:
        self.assigner, self.trigger, self.lateness_ms, self.late_tag = rules
        self.event_time = rules.assigner.time is TimeDomain.EVENT
        self.usual = type(rules.trigger) is EndOfWindow
        of_times = isinstance(rules.assigner, SlidingWindows | CumulativeWindows)
        self.ends_follow = self.event_time and of_times
        self.ends_at_once = self.usual and self.ends_follow and not rules.lateness_ms
        self.dropped = 0

    def open(self, context: RuntimeContext) -> None:
        stored = max(self.layout.get(), default=1)
        if stored > LAYOUT:
            raise UsageError(
                f"the windows of {context.uid!r} are stored in layout {stored}; this Headgate reads up to "
                f"{LAYOUT}; go on with the version that wrote the snapshot, or a later one"
            )
        self.layout.update([LAYOUT])
        self.dropped = 0
        self._view = WindowView(self)

    # -- what a window keeps

    @abstractmethod
    def add(self, window: Key, record: Any, time_ms: int | None) -> bool:
        """Add a record to what a window keeps for the current key; return whether the window kept nothing
        before, so that its end must be registered. `window` is its start and end in ms; `time_ms` is the
        record's event time, or the wall clock where windows follow that, and None if it has no event time.
        """

    @abstractmethod
    def adder(self, together: Together) -> Adder:
        """Return a function that adds records of `together` to what a window keeps for the current key, with
        the effect of :meth:`add` for each, and returns whether the window kept nothing before.
        """

    @abstractmethod
    def merge(self, window: Key, merged: Sequence[Key]) -> None:
        """Move what the windows `merged`, in order of time, keep to `window`, which may be one of them.
        Called where sessions become one. No entry of the others is left in `windows`.
        """

    @abstractmethod
    def results(self, window: Window, view: WindowView) -> Iterable[Any]:
        """Return the results of what `window` keeps, to be emitted; none if it keeps nothing."""

    def ends(self, window: Window, keys: Sequence[Any]) -> Ends | None:
        """Return what `window`, which ends, keeps for `keys`; None if the function takes keys one by one.
        Only where `ends_at_once`, and if the states are those of :class:`KeyedMaps`.
        """
        return None

    def last_results(self, window: Window, view: WindowView) -> Iterable[Any]:
        """Return the results of what `window` keeps, and forget all of it."""
        results = self.results(window, view)
        self.forget(window.key)
        return results

    @abstractmethod
    def purge(self, window: Key) -> None:
        """Forget what a window keeps; of windows that merge (sessions), the empty window stays known."""

    def forget(self, window: Key) -> None:
        self.purge(window)
        self.windows.remove(window)

    # -- records

    def process(self, record: Any, ctx: KeyedContext[Any]) -> Sequence[Output] | None:
        """Add a record to its windows; return (event time, result) of those that fire, or None. A record
        whose windows have ended, lateness included, is late. UsageError: no event time, which the windows
        need.
        """
        time_ms, watermark = self._time_of(ctx), ctx.timers.current_watermark
        windows = self.assigner.windows_of(record, time_ms)
        if self.assigner.merges:
            windows = self._merged(windows[0], ctx)
        elif self.event_time and self.assigner.bounded:
            passed = watermark - self.lateness_ms + 1
            if windows[0].end <= passed:  # the first one ends first
                windows = [window for window in windows if window.end > passed]
        if not windows:
            self.refuse_late(record, ctx)
            return None
        outputs: list[Output] = []
        kept_time = ctx.timestamp if self.event_time else time_ms
        for window in windows:
            is_new = self.add(window.key, record, kept_time)
            if not is_new and self.usual and not (self.event_time and window.end <= watermark + 1):
                continue  # the usual trigger waits for the end already
            if self.ends_at_once:
                ctx.timers.register_event_time(window.max_timestamp)
                continue
            view = self._view.of(window, ctx, is_new=is_new)
            if is_new:
                self._register_end(window, view)
            result = self.trigger.on_record(record, ctx.timestamp, window, view)
            self._carry_out(result, window, view, outputs)
            view.save()
        return outputs or None

    @property
    def adds_together(self) -> bool:
        """Whether records can be added together: nothing but the end of a window makes it emit."""
        return self.usual and self.event_time and self.assigner.bounded and not self.assigner.merges

    def wait_for_end(self, window: Key, ctx: KeyedContext[Any]) -> None:
        """Register the end of a window that keeps something since now, and on which its trigger waits."""
        time_ms = window[1] - 1
        if self.ends_at_once:
            ctx.timers.register_event_time(time_ms)
            return
        waiting = self.due.get((EVENT, time_ms)) or []
        if (*window, True) in waiting:
            return
        if not waiting:
            ctx.timers.register_event_time(time_ms)
        others = [each for each in waiting if each[:2] != window]
        self.due.put((EVENT, time_ms), [*others, (*window, True)])

    def _time_of(self, ctx: KeyedContext[Any]) -> int:
        if not self.event_time:
            return ctx.timers.now_ms()
        if ctx.timestamp is None:
            if not self.assigner.bounded:
                return 0
            raise UsageError(
                "the windows are of event time, and the stream has none; call with_event_time() before "
                'key_by(), or make windows of time="processing"'
            )
        time_ms: int = ctx.timestamp
        return time_ms

    def refuse_late(self, record: Any, ctx: KeyedContext[Any]) -> None:
        if self.late_tag is not None:
            ctx.side_output(self.late_tag, record)
        else:
            self.dropped += 1

    def _merged(self, window: Window, ctx: KeyedContext[Any]) -> Sequence[Window]:
        touching = sorted(known for known in self.windows if window.touches(Window(*known)))
        if not touching:
            passed = ctx.timers.current_watermark - self.lateness_ms + 1
            return [] if self.event_time and window.end <= passed else [window]
        end = max(window.end, *(end for _, end in touching))
        whole = Window(min(window.start, touching[0][0]), end)
        if [whole.key] != touching:
            self._become(whole, touching, ctx)
        return [whole]

    def _become(self, whole: Window, merged: Sequence[Key], ctx: KeyedContext[Any]) -> None:
        self.merge(whole.key, merged)
        states = [(self.remembered.get(each) or {}).get("trigger", {}) for each in merged]
        view = self._view.of(whole, ctx)
        self.trigger.on_merge(whole, states, view)
        view.save()
        for each in merged:
            if each != whole.key:
                self._clear(Window(*each), self._view.of(Window(*each), ctx))
        self._register_end(whole, self._view.of(whole, ctx))

    # -- time

    def on_timer(self, timestamp: int, ctx: OnTimerContext[Any]) -> Sequence[Output] | None:
        """Ask the trigger about each window that is due at `timestamp` on the timer's clock, and forget
        windows whose lateness has ended; return (event time, result) of those that fire.
        """
        clock = EVENT if ctx.time_domain == "event" else PROCESSING
        waiting = self.due.get((clock, timestamp)) or []
        if waiting:
            self.due.remove((clock, timestamp))
        ended = self.assigner.window_ending(timestamp + 1) if self.ends_follow and clock == EVENT else None
        if ended is not None and self.ends_at_once and all((*ended, True) == each for each in waiting):
            return self._end(ended, ctx)
        if ended is not None and ended in self.windows and not any(ended == each[:2] for each in waiting):
            # It began where only ends made windows emit, so that nothing was noted for it.
            waiting = [(*ended, False), *waiting]
        outputs: list[Output] = []
        for start, end, asked in waiting:
            window = Window(start, end)
            if not self._is_gone(window, clock, ctx):
                self._reach(window, clock, timestamp, asked, self._view.of(window, ctx), outputs)
        return outputs

    def _end(self, window: Window, ctx: OnTimerContext[Any]) -> Sequence[Output]:
        # Most windows end here: nothing else is registered for one, and it is gone after its results.
        view = self._view.of(window, ctx)
        outputs = [(window.max_timestamp, each) for each in self.last_results(window, view)]
        view.drop()
        return outputs

    def _is_gone(self, window: Window, clock: int, ctx: OnTimerContext[Any]) -> bool:
        if self.assigner.merges and window.key not in self.windows:
            return True
        other_clock = self.event_time and self.assigner.bounded and clock == PROCESSING
        return other_clock and bool(ctx.timers.current_watermark >= max(self._own_times(window))[1])

    def _reach(
        self, window: Window, clock: int, timestamp: int, asked: bool, view: WindowView, outputs: list[Output]
    ) -> None:
        own_clock = self.assigner.bounded and clock == (EVENT if self.event_time else PROCESSING)
        # A window may have begun under another trigger, which did not ask for its end.
        if asked or (own_clock and timestamp == window.max_timestamp and self.trigger.wants_end):
            ask = self.trigger.on_event_time if clock == EVENT else self.trigger.on_processing_time
            self._carry_out(ask(timestamp, window, view), window, view, outputs)
        if own_clock and timestamp >= window.max_timestamp:
            # The lateness, too, may be another than when the window began.
            last = max(self._own_times(window))
            if (clock, timestamp) >= last:
                self._clear(window, view)
                self.forget(window.key)
                return
            view.register(*last, asked=False)
        view.save()

    def _own_times(self, window: Window) -> tuple[tuple[int, int], ...]:
        if not self.assigner.bounded:
            return ()
        if not self.event_time:
            return ((PROCESSING, window.max_timestamp),)
        return (EVENT, window.max_timestamp), (EVENT, window.max_timestamp + self.lateness_ms)

    def _register_end(self, window: Window, view: WindowView) -> None:
        for clock, time_ms in self._own_times(window):
            if clock == PROCESSING or time_ms > view.watermark:
                view.register(clock, time_ms, asked=False)
                return

    def _carry_out(
        self, result: TriggerResult, window: Window, view: WindowView, outputs: list[Output]
    ) -> None:
        if result is TriggerResult.CONTINUE:
            return
        if result.fires:
            stamp = window.max_timestamp if self.event_time and self.assigner.bounded else None
            outputs.extend((stamp, each) for each in self.results(window, view))
        if result.purges:
            self.purge(window.key)

    def _clear(self, window: Window, view: WindowView) -> None:
        self.trigger.clear(window, view)
        view.drop()
        for clock, time_ms in self._own_times(window):
            view.delete(clock, time_ms)


class WindowView:
    """What trigger and program's function see of one window: the `TriggerContext`, with what the function
    needs. One object serves all windows of a subtask in turn: it is valid until :meth:`of` is called again.
    """

    def __init__(self, function: WindowFunction) -> None:
        self._function = function
        self.time = function.assigner.time

    def of(self, window: Window, ctx: KeyedContext[Any], *, is_new: bool = False) -> WindowView:
        """Turn to `window` of the key of `ctx`; return this view. `is_new`: it held nothing before."""
        self._window, self._ctx, self.is_new = window.key, ctx, is_new
        self._loaded: dict[str, Any] | None = None
        return self

    @property
    def key(self) -> Any:
        return self._ctx.key

    @property
    def watermark(self) -> int:
        return self._ctx.timers.current_watermark

    def now_ms(self) -> int:
        return self._ctx.timers.now_ms()

    # -- what is remembered

    @property
    def state(self) -> TriggerState:
        return self.remembered("trigger")

    def remembered(self, whose: str) -> TriggerState:
        """Return the dict that "trigger" or "function" (`whose`) remembers of the window; :meth:`save` it."""
        if self._loaded is None:
            self._loaded = self._function.remembered.get(self._window) or {}
        found: TriggerState = self._loaded.setdefault(whose, {})
        return found

    def save(self) -> None:
        """Store the dicts that :meth:`remembered` returned; remove the entry if all are empty."""
        if self._loaded is None:
            return
        if any(self._loaded.values()):
            self._function.remembered.put(self._window, self._loaded)
        else:
            self._function.remembered.remove(self._window)
        self._loaded = None

    def drop(self) -> None:
        self._function.remembered.remove(self._window)
        self._loaded = None

    def side_output(self, tag: OutputTag[Any], value: Any) -> None:
        self._ctx.side_output(tag, value)

    # -- times

    def register_event_time(self, timestamp: int) -> None:
        self.register(EVENT, timestamp)

    def register_processing_time(self, timestamp: int) -> None:
        self.register(PROCESSING, timestamp)

    def delete_event_time(self, timestamp: int) -> None:
        self._unasked(EVENT, timestamp)

    def delete_processing_time(self, timestamp: int) -> None:
        self._unasked(PROCESSING, timestamp)

    def _unasked(self, clock: int, timestamp: int) -> None:
        self.delete(clock, timestamp)
        if (clock, timestamp) in self._function._own_times(Window(*self._window)):
            self.register(clock, timestamp, asked=False)

    def register(self, clock: int, timestamp: int, *, asked: bool = True) -> None:
        """Register `timestamp` (ms) of `clock`, EVENT or PROCESSING, for the window, with a timer of the key.
        `asked`: the trigger is asked at that time; else only the window's own end is looked at.
        """
        due, window = self._function.due, self._window
        waiting = due.get((clock, timestamp)) or []
        if (*window, True) in waiting or (*window, asked) in waiting:
            return
        if not waiting:
            timers = self._ctx.timers
            register = timers.register_event_time if clock == EVENT else timers.register_processing_time
            register(timestamp)
        others = [each for each in waiting if each[:2] != window]
        due.put((clock, timestamp), [*others, (*window, asked)])

    def delete(self, clock: int, timestamp: int) -> None:
        """Delete the registration of `timestamp` (ms) on `clock`, EVENT or PROCESSING, for the window, and
        the key's timer if no other window waits for it. Nothing happens if there is none.
        """
        due, window = self._function.due, self._window
        waiting = due.get((clock, timestamp)) or []
        left = [each for each in waiting if each[:2] != window]
        if len(left) == len(waiting):
            return
        if left:
            due.put((clock, timestamp), left)
            return
        due.remove((clock, timestamp))
        timers = self._ctx.timers
        (timers.delete_event_time if clock == EVENT else timers.delete_processing_time)(timestamp)
