"""Dates, times and time zones as plain numbers and names, without loss; arithmetic only."""

from __future__ import annotations

import datetime as dt
from typing import Final
from zoneinfo import ZoneInfo

from headgate.common.errors import UsageError

Zone = str | int | tuple[int, str] | None  # key of a zone, offset in microseconds, or an offset with its name
Moment = int | tuple[int, int, Zone]  # microseconds of a wall clock; with fold and zone if there are any

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - wall clocks are subtracted from it
_MICROSECOND: Final = dt.timedelta(microseconds=1)


def datetime_to_plain(value: dt.datetime) -> Moment:
    """Return the wall clock in µs since 1970, or the tuple (that, fold, zone) if `value` has a fold or zone.

    UsageError if the zone is neither a `datetime.timezone` nor a `ZoneInfo` with a key.
    """
    micros = (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    if value.tzinfo is None and not value.fold:
        return micros
    return micros, value.fold, _zone_to_plain(value.tzinfo)


def datetime_from_plain(plain: Moment) -> dt.datetime:
    """Return the datetime from which :func:`datetime_to_plain` made `plain`; KeyError: no such zone here."""
    if isinstance(plain, int):
        return _EPOCH + dt.timedelta(microseconds=plain)
    micros, fold, zone = plain
    return (_EPOCH + dt.timedelta(microseconds=micros)).replace(fold=fold, tzinfo=_zone_from_plain(zone))


def time_to_plain(value: dt.time) -> Moment:
    """Return wall clock in µs since midnight, or (it, fold, zone) if it has any; UsageError: unknown zone."""
    micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if value.tzinfo is None and not value.fold:
        return micros
    return micros, value.fold, _zone_to_plain(value.tzinfo)


def time_from_plain(plain: Moment) -> dt.time:
    """Return the time from which :func:`time_to_plain` made `plain`; KeyError: no such zone here."""
    micros, fold, zone = (plain, 0, None) if isinstance(plain, int) else plain
    moment = (_EPOCH + dt.timedelta(microseconds=micros)).time()
    return moment.replace(fold=fold, tzinfo=_zone_from_plain(zone))


def timedelta_to_plain(value: dt.timedelta) -> tuple[int, int, int]:
    # All microseconds together can exceed 64 bits.
    return value.days, value.seconds, value.microseconds


def timedelta_from_plain(plain: tuple[int, int, int]) -> dt.timedelta:
    return dt.timedelta(*plain)


def _zone_to_plain(zone: dt.tzinfo | None) -> Zone:
    if zone is None:
        return None
    if type(zone) is ZoneInfo and zone.key is not None:
        return zone.key
    if type(zone) is dt.timezone:
        offset = zone.utcoffset(None) // _MICROSECOND
        name = zone.tzname(None)
        return offset if name == dt.timezone(zone.utcoffset(None)).tzname(None) else (offset, name)
    raise UsageError(
        f"a time zone is {zone!r} of type {type(zone).__qualname__}; "
        "expected datetime.timezone or a zoneinfo.ZoneInfo with a key"
    )


def _zone_from_plain(plain: Zone) -> dt.tzinfo | None:
    if plain is None:
        return None
    if isinstance(plain, str):
        return ZoneInfo(plain)
    if isinstance(plain, int):
        return dt.timezone(dt.timedelta(microseconds=plain))
    return dt.timezone(dt.timedelta(microseconds=plain[0]), plain[1])
