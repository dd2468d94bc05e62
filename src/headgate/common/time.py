"""Durations as people write them, such as `5min`, and the least and greatest watermark."""

from __future__ import annotations

import re
from typing import Final

MILLISECONDS: Final = 1
SECONDS: Final = 1_000
MINUTES: Final = 60 * SECONDS
HOURS: Final = 60 * MINUTES
DAYS: Final = 24 * HOURS

WATERMARK_MIN: Final = -(2**63)
"""Before any event time: nothing is known yet."""

WATERMARK_MAX: Final = 2**63 - 1
"""After all event time: no further record can come."""

_UNITS: Final = {"ms": 1, "s": SECONDS, "min": MINUTES, "m": MINUTES, "h": HOURS, "d": DAYS}
# As Spark writes them: "10 seconds".
_WORDS: Final = {"millisecond": "ms", "second": "s", "minute": "min", "hour": "h", "day": "d"}
_PATTERN: Final = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*(?:(ms|s|min|m|h|d)|(?i:({'|'.join(_WORDS)})s?))\s*")


def duration_ms(value: int | float | str, name: str = "duration") -> int:
    """Return a duration, given as a number or as text with a unit, in whole milliseconds.

    Args:
        value: milliseconds as a number, or text such as ``"500ms"``, ``"7d"``, ``"10 minutes"``.
        name: what the duration is for; used in the error.

    Raises:
        ValueError: the text is not a duration, or the value is a bool, negative or not finite.

    Example:
        >>> duration_ms("1.5s"), duration_ms("7d"), duration_ms("10 seconds"), duration_ms(20)
        (1500, 604800000, 10000, 20)
    """
    if isinstance(value, str):
        match = _PATTERN.fullmatch(value)
        if match is None:
            raise ValueError(
                f"{name} is {value!r}; expected a number and a unit such as "
                "'500ms', '1s', '5min', '2h' or '7d'"
            )
        value = float(match[1]) * _UNITS[match[2] or _WORDS[match[3].lower()]]
    if isinstance(value, bool) or not 0 <= value < float("inf"):
        raise ValueError(f"{name} is {value!r}; expected a finite number of milliseconds, zero or more")
    return round(value)


def format_ms(value_ms: int) -> str:
    """Return a duration in its largest whole unit, d to ms, as text that :func:`duration_ms` reads back.

    Example:
        >>> format_ms(604_800_000), format_ms(1500)
        ('7d', '1500ms')
    """
    for unit in ("d", "h", "min", "s"):
        if value_ms and value_ms % _UNITS[unit] == 0:
            return f"{value_ms // _UNITS[unit]}{unit}"
    return f"{value_ms}ms"
