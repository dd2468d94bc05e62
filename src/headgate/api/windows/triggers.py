"""The triggers that Headgate offers: at the end of windows, by count or interval, early and late, purging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.api.site import user_site
from headgate.api.windows.trigger import (
    CONTINUE,
    FIRE,
    Trigger,
    TriggerContext,
    TriggerResult,
    TriggerState,
    checked_trigger,
)
from headgate.api.windows.window import (
    ALL_TIME,
    TimeDomain,
    Window,
    checked_count,
    checked_domain,
    checked_duration,
)
from headgate.common.errors import PlanError


class EndOfWindow(Trigger):
    """Fires when time, on the clock of the windows, passes the end of a window; in event time also at each
    record that comes after that and is still allowed (`lateness`). It is the default of windows that end.
    """

    def on_record(
        self, record: Any, timestamp: int | None, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        if ctx.time == TimeDomain.EVENT and window.max_timestamp <= ctx.watermark:
            return FIRE
        if ctx.is_new:
            self._wait(window, ctx)
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return FIRE if time == window.max_timestamp and ctx.time == TimeDomain.EVENT else CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return FIRE if time == window.max_timestamp and ctx.time == TimeDomain.PROCESSING else CONTINUE

    def on_merge(self, window: Window, states: Sequence[TriggerState], ctx: TriggerContext) -> None:
        if ctx.time == TimeDomain.PROCESSING or window.max_timestamp > ctx.watermark:
            self._wait(window, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        _delete(ctx.time, window.max_timestamp, ctx)

    @property
    def wants_end(self) -> bool:
        return True

    def _wait(self, window: Window, ctx: TriggerContext) -> None:
        if window == ALL_TIME:
            return  # it has no end
        _register(ctx.time, window.max_timestamp, ctx)


def _register(clock: str, time_ms: int, ctx: TriggerContext) -> None:
    if clock == TimeDomain.EVENT:
        ctx.register_event_time(time_ms)
    else:
        ctx.register_processing_time(time_ms)


def _delete(clock: str, time_ms: int, ctx: TriggerContext) -> None:
    if clock == TimeDomain.EVENT:
        ctx.delete_event_time(time_ms)
    else:
        ctx.delete_processing_time(time_ms)


class _EveryCount(Trigger):
    def __init__(self, n: int) -> None:
        self._n = n

    def on_record(
        self, record: Any, timestamp: int | None, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        count = ctx.state.pop("count", 0) + 1
        if count >= self._n:
            return FIRE
        ctx.state["count"] = count
        return CONTINUE

    def on_merge(self, window: Window, states: Sequence[TriggerState], ctx: TriggerContext) -> None:
        if count := sum(state.get("count", 0) for state in states):
            ctx.state["count"] = count


class _Interval(Trigger):
    """Fires at multiples of an interval, by event time or wall clock, if records have come since. The time it
    waits for is its state `next`. By the windows' own clock it leaves the end to another trigger.
    """

    def __init__(self, interval_ms: int, time: TimeDomain) -> None:
        self._interval, self._time = interval_ms, time

    def on_record(
        self, record: Any, timestamp: int | None, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        if "next" not in ctx.state:
            by_clock = self._time is TimeDomain.PROCESSING
            now = ctx.now_ms() if by_clock else max(timestamp or 0, ctx.watermark)
            self._wait(now - now % self._interval + self._interval, now, window, ctx)
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._on_time(TimeDomain.EVENT, time, ctx)

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._on_time(TimeDomain.PROCESSING, time, ctx)

    def _on_time(self, domain: TimeDomain, time: int, ctx: TriggerContext) -> TriggerResult:
        if domain is not self._time or ctx.state.get("next") != time:
            return CONTINUE
        del ctx.state["next"]
        return FIRE

    def on_merge(self, window: Window, states: Sequence[TriggerState], ctx: TriggerContext) -> None:
        if waiting := [state["next"] for state in states if "next" in state]:
            self._wait(min(waiting), None, window, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        if (waiting := ctx.state.pop("next", None)) is not None:
            _delete(self._time, waiting, ctx)

    def _wait(self, until: int, now: int | None, window: Window, ctx: TriggerContext) -> None:
        ends_first = now is not None and now < window.max_timestamp <= until
        if self._time == ctx.time and ends_first:
            return
        ctx.state["next"] = until
        _register(self._time, until, ctx)


class _Purging(Trigger):
    def __init__(self, trigger: Trigger) -> None:
        self._inner = trigger

    def on_record(
        self, record: Any, timestamp: int | None, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        return _also_purging(self._inner.on_record(record, timestamp, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return _also_purging(self._inner.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return _also_purging(self._inner.on_processing_time(time, window, ctx))

    def on_merge(self, window: Window, states: Sequence[TriggerState], ctx: TriggerContext) -> None:
        self._inner.on_merge(window, states, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        self._inner.clear(window, ctx)

    @property
    def wants_end(self) -> bool:
        return self._inner.wants_end

    @property
    def can_merge(self) -> bool:
        return self._inner.can_merge


def _also_purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.fires else result


class _Part:
    """The context of a trigger inside another one: its state is a part of the outer trigger's."""

    def __init__(self, ctx: TriggerContext, name: str) -> None:
        self._outer, self._name = ctx, name
        self.time, self.watermark, self.is_new = ctx.time, ctx.watermark, ctx.is_new
        self.now_ms = ctx.now_ms
        self.register_event_time, self.delete_event_time = ctx.register_event_time, ctx.delete_event_time
        self.register_processing_time = ctx.register_processing_time
        self.delete_processing_time = ctx.delete_processing_time
        self.state: TriggerState = ctx.state.setdefault(name, {})

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *_error: object) -> None:
        if not self.state:
            del self._outer.state[self._name]


class _AfterWatermark(EndOfWindow):
    """Fires at the end of the window; before it as trigger `early` says, after it as `late` does. Each of
    these has its own part of the trigger's state, under its name; `early` is cleared at the end.
    """

    def __init__(self, early: Trigger | None, late: Trigger | None) -> None:
        self._parts = {name: part for name, part in (("early", early), ("late", late)) if part is not None}

    def on_record(
        self, record: Any, timestamp: int | None, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        usual = super().on_record(record, timestamp, window, ctx)
        name = "late" if usual.fires else "early"
        if (part := self._parts.get(name)) is None:
            return usual
        with _Part(ctx, name) as own:
            return part.on_record(record, timestamp, window, own)

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        if super().on_event_time(time, window, ctx).fires:
            return self._at_end(window, ctx)
        return self._of_parts(ctx, lambda part, own: part.on_event_time(time, window, own))

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        if super().on_processing_time(time, window, ctx).fires:
            return self._at_end(window, ctx)
        return self._of_parts(ctx, lambda part, own: part.on_processing_time(time, window, own))

    def _of_parts(
        self, ctx: TriggerContext, ask: Callable[[Trigger, TriggerContext], TriggerResult]
    ) -> TriggerResult:
        results = []
        for name, part in self._parts.items():
            with _Part(ctx, name) as own:
                results.append(ask(part, own))
        return TriggerResult((any(each.fires for each in results), any(each.purges for each in results)))

    def _at_end(self, window: Window, ctx: TriggerContext) -> TriggerResult:
        if early := self._parts.get("early"):
            with _Part(ctx, "early") as own:
                early.clear(window, own)
                own.state.clear()
        return FIRE

    def on_merge(self, window: Window, states: Sequence[TriggerState], ctx: TriggerContext) -> None:
        super().on_merge(window, states, ctx)
        ended = ctx.time == TimeDomain.EVENT and window.max_timestamp <= ctx.watermark
        for name, part in self._parts.items():
            if ended == (name == "late"):
                with _Part(ctx, name) as own:
                    part.on_merge(window, [state.get(name, {}) for state in states], own)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        super().clear(window, ctx)
        for name, part in self._parts.items():
            with _Part(ctx, name) as own:
                part.clear(window, own)

    @property
    def can_merge(self) -> bool:
        return all(part.can_merge for part in self._parts.values())


def at_end() -> Trigger:
    """Return the default trigger: a window emits when time passes its end, then at each late record allowed.

    Example:
        >>> import headgate as hg
        >>> once = hg.purging(hg.at_end())
    """
    return EndOfWindow()


def every_count(n: int) -> Trigger:
    """Return a trigger that fires after every `n` records of a window, and not at its end.

    Raises:
        PlanError: `n` is no whole number of at least 1.

    Example:
        >>> import headgate as hg
        >>> by_ten = hg.every_count(10)
    """
    return _EveryCount(checked_count("every_count", "n", n))


def continuous(interval: str | int, time: str = "event") -> Trigger:
    """Return a trigger that fires at every multiple of `interval` if records have come since, and at the end.

    Args:
        interval: as text such as ``"10s"``, or in ms.
        time: the clock of the interval, ``"event"`` or ``"processing"``; the end is by the windows' clock.

    Raises:
        PlanError: `interval` is no duration above 0, or `time` is another word.

    Example:
        >>> import headgate as hg
        >>> each_minute = hg.continuous("1min", time="processing")
    """
    interval_ms = checked_duration("continuous", "interval", interval)
    return _AfterWatermark(_Interval(interval_ms, checked_domain("continuous", time)), None)


def purging(trigger: Trigger) -> Trigger:
    """Return a trigger that fires as `trigger` does, and then purges the window; PlanError: no Trigger.

    Example:
        >>> import headgate as hg
        >>> batches_of_ten = hg.purging(hg.every_count(10))
    """
    return _Purging(checked_trigger("purging", trigger))


def after_watermark(
    early: Trigger | str | int | None = None, late: Trigger | str | int | None = None
) -> Trigger:
    """Return a trigger that fires at the end of a window, and by other triggers before and after it.

    Args:
        early: a trigger for the time before the end, or an interval of the wall clock at which to fire if
            records have come. None: do not fire before the end.
        late: a trigger, or interval, for records after the end that ``lateness()`` allows. None: fire at
            each. Records for which it has not fired when the window is removed are not emitted.

    Raises:
        PlanError: something is neither a trigger nor a duration above 0.

    Example:
        >>> import headgate as hg
        >>> soon_and_exact = hg.after_watermark(early="10s", late=hg.every_count(100))
    """
    return _AfterWatermark(_part("early", early), _part("late", late))


def _part(name: str, given: Trigger | str | int | None) -> Trigger | None:
    if given is None or isinstance(given, Trigger):
        return given
    if not isinstance(given, str | int):
        raise PlanError(
            f"after_watermark() ({user_site()}) got {given!r} of type {type(given).__name__} for {name!r}; "
            "expected a trigger, a duration or None"
        )
    return _Interval(checked_duration("after_watermark", name, given), TimeDomain.PROCESSING)


def wall_interval_of(trigger: Trigger) -> tuple[int | None] | None:
    """Return ``(ms,)`` of a trigger that fires at a window's end and at each late record; None for others.

    The ms are the interval of the wall clock at which it fires before the end, or None if it does not.
    """
    if type(trigger) is EndOfWindow:
        return (None,)
    if not isinstance(trigger, _AfterWatermark):
        return None
    parts = dict(trigger._parts)
    early = parts.pop("early", None)
    if parts or not (early is None or isinstance(early, _Interval)):
        return None
    if early is None:
        return (None,)
    return (early._interval,) if early._time is TimeDomain.PROCESSING else None
