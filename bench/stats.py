"""Medians, ratios of interleaved runs, percentiles of a histogram, and the slope of a series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median


def ratios(ours: Sequence[float | None], theirs: Sequence[float | None]) -> list[float]:
    """Ours to theirs, pair by pair; pairs in which a run failed are left out.

    Example:
        >>> ratios([8.0, None, 6.0], [2.0, 1.0, 3.0])
        [4.0, 2.0]
    """
    return [a / b for a, b in zip(ours, theirs, strict=True) if a is not None and b]


def middle(values: Sequence[float]) -> float | None:
    """The median; None of nothing.

    Example:
        >>> middle([3.0, 1.0, 2.0]), middle([])
        (2.0, None)
    """
    return median(values) if values else None


def percentile(histogram: Mapping[int, int], share: float) -> int | None:
    """The smallest value that at least `share` of the counted ones do not exceed.

    Example:
        >>> percentile({10: 98, 20: 1, 500: 1}, 0.5), percentile({10: 98, 20: 1, 500: 1}, 0.99)
        (10, 20)
    """
    wanted, seen = share * sum(histogram.values()), 0
    for value in sorted(histogram):
        seen += histogram[value]
        if seen >= wanted:
            return value
    return None


def slope_per_minute(series: Sequence[tuple[float, float]], warm_up_s: float) -> float | None:
    """How much a series of (seconds, value) grows in a minute, by least squares, without its beginning.

    Args:
        series: in order of time.
        warm_up_s: how much of the beginning does not count.

    Example:
        >>> slope_per_minute([(0, 900.0), (60, 100.0), (120, 101.0), (180, 102.0)], warm_up_s=60)
        1.0
    """
    if not series:
        return None
    begin = series[0][0] + warm_up_s
    kept = [(at, value) for at, value in series if at >= begin]
    if len(kept) < 2:
        return None
    mean_at = sum(at for at, _ in kept) / len(kept)
    mean = sum(value for _, value in kept) / len(kept)
    spread = sum((at - mean_at) ** 2 for at, _ in kept)
    if not spread:
        return None
    return 60 * sum((at - mean_at) * (value - mean) for at, value in kept) / spread
