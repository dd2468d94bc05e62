"""Casts of texts to dates and times, and of these to texts.

A year has four digits or more, what follows has one or two, and what is left out is the first there is. A
fraction and a zone may stand after the seconds.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import first_rows, per_value
from headgate.relational.functions.times.zone import SESSION_ZONE, instants_of, local, offset_us
from headgate.relational.resolved import Values
from headgate.relational.rules import RowsFailed
from headgate.relational.spark_types import LOCAL_TIMESTAMP, TIMESTAMP

_DATE: Final = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIME: Final = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?"
    r"[ ]*([A-Za-z+-][\w/:+-]*)?)?)?)?)?)?",
    re.ASCII,
)
_PLAIN_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_PLAIN_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
_DAY_US: Final = 86_400_000_000
_YEAR_0: Final = -719_528
_YEAR_10000: Final = 2_932_897
_LONG: Final = pa.int64()
_TEXT: Final = pa.string()
_NO_ZONE: Final = 2**62
"""Stands for a zone that there is not, where an offset is asked for."""


def times_of(texts: Values, to: pa.DataType) -> Values:
    """Return texts, without blanks around them, as type `to`, a date or time; what is none becomes null."""
    plain = _PLAIN_DATE if pa.types.is_date(to) else _PLAIN_TIME
    if pc.all(first_rows(pc.match_substring_regex(texts, pattern=plain))).as_py():
        try:
            if to == TIMESTAMP:
                return instants_of(pc.cast(texts, LOCAL_TIMESTAMP), SESSION_ZONE)
            return pc.cast(texts, to)
        except pa.ArrowInvalid:
            pass  # one of them is in no calendar: row by row
    if pa.types.is_date(to):
        return pc.cast(per_value(_date)(pa.int32(), texts), to)
    return pc.cast(per_value(_instant if to == TIMESTAMP else _local_time)(_LONG, texts), to)


def days_since_1970(year: int, month: int, day: int) -> int | None:
    """Return the day of a date of any year; None: it is in no calendar.

    Example:
        >>> days_since_1970(1970, 1, 2), days_since_1970(2023, 2, 29), days_since_1970(0, 1, 1)
        (1, None, -719528)
    """
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        return None
    before = year - 1
    return (
        365 * before + before // 4 - before // 100 + before // 400 + sum(lengths[: month - 1]) + day - 719_163
    )


def _date(text: str) -> int | None:
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    days = days_since_1970(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    return days if days is not None and -(2**31) <= days < 2**31 else None


def _parts(text: str) -> tuple[int, str | None] | None:
    # Microseconds of the local time, and the zone.
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days = days_since_1970(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    hour, minute, second = (int(found[place] or 0) for place in (4, 5, 6))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    micros = ((hour * 60 + minute) * 60 + second) * 1_000_000 + int((found[7] or "")[:6].ljust(6, "0"))
    return days * _DAY_US + micros, found[8]


def _local_time(text: str) -> int | None:
    found = _parts(text)
    # A zone does not count here, but it must be one.
    known = found is not None and (found[1] is None or _ahead(found[1]) != _NO_ZONE)
    return found[0] if found is not None and known and -(2**63) <= found[0] < 2**63 else None


def _ahead(zone: str) -> int | None:
    try:
        return offset_us(zone)
    except RowsFailed:
        return _NO_ZONE


def _instant(text: str) -> int | None:
    found = _parts(text)
    if found is None:
        return None
    micros, zone = found[0], found[1] or SESSION_ZONE
    ahead = _ahead(zone)
    if ahead == _NO_ZONE:
        return None
    if ahead is not None:
        return micros - ahead if -(2**63) <= micros - ahead < 2**63 else None
    return int(pc.cast(instants_of(pa.scalar(micros, LOCAL_TIMESTAMP), zone), _LONG).as_py())


def time_texts(values: Values) -> Values:
    """Return dates and times as texts; a fraction of a second without zeros at its end."""
    if pa.types.is_date(values.type):
        days = pc.cast(values, pa.int32())
        return pc.cast(values, _TEXT) if _of_four_digits(days, 1) else per_value(_date_text)(_TEXT, days)
    micros = pc.cast(local(values), _LONG)
    if not _of_four_digits(micros, _DAY_US):
        return per_value(_time_text)(_TEXT, micros)
    # Arrow writes six digits of a second.
    return pc.utf8_rtrim(pc.utf8_rtrim(pc.cast(local(values), _TEXT), characters="0"), characters=".")


def _of_four_digits(values: Values, day: int) -> bool:
    bounds = pc.min_max(first_rows(values))
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    return least is None or (least >= _YEAR_0 * day and most < _YEAR_10000 * day)


def _date_text(days: int) -> str:
    # Within Python's calendar, and then so many times 400 years away from it.
    turns, near = divmod(days, 146_097)
    date = dt.date(1970, 1, 1) + dt.timedelta(days=near)
    year = date.year + 400 * turns
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{date.month:02d}-{date.day:02d}"


def _time_text(micros: int) -> str:
    days, rest = divmod(micros, _DAY_US)
    time = (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=rest)).time()  # noqa: DTZ001  # of any zone
    fraction = f".{time.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{_date_text(days)} {time:%H:%M:%S}{fraction}"
