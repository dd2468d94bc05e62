"""When windows emit: the contract of triggers, and those that are offered.

A trigger is asked at each record and at each time that it has registered, and answers whether the window
emits (fire), forgets what it holds (purge), both or neither. It keeps nothing in itself: one trigger serves
all keys and windows, and what it has to remember of one is in `ctx.state`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

from headgate.api.site import user_site
from headgate.api.windows.window import (
    ALL_TIME,
    TimeDomain,
    Window,
    checked_count,
    checked_domain,
    checked_duration,
)
from headgate.common.errors import PlanError

TriggerState: TypeAlias = "dict[str, Any]"
"""What a trigger remembers of one window: plain values by name."""


class TriggerResult(Enum):
    """What becomes of a window: its result is emitted (fire), its contents are forgotten (purge)."""

    CONTINUE = (False, False)
    FIRE = (True, False)
    PURGE = (False, True)
    FIRE_AND_PURGE = (True, True)

    @property
    def fires(self) -> bool:
        """Whether the result is emitted."""
        return self.value[0]

    @property
    def purges(self) -> bool:
        """Whether the contents are forgotten; timers and the state of the trigger stay."""
        return self.value[1]


CONTINUE: Final = TriggerResult.CONTINUE
FIRE: Final = TriggerResult.FIRE


class TriggerContext(Protocol):
    """What a trigger knows of the window that it is asked about."""

    @property
    def time(self) -> TimeDomain:
        """The clock that the windows follow, "event" or "processing"."""
        ...

    @property
    def watermark(self) -> int:
        """Event time as of this record or timer, in ms; -2**63 before the first watermark."""
        ...

    @property
    def is_new(self) -> bool:
        """Whether the window held nothing before this record."""
        ...

    @property
    def state(self) -> TriggerState:
        """What the trigger remembers of this window: plain values by name, gone with the window."""
        ...

    def now_ms(self) -> int:
        """Return the wall clock, in ms since 1970."""
        ...

    def register_event_time(self, timestamp: int) -> None:
        """Ask the trigger again when the watermark reaches `timestamp` (ms)."""
        ...

    def register_processing_time(self, timestamp: int) -> None:
        """Ask the trigger again when the wall clock reaches `timestamp` (ms)."""
        ...

    def delete_event_time(self, timestamp: int) -> None:
        """Do not ask again at this event time (ms); what was not registered is no error."""
        ...

    def delete_processing_time(self, timestamp: int) -> None:
        """Do not ask again at this time of the wall clock (ms); what was not registered is no error."""
        ...


class Trigger(ABC):
    """Base class of triggers: says when a window emits.

    Example:
        >>> import headgate as hg
        >>> class Dear(hg.Trigger):
        ...     def on_record(self, record, timestamp, window, ctx):
        ...         dear = record["price"] > 100
        ...         return hg.TriggerResult.FIRE_AND_PURGE if dear else hg.TriggerResult.CONTINUE
        >>> from headgate.testing import MiniCluster
        >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
        >>> rows = env.from_collection([{"user": "ada", "price": price} for price in (1, 2, 500, 4)])
        >>> windows = rows.key_by("user").window(hg.global_window()).trigger(Dear())
        >>> [row["total"] for row in windows.aggregate(total=hg.sum("price")).collect()]
        [503]
    """

    @abstractmethod
    def on_record(
        self, record: Any, timestamp: int | None, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Decide at a record, which the window holds already.

        Args:
            record: as it came.
            timestamp: its event time in ms; None where the stream has none.
            window: the window.
            ctx: what else there is to know.
        """

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide at an event time that was registered; by default nothing happens."""
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide at a time of the wall clock that was registered; by default nothing happens."""
        return CONTINUE

    def on_merge(self, window: Window, states: Sequence[TriggerState], ctx: TriggerContext) -> None:
        """Take over from windows that became `window`: `states` are what was remembered of each of them.

        Called for sessions, before the record that made them touch is added. What was registered for the
        earlier windows is deleted after this by :meth:`clear`, so that it has to be registered again here.

        Raises:
            NotImplementedError: the trigger does not say how, so it cannot be used with sessions.
        """
        raise NotImplementedError

    def clear(self, window: Window, ctx: TriggerContext) -> None:  # noqa: B027  # few register anything
        """Delete what was registered for a window that is gone; its state is forgotten after this."""

    @property
    def can_merge(self) -> bool:
        """Whether the trigger can be used with windows that merge."""
        return type(self).on_merge is not Trigger.on_merge


class EndOfWindow(Trigger):
    """Fires when time passes the end of a window, and then at each late record that is still allowed."""

    def on_record(
        self, record: Any, timestamp: int | None, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Fire if the end has passed; else wait for it."""
        if ctx.time is TimeDomain.EVENT and window.max_timestamp <= ctx.watermark:
            return FIRE
        if ctx.is_new:
            self._wait(window, ctx)
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end."""
        return FIRE if time == window.max_timestamp and ctx.time is TimeDomain.EVENT else CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end."""
        return FIRE if time == window.max_timestamp and ctx.time is TimeDomain.PROCESSING else CONTINUE

    def on_merge(self, window: Window, states: Sequence[TriggerState], ctx: TriggerContext) -> None:
        """Wait for the new end, unless it has passed."""
        if ctx.time is TimeDomain.PROCESSING or window.max_timestamp > ctx.watermark:
            self._wait(window, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Wait no more."""
        if ctx.time is TimeDomain.EVENT:
            ctx.delete_event_time(window.max_timestamp)
        else:
            ctx.delete_processing_time(window.max_timestamp)

    def _wait(self, window: Window, ctx: TriggerContext) -> None:
        if window == ALL_TIME:
            return  # it has no end
        if ctx.time is TimeDomain.EVENT:
            ctx.register_event_time(window.max_timestamp)
        else:
            ctx.register_processing_time(window.max_timestamp)


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
    """Fires at multiples of an interval if records have come since."""

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
        if (waiting := ctx.state.pop("next", None)) is None:
            return
        if self._time is TimeDomain.EVENT:
            ctx.delete_event_time(waiting)
        else:
            ctx.delete_processing_time(waiting)

    def _wait(self, until: int, now: int | None, window: Window, ctx: TriggerContext) -> None:
        ends_first = now is not None and now < window.max_timestamp <= until
        if self._time is ctx.time and ends_first:
            return
        ctx.state["next"] = until
        if self._time is TimeDomain.EVENT:
            ctx.register_event_time(until)
        else:
            ctx.register_processing_time(until)


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
    """Fires at the end of the window; before it as one trigger says, after it as another one."""

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
        ended = ctx.time is TimeDomain.EVENT and window.max_timestamp <= ctx.watermark
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
    """Return the usual trigger: a window emits when time passes its end, and again at each late record.

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
        time: the clock of the interval, ``"event"`` or ``"processing"``; the end is by that of the windows.

    Raises:
        PlanError: `interval` is no duration above 0, or `time` is another word.

    Example:
        >>> import headgate as hg
        >>> each_minute = hg.continuous("1min", time="processing")
    """
    interval_ms = checked_duration("continuous", "interval", interval)
    return _AfterWatermark(_Interval(interval_ms, checked_domain("continuous", time)), None)


def purging(trigger: Trigger) -> Trigger:
    """Return a trigger that forgets what a window holds whenever `trigger` fires: results are of new records.

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
        early: a trigger for the time before the end, or a duration: fire so often by the wall clock, if
            records have come. None: not before the end.
        late: a trigger for records after the end that ``lateness()`` still allows, or a duration. None: fire
            at each. What it has not fired for when the window is gone is not emitted.

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
    return _Interval(checked_duration("after_watermark", name, given), TimeDomain.PROCESSING)


def checked_trigger(verb: str, given: Trigger) -> Trigger:
    """Return `given`; PlanError, naming `verb`, if it is no trigger."""
    if not isinstance(given, Trigger):
        raise PlanError(
            f"{verb}() ({user_site()}) got {given!r}; expected a trigger such as hg.every_count(100)"
        )
    return given
