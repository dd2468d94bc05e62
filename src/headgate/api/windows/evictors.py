"""Evictors: they take records out of a window, before or after its result is computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from headgate.api.windows.window import Window, checked_count, checked_duration


class WindowRecord(NamedTuple):
    """A record that a window keeps, with its time: event time, or the wall clock where windows follow it.

    Attributes:
        timestamp: in ms; None where the stream has no event time.
        record: as it came.
    """

    timestamp: int | None
    record: Any


class Evictor:
    """Base class of evictors: takes records out of a window before, or after, its result is computed.

    Records taken out are missing in later results, too. A window with an evictor stores all its records.

    Example:
        >>> import headgate as hg
        >>> class Positive(hg.Evictor):
        ...     def before(self, records, window):
        ...         return [each for each in records if each.record["price"] > 0]
        >>> some = [hg.WindowRecord(0, {"price": 5}), hg.WindowRecord(1, {"price": -5})]
        >>> [each.timestamp for each in Positive().before(some, hg.Window(0, 10))]
        [0]
    """

    def before(self, records: Sequence[WindowRecord], window: Window) -> Iterable[WindowRecord]:
        """Return which of `records` (the same objects) stay, before a result is computed; by default all."""
        return records

    def after(self, records: Sequence[WindowRecord], window: Window) -> Iterable[WindowRecord]:
        """Return which of `records` (the same objects) stay, after a result was computed; by default all."""
        return records


class _LastRecords(Evictor):
    def __init__(self, n: int) -> None:
        self._n = n

    def before(self, records: Sequence[WindowRecord], window: Window) -> Iterable[WindowRecord]:
        return records[-self._n :]


class _LastTime(Evictor):
    def __init__(self, length_ms: int) -> None:
        self._length = length_ms

    def before(self, records: Sequence[WindowRecord], window: Window) -> Iterable[WindowRecord]:
        times = [each.timestamp for each in records if each.timestamp is not None]
        if not times:
            return records
        until = max(times) - self._length
        return [each for each in records if each.timestamp is None or each.timestamp > until]


def last_records(n: int) -> Evictor:
    """Return an evictor that keeps only the last `n` records of a window, in order of arrival.

    Raises:
        PlanError: `n` is no whole number of at least 1.

    Example:
        >>> import headgate as hg
        >>> some = [hg.WindowRecord(time, None) for time in (1, 2, 3)]
        >>> [each.timestamp for each in hg.last_records(2).before(some, hg.Window(0, 10))]
        [2, 3]
    """
    return _LastRecords(checked_count("last_records", "n", n))


def last_time(length: str | int) -> Evictor:
    """Return an evictor that keeps the records that are less than `length` older than the latest one.

    Args:
        length: as text such as ``"1min"``, or in ms.

    Raises:
        PlanError: `length` is no duration above 0.

    Example:
        >>> import headgate as hg
        >>> some = [hg.WindowRecord(time, None) for time in (1_000, 6_000, 5_000)]
        >>> [each.timestamp for each in hg.last_time("5s").before(some, hg.Window(0, 10_000))]
        [6000, 5000]
    """
    return _LastTime(checked_duration("last_time", "length", length))
