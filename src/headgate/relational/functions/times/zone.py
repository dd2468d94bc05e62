"""The time zone in which timestamps are shown and dates begin, and the way between instants and local times.

Local times that a zone skips are moved on by as much as it skips, and of two instants the earlier one is
meant, as Java's `ZonedDateTime.ofLocal` has it.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import first_rows, per_value
from headgate.relational.resolved import Values
from headgate.relational.rules import RowsFailed
from headgate.relational.spark_types import LOCAL_TIMESTAMP, TIMESTAMP

SESSION_ZONE: Final = "UTC"
"""The zone of the session; a setting will take its place."""

_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(?:(\d\d)(\d\d)|(\d{1,2})(?::(\d{1,2}))?)", re.ASCII)
_REGION: Final = re.compile(r"[A-Za-z][\w/+-]*", re.ASCII)
_UTC: Final = ("UTC", "GMT", "UT", "Z")
_HOURS_MAX: Final = 18
_SHORT: Final = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Java's short names of zones, some of which are others in the database of zones."""
_ARROW_ENDS: Final = pa.scalar(dt.datetime(2037, 1, 1), LOCAL_TIMESTAMP)  # noqa: DTZ001  # a local time
_DAY_US: Final = 86_400_000_000


@lru_cache(256)
def offset_us(zone: str) -> int | None:
    """Return how many microseconds a zone such as "+01:00" is ahead of UTC; None: that depends on the day.

    Raises:
        RowsFailed: there is no such zone.
    """
    if zone in _UTC:
        return 0
    zone = _SHORT.get(zone, zone)
    if found := _OFFSET.fullmatch(zone):
        hours, minutes = int(found[2] or found[4]), int(found[3] or found[5] or 0)
        if hours * 60 + minutes <= _HOURS_MAX * 60 and minutes < 60:
            return (-1 if found[1] == "-" else 1) * (hours * 60 + minutes) * 60_000_000
    try:
        if _REGION.fullmatch(zone):
            zoneinfo.ZoneInfo(zone)
            return None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise RowsFailed("INVALID_TIMEZONE", f"there is no time zone {zone!r}")


def local_in(values: Values, zone: str) -> Values:
    """Return instants (`timestamp`) as local times (`timestamp_ntz`) of a zone; RowsFailed: none such."""
    ahead = offset_us(zone)
    plain = pc.cast(values, LOCAL_TIMESTAMP)
    if ahead is not None:
        return plain if ahead == 0 else pc.add(plain, pa.scalar(ahead, pa.duration("us")))
    if isinstance(values, pa.Scalar):
        return local_in(first_rows(values), zone)[0]
    name = _SHORT.get(zone, zone)
    near = pc.if_else(pc.greater(plain, _ARROW_ENDS), pa.scalar(None, values.type), values)
    found = pc.cast(pc.local_timestamp(pc.cast(near, pa.timestamp("us", tz=name))), LOCAL_TIMESTAMP)
    return pc.coalesce(found, _far(plain, name, _local_of_instant))


def instants_of(values: Values, zone: str) -> Values:
    """Return local times (`timestamp_ntz`) of a zone as instants (`timestamp`); RowsFailed: no such zone."""
    ahead = offset_us(zone)
    if ahead is not None:
        return pc.cast(pc.subtract(values, pa.scalar(ahead, pa.duration("us"))), TIMESTAMP)
    if isinstance(values, pa.Scalar):
        return instants_of(first_rows(values), zone)[0]
    name = _SHORT.get(zone, zone)
    near = pc.if_else(pc.greater(values, _ARROW_ENDS), pa.scalar(None, LOCAL_TIMESTAMP), values)
    found = pc.assume_timezone(near, name, ambiguous="earliest", nonexistent="earliest")
    # For a local time that is skipped, that is the last instant before the change, whose offset goes on.
    offset = pc.subtract(pc.local_timestamp(found), pc.cast(found, LOCAL_TIMESTAMP))
    return pc.cast(pc.coalesce(pc.subtract(near, offset), _far(values, name, _instant_of_local)), TIMESTAMP)


def _far(values: pa.Array, zone: str, function: Callable[[str, int], int]) -> pa.Array:
    # From 2037 on Arrow has no summer time.
    far = pc.if_else(pc.greater(values, _ARROW_ENDS), values, pa.scalar(None, LOCAL_TIMESTAMP))
    if far.null_count == len(far):
        return far
    return pc.cast(per_value(partial(function, zone))(pa.int64(), pc.cast(far, pa.int64())), LOCAL_TIMESTAMP)


def _local_of_instant(zone: str, micros: int) -> int:
    near = _near(micros)
    moment = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=near)
    return micros + _offset(moment.astimezone(zoneinfo.ZoneInfo(zone)))


def _instant_of_local(zone: str, micros: int) -> int:
    near = _near(micros)
    local_time = dt.datetime(1970, 1, 1, tzinfo=zoneinfo.ZoneInfo(zone)) + dt.timedelta(microseconds=near)
    return micros - _offset(local_time)


def _near(micros: int) -> int:
    # The same day and hour so many times 400 years before, which Python knows.
    turn = 146_097 * _DAY_US
    return micros if micros < 2 * turn else micros % turn + turn


def _offset(time: dt.datetime) -> int:
    return (time.utcoffset() or dt.timedelta()) // dt.timedelta(microseconds=1)


def local(values: Values) -> Values:
    """Return dates and times as local times of the session's zone (`timestamp_ntz`)."""
    if values.type == TIMESTAMP:
        return local_in(values, SESSION_ZONE)
    return pc.cast(values, LOCAL_TIMESTAMP) if pa.types.is_date(values.type) else values


def instants(values: Values) -> Values:
    """Return dates and times, local in the session's zone, as instants (`timestamp`)."""
    return values if values.type == TIMESTAMP else instants_of(local(values), SESSION_ZONE)


def days_of(values: Values) -> Values:
    """Return the dates of times, in the session's zone."""
    return values if pa.types.is_date(values.type) else pc.cast(local(values), pa.date32(), safe=False)


def micros_of(values: pa.Array) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return times as microseconds since 1970, local ones as if they were in UTC; null as 0."""
    found: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    found = pc.fill_null(values.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return found
