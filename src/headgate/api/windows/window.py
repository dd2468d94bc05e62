"""A window as a span of time, and the durations of which windows are made."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Final, NamedTuple

from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN, duration_ms

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Window(NamedTuple):
    """A span of time from `start` to before `end`, in ms since 1970; a global window is all of time.

    Example:
        >>> import headgate as hg
        >>> hour = hg.Window(0, 3_600_000)
        >>> hour.end, hour.max_timestamp
        (3600000, 3599999)
    """

    start: int
    end: int

    @property
    def key(self) -> tuple[int, int]:
        """The window as (start, end), under which state has it."""
        return self.start, self.end

    @property
    def max_timestamp(self) -> int:
        """The last ms of the window, which is the event time of its results."""
        return self.end - 1

    def touches(self, other: Window) -> bool:
        """Return whether the windows have a moment in common, or one begins where the other ends."""
        return self.start <= other.end and other.start <= self.end


ALL_TIME: Final = Window(WATERMARK_MIN, WATERMARK_MAX)
"""The one window of `global_window` and `count_window`."""


class TimeDomain(StrEnum):
    """The clock that windows follow: event time (the watermark) or the wall clock of the worker."""

    EVENT = "event"
    PROCESSING = "processing"


def window_field(window: Window) -> dict[str, dt.datetime | None]:
    """Return a window as results have it: ``start`` and ``end`` in UTC; both None for all of time."""
    if window == ALL_TIME:
        return {"start": None, "end": None}
    return {"start": _moment(window.start), "end": _moment(window.end)}


def _moment(time_ms: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=time_ms)


def checked_duration(verb: str, name: str, given: str | int, *, least: int = 1) -> int:
    """Return `given`, a text such as ``"10s"`` or ms, in ms. PlanError, which names the call `verb`, its line
    and the argument `name`, if it is no duration or below `least` ms.
    """
    try:
        found = duration_ms(given, name)
    except (ValueError, TypeError) as error:
        raise PlanError(f"{verb}() ({user_site()}): {error}") from None
    if found < least:
        raise PlanError(f"{verb}() ({user_site()}): {name} is {given!r}; expected at least {least} ms")
    return found


def checked_count(verb: str, name: str, given: int) -> int:
    """Return argument `name` of call `verb`, a number of records; PlanError if it is below 1 or a bool."""
    if isinstance(given, bool) or given < 1:
        raise PlanError(
            f"{verb}() ({user_site()}): {name} is {given!r}; expected a whole number of at least 1"
        )
    return given


def checked_domain(verb: str, given: str) -> TimeDomain:
    """Return the clock that `given` names; PlanError, naming `verb`, for another word."""
    if given not in tuple(TimeDomain):
        raise PlanError(f"{verb}() ({user_site()}): time is {given!r}; expected 'event' or 'processing'")
    return TimeDomain(given)
