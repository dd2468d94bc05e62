"""Texts read by a pattern of dates and times, as strictly as Java: each field has its number of digits."""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import PlanError
from headgate.relational.functions.kernels import first_rows, per_value
from headgate.relational.functions.times.time_fields import MONTHS
from headgate.relational.functions.times.time_patterns import Part, parts_of
from headgate.relational.resolved import Values
from headgate.relational.rules import RowsFailed

_LONG: Final = pa.int64()
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # a local time
_QUICK: Final = {
    "yyyy-MM-dd": r"^\d{4}-\d{2}-\d{2}$",
    "yyyy-MM-dd HH:mm:ss": r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}$",
    "yyyy-MM-dd'T'HH:mm:ss": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$",
}
"""Patterns that Arrow's cast reads, and which texts it reads as Java does."""
_SHORT: Final = {month[:3].lower(): number for number, month in enumerate(MONTHS, 1)}
_LONG_NAMES: Final = {month.lower(): number for number, month in enumerate(MONTHS, 1)}
_EXPRESSIONS: Final = {
    "yyyy": r"(?P<year>\d{4})",
    "M": r"(?P<month>\d{1,19})",
    "MM": r"(?P<month>\d{2})",
    "MMM": f"(?P<name>{'|'.join(_SHORT)})",
    "MMMM": f"(?P<name>{'|'.join(_LONG_NAMES)})",
    "d": r"(?P<day>\d{1,19})",
    "dd": r"(?P<day>\d{2})",
    "H": r"(?P<hour>\d{1,19})",
    "HH": r"(?P<hour>\d{2})",
    "h": r"(?P<half>\d{1,19})",
    "hh": r"(?P<half>\d{2})",
    "a": r"(?P<pm>am|pm)",
    "m": r"(?P<minute>\d{1,19})",
    "mm": r"(?P<minute>\d{2})",
    "s": r"(?P<second>\d{1,19})",
    "ss": r"(?P<second>\d{2})",
}
"""What each part of a pattern reads."""


@lru_cache(256)
def _expression(pattern: str) -> re.Pattern[str]:
    parts = parts_of(pattern)
    texts = []
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        name = part.letter * part.times
        if part.letter == "":
            texts.append(re.escape(part.text))
        elif part.letter == "S":
            texts.append(rf"(?P<fraction>\d{{1,{part.times}}})")
        elif name not in _EXPRESSIONS or (part.times == 1 and part.letter != "a" and _is_digits(following)):
            raise PlanError(f"the pattern {pattern!r} has {name!r}, by which texts are not read here")
        else:
            texts.append(_EXPRESSIONS[name])
    try:
        found = re.compile("".join(texts), re.ASCII | re.IGNORECASE)
    except re.error:
        raise PlanError(f"the pattern {pattern!r} has a letter twice") from None
    if ("half" in found.groupindex) != ("pm" in found.groupindex):
        raise PlanError(f"the pattern {pattern!r} has one of h and a without the other one")
    return found


def _is_digits(part: Part | None) -> bool:
    return (
        part is not None
        and part.letter != ""
        and part.letter != "a"
        and not (part.letter == "M" and part.times > 2)
    )


def refuse_unreadable(pattern: str) -> None:
    """Raise PlanError for a pattern by which no text can be read, though times may be written by it."""
    _expression(pattern)


def micros_by_pattern(text: Values, pattern: str) -> Values:
    """Return texts, read by a pattern, as microseconds of local times since 1970.

    Raises:
        RowsFailed: a text does not fit the pattern, or is no date and time.
    """
    if pattern in _QUICK:
        found = _by_arrow(text, pattern)
        if found is not None:
            return found
    return per_value(lambda each: _micros(each, pattern))(_LONG, text)


def _by_arrow(text: Values, pattern: str) -> Values | None:
    known = pc.match_substring_regex(text, pattern=_QUICK[pattern])
    if not pc.all(first_rows(known)).as_py():
        return None
    try:
        return pc.cast(pc.cast(text, pa.timestamp("us")), _LONG)
    except pa.ArrowInvalid:
        return None


def _micros(text: str, pattern: str) -> int:
    found = _expression(pattern).fullmatch(text)
    try:
        if found is None:
            raise ValueError
        return (_time(found.groupdict()) - _EPOCH) // dt.timedelta(microseconds=1)
    except ValueError:
        why = f"{text!r} is no date and time by the pattern {pattern!r}; try_to_timestamp gives null"
        raise RowsFailed("CANNOT_PARSE_TIMESTAMP", why) from None


def _time(fields: dict[str, str | None]) -> dt.datetime:
    def field(name: str, default: int) -> int:
        return int(fields.get(name) or default)

    month = (fields.get("name") or "").lower()
    fraction = (fields.get("fraction") or "")[:6]
    hour = field("hour", 0)
    if (half := fields.get("half")) is not None:
        if not 1 <= int(half) <= 12:
            raise ValueError
        hour = int(half) % 12 + (12 if (fields.get("pm") or "").lower() == "pm" else 0)
    return dt.datetime(  # noqa: DTZ001  # a local time
        field("year", 1970),
        _SHORT.get(month) or _LONG_NAMES.get(month) or field("month", 1),
        field("day", 1),
        hour,
        field("minute", 0),
        field("second", 0),
        int(fraction.ljust(6, "0")),
    )
