"""Which windows a record belongs to: tumbling, sliding, cumulative, sessions, counts, all of time.

An assigner is pure: it is given the time of a record, and decides neither when a window emits nor what it
keeps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from headgate.api.checking.arguments import refuse_arity, refuse_unawaited
from headgate.api.site import user_site
from headgate.api.windows.evictors import Evictor, last_records
from headgate.api.windows.trigger import Trigger
from headgate.api.windows.triggers import EndOfWindow, every_count, purging
from headgate.api.windows.window import (
    ALL_TIME,
    TimeDomain,
    Window,
    checked_count,
    checked_domain,
    checked_duration,
)
from headgate.common.errors import PlanError
from headgate.common.time import duration_ms

if TYPE_CHECKING:
    # For type checkers only: what is given at run time is judged in words of its own.
    Gap = str | int | Callable[[Any], str | int]


class WindowAssigner(ABC):
    """Assigns records to windows, for ``window()``; `tumbling`, `sliding` and their like make assigners. One
    object serves all keys of a subtask, and keeps nothing of a record.

    Attributes:
        time: the clock that the windows follow.
        merges: whether windows of a key that touch become one, as sessions do.
        bounded: whether a window ends, so that it emits and its state is removed.
    """

    time: TimeDomain = TimeDomain.EVENT
    merges: ClassVar[bool] = False
    bounded: ClassVar[bool] = True

    @abstractmethod
    def windows_of(self, record: Any, time_ms: int) -> Sequence[Window]:
        """Return the windows in which a record lies; called once for each record.

        Args:
            record: the record, for windows whose length depends on it.
            time_ms: its event time, or the worker's wall clock, as `time` says; in ms since 1970.

        Returns:
            one window or more, of which the first ends first; exactly one where `merges` is true.
        """

    def window_ending(self, end_ms: int) -> Window | None:
        """Return the only window that ends at `end_ms`; None if none does, or times alone do not tell."""
        return None

    @property
    @abstractmethod
    def shape(self) -> str:
        """Kind and sizes of the windows, in the name of their state: another shape's is not restored."""

    def default_trigger(self) -> Trigger | None:
        """Return the trigger that applies unless the program sets one; None: the program must set one."""
        return EndOfWindow()

    def default_evictor(self) -> Evictor | None:
        """Return the evictor that applies unless the program sets one; None: no record is evicted."""
        return None


class SlidingWindows(WindowAssigner):
    """Windows of `size_ms` that begin every `slide_ms`, moved by `offset_ms`; tumbling if both are equal."""

    def __init__(self, size_ms: int, slide_ms: int, offset_ms: int, time: TimeDomain) -> None:
        self.size_ms, self.slide_ms, self.offset_ms, self.time = size_ms, slide_ms, offset_ms % slide_ms, time

    def window_ending(self, end_ms: int) -> Window | None:
        start = end_ms - self.size_ms
        return None if (start - self.offset_ms) % self.slide_ms else Window(start, end_ms)

    def windows_of(self, record: Any, time_ms: int) -> Sequence[Window]:
        size, slide = self.size_ms, self.slide_ms
        last = time_ms - (time_ms - self.offset_ms) % slide
        return [Window(start, start + size) for start in range(last, time_ms - size, -slide)[::-1]]

    @property
    def shape(self) -> str:
        return f"{self.size_ms}ms_every_{self.slide_ms}ms_from_{self.offset_ms}ms"


class CumulativeWindows(WindowAssigner):
    """Windows that begin every `size_ms` and grow by `step_ms` until they are `size_ms` long."""

    def __init__(self, size_ms: int, step_ms: int, offset_ms: int) -> None:
        self.size_ms, self.step_ms, self.offset_ms = size_ms, step_ms, offset_ms % size_ms

    def window_ending(self, end_ms: int) -> Window | None:
        passed = end_ms - self.offset_ms
        return None if passed % self.step_ms else Window(end_ms - 1 - (passed - 1) % self.size_ms, end_ms)

    def windows_of(self, record: Any, time_ms: int) -> Sequence[Window]:
        start = time_ms - (time_ms - self.offset_ms) % self.size_ms
        first = start + ((time_ms - start) // self.step_ms + 1) * self.step_ms
        return [Window(start, end) for end in range(first, start + self.size_ms + 1, self.step_ms)]

    @property
    def shape(self) -> str:
        return f"{self.size_ms}ms_by_{self.step_ms}ms_from_{self.offset_ms}ms"


class SessionWindows(WindowAssigner):
    """A window from each record until `gap` later; windows of a key that touch become one session."""

    merges = True

    def __init__(self, gap: Gap, time: TimeDomain) -> None:
        self.time = time
        self._fixed = None if callable(gap) else checked_duration("session", "gap", gap)
        self._gap = gap

    def windows_of(self, record: Any, time_ms: int) -> Sequence[Window]:
        gap = self._fixed if self._fixed is not None else self._gap_of(record)
        return (Window(time_ms, time_ms + gap),)

    def _gap_of(self, record: Any) -> int:
        assert callable(self._gap)
        given = self._gap(record)
        try:
            found = duration_ms(given, "gap of session()")
        except TypeError:
            found = 0
        if found < 1:
            raise ValueError(f"the gap of session() is {given!r} for this record; expected at least 1 ms")
        return found

    @property
    def shape(self) -> str:
        # The same for all gaps: a restored session continues under another gap.
        return "of_sessions"


class AllOfTime(WindowAssigner):
    """One window per key that never ends; for windows of counts, with their trigger and evictor."""

    bounded = False

    def __init__(self, trigger: Trigger | None = None, evictor: Evictor | None = None) -> None:
        self._trigger, self._evictor = trigger, evictor

    def windows_of(self, record: Any, time_ms: int) -> Sequence[Window]:
        return (ALL_TIME,)

    def default_trigger(self) -> Trigger | None:
        return self._trigger

    def default_evictor(self) -> Evictor | None:
        return self._evictor

    @property
    def shape(self) -> str:
        return "of_all_time"


def tumbling(size: str | int, offset: str | int = 0, time: str = "event") -> WindowAssigner:
    """Return the assigner of windows that follow each other without overlap.

    Args:
        size: length of a window, as text such as ``"1h"``, or in ms.
        offset: by which all windows are moved from 1970-01-01 00:00 UTC.
        time: ``"event"``, or ``"processing"`` for the worker's wall clock.

    Raises:
        PlanError: a text is no duration, `size` is not above 0, or `time` is another word.

    Example:
        >>> import headgate as hg
        >>> hg.tumbling("10s").windows_of({}, 12_000)
        [Window(start=10000, end=20000)]
    """
    size_ms = checked_duration("tumbling", "size", size)
    offset_ms = checked_duration("tumbling", "offset", offset, least=0)
    return SlidingWindows(size_ms, size_ms, offset_ms, checked_domain("tumbling", time))


def sliding(size: str | int, slide: str | int, offset: str | int = 0, time: str = "event") -> WindowAssigner:
    """Return the assigner of windows that begin every `slide`; a record is in each window that contains it.

    Args:
        size: length of a window, as text such as ``"1h"``, or in ms.
        slide: time between the starts of two windows, up to `size`.
        offset: by which all windows are moved from 1970-01-01 00:00 UTC.
        time: ``"event"``, or ``"processing"`` for the worker's wall clock.

    Raises:
        PlanError: a text is no duration, a length not above 0, `slide` above `size`, or `time` unknown.

    Example:
        >>> import headgate as hg
        >>> hg.sliding("10s", "5s").windows_of({}, 12_000)
        [Window(start=5000, end=15000), Window(start=10000, end=20000)]
    """
    size_ms, slide_ms = checked_duration("sliding", "size", size), checked_duration("sliding", "slide", slide)
    if slide_ms > size_ms:
        raise PlanError(
            f"sliding() ({user_site()}): slide is {slide!r} and size {size!r}; expected a slide up to the "
            "size, as records between two windows would be in none"
        )
    offset_ms = checked_duration("sliding", "offset", offset, least=0)
    return SlidingWindows(size_ms, slide_ms, offset_ms, checked_domain("sliding", time))


def cumulative(max_size: str | int, step: str | int, offset: str | int = 0) -> WindowAssigner:
    """Return the assigner of windows of event time that begin together and end one `step` after the other.
    An example is the day so far, at each hour.

    Args:
        max_size: length of the longest window; the next one begins where it ends.
        step: by how much each window is longer than the one before; divides `max_size`.
        offset: by which all windows are moved from 1970-01-01 00:00 UTC.

    Raises:
        PlanError: a text is no duration, a duration is not above 0, or `max_size` is no multiple of `step`.

    Example:
        >>> import headgate as hg
        >>> hg.cumulative("30s", "10s").windows_of({}, 12_000)
        [Window(start=0, end=20000), Window(start=0, end=30000)]
    """
    size_ms = checked_duration("cumulative", "max_size", max_size)
    step_ms = checked_duration("cumulative", "step", step)
    if size_ms % step_ms:
        raise PlanError(
            f"cumulative() ({user_site()}): max_size is {max_size!r} and step {step!r}; expected a multiple "
            "of the step"
        )
    return CumulativeWindows(size_ms, step_ms, checked_duration("cumulative", "offset", offset, least=0))


def session(gap: Gap, time: str = "event") -> WindowAssigner:
    """Return the assigner of sessions: a window ends when `gap` has passed without a record of the key.

    Args:
        gap: as text such as ``"30min"``, in ms, or a function that gives it for a record.
        time: ``"event"``, or ``"processing"`` for the worker's wall clock.

    Raises:
        PlanError: `gap` is neither a duration above 0 nor a function; or `time` is another word.

    Example:
        >>> import headgate as hg
        >>> hg.session("5s").windows_of({}, 12_000)
        (Window(start=12000, end=17000),)
    """
    if callable(gap):
        refuse_arity(f"session() ({user_site()})", gap, "one record")
        refuse_unawaited("session", gap)
    return SessionWindows(gap, checked_domain("session", time))


def count_window(n: int, slide: int | None = None) -> WindowAssigner:
    """Return the assigner of windows of `n` records of a key, in order of arrival.

    A window that is not full when the input ends emits nothing. Results have None as times of `window`.

    Args:
        n: number of records.
        slide: emit the last `n` records, or as many as there are, after every so many; None: windows follow
            each other.

    Raises:
        PlanError: a number is not whole or below 1.

    Example:
        >>> import headgate as hg
        >>> from headgate.testing import MiniCluster
        >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
        >>> rows = env.from_collection([{"user": "ada", "price": price} for price in (1, 2, 3, 4, 5)])
        >>> pairs = rows.key_by("user").window(hg.count_window(2)).aggregate(total=hg.sum("price"))
        >>> [row["total"] for row in pairs.collect()]
        [3, 7]
    """
    size = checked_count("count_window", "n", n)
    if slide is None:
        return AllOfTime(purging(every_count(size)))
    return AllOfTime(every_count(checked_count("count_window", "slide", slide)), last_records(size))


def global_window() -> WindowAssigner:
    """Return the assigner of one window per key that never ends; a trigger must say when it emits.

    Its state is removed when a trigger purges it.

    Example:
        >>> import headgate as hg
        >>> from headgate.testing import MiniCluster
        >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
        >>> rows = env.from_collection([{"user": "ada"}] * 5)
        >>> so_far = rows.key_by("user").window(hg.global_window()).trigger(hg.every_count(2))
        >>> [row["n"] for row in so_far.aggregate(n=hg.count()).collect()]
        [2, 4]
    """
    return AllOfTime()
