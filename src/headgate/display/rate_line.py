"""The rates of a job from its begin to now, in so few numbers that a line of them can be drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from typing_extensions import override

POINTS_MAX: Final = 120
GAP_MS: Final = 500


class RateLine(Sequence[float]):
    """Rates at equal distances in time; when there are too many, two become their mean.

    Example:
        >>> line = RateLine()
        >>> for second in range(1_000):
        ...     line.add(float(second), second * 1000)
        >>> 60 <= len(line) <= POINTS_MAX
        True
    """

    def __init__(self) -> None:
        self._rates: list[float] = []
        self._gap_ms = GAP_MS
        self._last_ms: int | None = None

    def add(self, rate: float, now_ms: int) -> None:
        """Take the rate at `now_ms`, unless the last one is too near."""
        if self._last_ms is not None and now_ms - self._last_ms < self._gap_ms:
            return
        self._last_ms = now_ms
        self._rates.append(rate)
        if len(self._rates) == POINTS_MAX:
            self._rates = [(one + other) / 2 for one, other in list(pairwise(self._rates))[::2]]
            self._gap_ms *= 2

    @override
    def __len__(self) -> int:
        return len(self._rates)

    @override
    def __getitem__(self, at: int) -> float:  # type: ignore[override]
        return self._rates[at]

    @override
    def __iter__(self) -> Iterator[float]:
        return iter(self._rates)
