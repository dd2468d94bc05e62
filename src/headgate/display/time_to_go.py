"""How much of a bounded job's input is read, and how long the rest takes at the present pace."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from headgate.api.source import InputLeft

PACE_MS: Final = 30_000  # the pace is that of so long
PACE_MS_MIN: Final = 2_000  # of less than that nothing is told

_GAP_MS: Final = 500


class TimeToGo:
    """The share of the input that is read, and the time to go, of a job all of whose sources know their ends.

    The whole of a source is the most that was ever left of it. A restart reads a part again: then the share
    falls, and the pace is not known for a while. Times are milliseconds of the monotonic clock. One thread
    updates it; any thread may read it.
    """

    def __init__(self) -> None:
        self._sources: dict[str, _Source] = {}
        self._known = False

    def restarted(self) -> None:
        """Forget the pace, as an attempt begins."""
        for source in self._sources.values():
            source.samples.clear()

    def update(self, left: Mapping[str, InputLeft | None], now_ms: int) -> None:
        """Take what is left of each source, by uid."""
        amounts = {uid: _amount(each) for uid, each in left.items()}
        for uid, amount in amounts.items():
            if amount is not None:
                self._sources.setdefault(uid, _Source()).add(*amount, now_ms)
        # Last: a thread that displays it looks at the sources once it is known.
        self._known = bool(amounts) and None not in amounts.values()

    def finished(self) -> None:
        """Note that the job has ended well, so that nothing is left of a source that was known."""
        for source in self._sources.values():
            source.finished()

    @property
    def share(self) -> float | None:
        """The share (0 to 1) that is read, of the source that has read least of its own; None: not known."""
        if not self._known:
            return None
        return min(source.share for source in list(self._sources.values()))

    @property
    def to_go_ms(self) -> int | None:
        """How long the slowest source takes for what is left at its present pace; None: not known."""
        if not self._known:
            return None
        times = [source.to_go_ms for source in list(self._sources.values())]
        known = [time for time in times if time is not None]
        return max(known) if len(known) == len(times) else None

    def text(self) -> str | None:
        """Return share and time in words; None if the share is not known.

        Example:
            >>> reading = TimeToGo()
            >>> for second, left in enumerate((100, 90, 80, 70)):
            ...     reading.update({"in": InputLeft(records=left)}, second * 1000)
            >>> reading.text()
            '30% read, 7 s to go'
        """
        share, to_go = self.share, self.to_go_ms
        if share is None:
            return None
        if share == 1:
            return "all read"
        # Not 100 before all is read.
        return f"{min(99, round(share * 100))}% read, {'-' if to_go is None else span(to_go)} to go"


class _Source:
    def __init__(self) -> None:
        self._amounts = 0, 0  # the whole, and what is left; one value, as other threads read it
        self._unit = ""
        self.samples: deque[tuple[int, int]] = deque()

    def add(self, unit: str, left: int, now_ms: int) -> None:
        samples, (whole, _) = self.samples, self._amounts
        if unit != self._unit:
            # What was told of records says nothing of bytes.
            samples.clear()
            self._unit, whole = unit, 0
        self._amounts = max(whole, left), left
        if len(samples) > 1 and now_ms - samples[-2][0] < _GAP_MS:
            samples.pop()  # heartbeats of many workers come close together: keep the latest
        samples.append((now_ms, left))
        while len(samples) > 2 and now_ms - samples[0][0] > PACE_MS:
            samples.popleft()

    def finished(self) -> None:
        self._amounts = self._amounts[0], 0

    @property
    def share(self) -> float:
        whole, left = self._amounts
        return (whole - left) / whole if whole else 1.0

    @property
    def to_go_ms(self) -> int | None:
        left, samples = self._amounts[1], list(self.samples)
        if left == 0:
            return 0
        if not samples:
            return None
        (first_ms, first), (last_ms, last) = samples[0], samples[-1]
        if last_ms - first_ms < PACE_MS_MIN or last >= first:
            return None
        return round(left * (last_ms - first_ms) / (first - last))


def _amount(left: InputLeft | None) -> tuple[str, int] | None:
    # The unit and how much.
    if left is not None and left.records is not None:
        return "records", left.records
    if left is not None and left.bytes is not None:
        return "bytes", left.bytes
    return None


def span(ms: int) -> str:
    """Return a time as people say it, in one or two units.

    Example:
        >>> span(400), span(65_000), span(7_500_000), span(180_000_000)
        ('1 s', '1 min 5 s', '2 h 5 min', '2 d 2 h')
    """
    seconds = max(1, round(ms / 1000))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {seconds % 60} s" if minutes else f"{seconds} s"
