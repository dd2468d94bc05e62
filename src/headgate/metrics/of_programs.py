"""Metrics that a program's functions count themselves: counters, gauges and histograms by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias, TypeVar

from headgate.common.errors import UsageError
from headgate.metrics.histograms import Histogram
from headgate.metrics.metric import Kind

METRICS_MAX: Final = 100
"""So many metrics one operator may have."""

_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,99}")


class Counter:
    """A number that only grows.

    Example:
        >>> refused = Counter()
        >>> refused.inc()
        >>> refused.inc(3)
        >>> refused.value
        4
    """

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, by: int = 1) -> None:
        """Add a whole number, 0 or more."""
        self.value += by


class Gauge:
    """A number that goes up and down.

    Example:
        >>> cached = Gauge()
        >>> cached.set(17)
        >>> cached.value
        17
    """

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def set(self, value: float) -> None:
        """Replace the value."""
        self.value = value


Made: TypeAlias = Counter | Gauge | Histogram
M = TypeVar("M", Counter, Gauge, Histogram)

_KINDS: Final[dict[type[Made], Kind]] = {
    Counter: Kind.COUNTER,
    Gauge: Kind.GAUGE,
    Histogram: Kind.HISTOGRAM,
}


class Told(NamedTuple):
    """A metric of a program as heartbeats have it: `value` is a number, or a histogram's sparse cells."""

    operator: str
    name: str
    kind: str
    value: float | list[int]


class ProgramMetrics:
    """The metrics of one operator's subtask, by name; asked for again, a metric is the same object.

    Example:
        >>> metrics = ProgramMetrics("score")
        >>> metrics.counter("refused").inc()
        >>> metrics.counter("refused").value
        1
        >>> metrics.gauge("refused")
        Traceback (most recent call last):
        ...
        headgate.common.errors.UsageError: the metric 'refused' is a counter; give the gauge another name
    """

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self._made: dict[str, Made] = {}

    def counter(self, name: str) -> Counter:
        """Return the counter of this name; its total is told as ``headgate_user_NAME_total``.

        Raises:
            UsageError: the name is none, or another kind of metric has it, or there are over 100.
        """
        return self._of(name, Counter)

    def gauge(self, name: str) -> Gauge:
        """Return the gauge of this name, 0 at first; it is told as ``headgate_user_NAME``.

        Raises:
            UsageError: the name is none, or another kind of metric has it, or there are over 100.
        """
        return self._of(name, Gauge)

    def histogram(self, name: str) -> Histogram:
        """Return the histogram of this name, to which whole numbers from 0 on are added with ``add``; it is
        told as ``headgate_user_NAME``.

        Raises:
            UsageError: the name is none, or another kind of metric has it, or there are over 100.
        """
        return self._of(name, Histogram)

    def _of(self, name: str, kind: type[M]) -> M:
        found = self._made.get(name)
        if isinstance(found, kind):
            return found
        if found is not None:
            raise UsageError(
                f"the metric {name!r} is a {_KINDS[type(found)].value}; give the {_KINDS[kind].value} "
                "another name"
            )
        if _NAME.fullmatch(name) is None:
            raise UsageError(
                f"{name!r:.80} is no name of a metric; expected a letter, and then up to 99 letters, digits "
                "and underscores"
            )
        if len(self._made) >= METRICS_MAX:
            raise UsageError(
                f"the operator has {METRICS_MAX} metrics, and wants one more, {name!r}; count by fewer names"
            )
        made = self._made[name] = kind()
        return made

    def told(self) -> Iterator[Told]:
        """Yield all metrics with their values; any thread may ask."""
        for name, made in list(self._made.items()):
            value = made.sparse() if isinstance(made, Histogram) else made.value
            yield Told(self._operator, name, _KINDS[type(made)].value, value)
