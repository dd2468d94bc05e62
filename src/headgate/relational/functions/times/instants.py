"""Rules of timestamps: as numbers and from numbers, moved by units, between zones; durations from parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import PlanError
from headgate.relational.functions.kernels import doubles, java_longs, missing, refuse, wholes, with_arrays
from headgate.relational.functions.times.calendar import days_from_fields, moved_by_months
from headgate.relational.functions.times.zone import (
    SESSION_ZONE,
    instants,
    instants_of,
    local,
    local_in,
    micros_of,
    offset_us,
)
from headgate.relational.resolved import Typed, Values
from headgate.relational.rules import (
    Judge,
    Kernel,
    Refine,
    RowsFailed,
    Rule,
    Signature,
    Types,
    add,
    constant_of,
    converts_by_itself,
    exactly,
)
from headgate.relational.spark_types import DURATION, LOCAL_TIMESTAMP, TIMESTAMP, is_integer, is_numeric

FAMILY: Final = "datetime"
_LONG: Final = pa.int64()
_INT: Final = pa.int32()
_TEXT: Final = pa.string()
_SECONDS: Final = pa.decimal128(16, 6)
_MICROS: Final = 1_000_000
_DAY_US: Final = 86_400 * _MICROS
_DAYS_MOST: Final = 2**63 // _DAY_US - 1
Micros = npt.NDArray[np.int64]

# -- numbers


def _epoch(unit_us: int) -> Kernel:
    def kernel(result: pa.DataType, times: pa.Array) -> pa.Array:
        return pa.array(micros_of(instants(times)) // unit_us, result, mask=missing(times))

    return with_arrays(kernel)


def _from_epoch(unit_us: int, result: pa.DataType, value: Values) -> Values:
    whole = pc.cast(value, _LONG)
    try:
        return pc.cast(pc.multiply_checked(whole, unit_us), result)
    except pa.ArrowInvalid:
        raise RowsFailed("DATETIME_OVERFLOW", "a number of units is beyond all timestamps") from None


def _from_seconds(result: pa.DataType, value: Values) -> Values:
    if pa.types.is_decimal(value.type):
        wide = pc.multiply(
            pc.cast(value, pa.decimal256(60, value.type.scale)), pa.scalar(_MICROS, pa.decimal256(7, 0))
        )
        return pc.cast(_as_long(wide), result)
    if not pa.types.is_floating(value.type):
        return _from_epoch(_MICROS, result, value)
    return with_arrays(_from_floats)(result, value)


def _from_floats(result: pa.DataType, value: pa.Array) -> pa.Array:
    plain = doubles(value)
    with np.errstate(over="ignore"):
        micros = java_longs(plain * _MICROS)
    return pa.array(micros, result, mask=missing(value) | ~np.isfinite(plain))


def _as_long(values: Values) -> Values:
    try:
        return pc.cast(values, _LONG)
    except pa.ArrowInvalid:
        raise RowsFailed(
            "ArithmeticException", "seconds have more than six digits, or are too many"
        ) from None


def _instant_judge(given: Types) -> Signature | None:
    # Spark converts nothing here: neither dates nor texts.
    return Signature(given, _LONG) if given == (TIMESTAMP,) else None


def _seconds_judge(given: Types) -> Signature | None:
    if len(given) != 1 or not (is_numeric(given[0]) or pa.types.is_null(given[0])):
        return None
    kind = _LONG if pa.types.is_null(given[0]) else given[0]
    return Signature((kind,), TIMESTAMP, nullable=True if pa.types.is_floating(kind) else None)


def _whole_judge(given: Types) -> Signature | None:
    return (
        exactly((_LONG,), TIMESTAMP)(given)
        if given and (is_integer(given[0]) or pa.types.is_null(given[0]))
        else None
    )


# -- units


_UNITS_US: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": _MICROS,
    "MINUTE": 60 * _MICROS,
    "HOUR": 3_600 * _MICROS,
    "DAY": _DAY_US,
    "DAYOFYEAR": _DAY_US,
    "WEEK": 7 * _DAY_US,
}
_UNITS_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _with_unit(name: str, found: Signature, arguments: Sequence[Typed]) -> Signature:
    given = constant_of(arguments, 0, f"the unit of {name}()").as_py()
    known = [*_UNITS_US, *_UNITS_MONTHS]
    if str(given).upper() not in known:
        raise PlanError(f"{name}() has no unit {given!r}; expected one of {', '.join(known)}")
    return found


def _add_judge(given: Types) -> Signature | None:
    local_time = len(given) == 3 and given[2] == LOCAL_TIMESTAMP
    kind = LOCAL_TIMESTAMP if local_time else TIMESTAMP
    return exactly((_TEXT, _LONG, kind), kind)(given)


def _timestamp_add(result: pa.DataType, unit: pa.Array, count: pa.Array, times: pa.Array) -> pa.Array:
    name = unit[0].as_py().upper() if len(unit) else "DAY"
    more = wholes(count)
    here = times if result == LOCAL_TIMESTAMP else local(times)
    absent = missing(count, times)
    if name in _UNITS_MONTHS:
        micros = micros_of(here)
        days = moved_by_months((micros // _DAY_US).astype(np.int32), more * _UNITS_MONTHS[name])
        refuse(pa.array((np.abs(days) > _DAYS_MOST) & ~absent), "DATETIME_OVERFLOW", _beyond(name))
        found = pa.array(days * _DAY_US + micros % _DAY_US, LOCAL_TIMESTAMP, mask=absent)
        return found if result == LOCAL_TIMESTAMP else instants(found)
    try:
        moved = pc.multiply_checked(pc.cast(count, _LONG), _UNITS_US[name])
        # Days and weeks are those of the session's zone, hours and what is shorter are not.
        shown = name in ("DAY", "DAYOFYEAR", "WEEK")
        start = here if shown else times
        found = pc.cast(pc.add_checked(pc.cast(start, _LONG), moved), start.type)
    except pa.ArrowInvalid:
        raise RowsFailed("DATETIME_OVERFLOW", _beyond(name)) from None
    return instants(found) if result == TIMESTAMP else found


def _beyond(unit: str) -> str:
    return f"a timestamp and so many {unit} are beyond all timestamps"


def _timestamp_diff(result: pa.DataType, unit: pa.Array, start: pa.Array, stop: pa.Array) -> pa.Array:
    name = unit[0].as_py().upper() if len(unit) else "DAY"
    one, other = micros_of(local(start)), micros_of(local(stop))
    if name in _UNITS_MONTHS:
        found = _towards_zero(_whole_months(one, other), _UNITS_MONTHS[name])
    else:
        found = _towards_zero(other - one, _UNITS_US[name])
    return pa.array(found, result, mask=missing(start, stop))


def _towards_zero(value: Micros, unit: int) -> Micros:
    found: Micros = np.where(value < 0, -(-value // unit), value // unit)
    return found


def _whole_months(start: Micros, stop: Micros) -> Micros:
    """Return whole months from `start` to `stop`, below 0 backwards; the last counts if it is over."""
    start_days, stop_days = start // _DAY_US, stop // _DAY_US
    start_time, stop_time = start % _DAY_US, stop % _DAY_US
    # A day that is not over does not count.
    later = (stop_days > start_days) & (stop_time < start_time)
    earlier = (stop_days < start_days) & (stop_time > start_time)
    stop_days = stop_days - later + earlier
    packed = []
    for days in (start_days, stop_days):
        dates = days.astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        packed.append(
            months.astype(np.int64) * 32 + (dates - months.astype("datetime64[D]")).astype(np.int64)
        )
    return _towards_zero(packed[1] - packed[0], 32)


# -- zones


def _from_utc(result: pa.DataType, times: Values, zone: pa.Scalar) -> Values:
    if not zone.is_valid:
        return pa.scalar(None, result)
    return pc.cast(local_in(times, zone.as_py()), result)


def _to_utc(result: pa.DataType, times: Values, zone: pa.Scalar) -> Values:
    if not zone.is_valid:
        return pa.scalar(None, result)
    return instants_of(pc.cast(times, LOCAL_TIMESTAMP), zone.as_py())


def _convert_timezone(result: pa.DataType, *values: Values) -> Values:
    source: pa.Scalar = values[0] if len(values) == 3 else pa.scalar(SESSION_ZONE)
    target, times = values[-2:]
    if not source.is_valid or not target.is_valid:
        return pa.scalar(None, result)
    return local_in(instants_of(times, source.as_py()), target.as_py())


def _zones_at(*places: int) -> Refine:
    def refine(found: Signature, arguments: Sequence[Typed]) -> Signature:
        for place in places:
            given = constant_of(arguments, place, "a time zone")
            if pa.types.is_string(given.type) and given.is_valid:
                _checked_zone(given.as_py())
        return found

    return refine


def _checked_zone(zone: str) -> None:
    try:
        offset_us(zone)
    except RowsFailed as failed:
        raise PlanError(f"{failed.why}; expected one such as 'Europe/Berlin', 'UTC' or '+01:00'") from None


# -- timestamps and durations from their parts


def _make_timestamp(result: pa.DataType, *fields: Values) -> Values:
    *numbers_of_fields, zone = fields if len(fields) == 7 else (*fields, pa.scalar(SESSION_ZONE))
    if not zone.is_valid:
        return pa.scalar(None, result)
    found = with_arrays(_local_of_fields)(LOCAL_TIMESTAMP, *numbers_of_fields)
    return found if result == LOCAL_TIMESTAMP else instants_of(found, zone.as_py())


def _local_of_fields(result: pa.DataType, *fields: pa.Array) -> pa.Array:
    absent = missing(*fields)
    micros = wholes(
        pc.cast(
            pc.multiply(pc.cast(fields[5], pa.decimal128(24, 6)), pa.scalar(_MICROS, pa.decimal128(7, 0))),
            _LONG,
        )
    )
    year, month, day, hour, minute = map(wholes, fields[:5])
    days, good = days_from_fields(year, month, day)
    broken = pa.array((micros > 60 * _MICROS) & (micros < 61 * _MICROS) & ~absent)
    refuse(broken, "INVALID_FRACTION_OF_SECOND", "seconds are above 60; expected 0 to 60")
    good &= (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60)
    bad = pa.array(~(good & (micros >= 0) & (micros <= 60 * _MICROS)) & ~absent)
    why = "the fields are no date and time; try_make_timestamp gives null"
    refuse(bad, "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION", why)
    found = ((days * 24 + hour) * 60 + minute) * 60 * _MICROS + micros
    return pa.array(found, result, mask=absent)


def _timestamp_judge(result: pa.DataType, zone: bool) -> Judge:
    def judge(given: Types) -> Signature | None:
        wanted = (*(_INT,) * 5, _SECONDS, *((_TEXT,) if zone and len(given) == 7 else ()))
        fits = len(given) == len(wanted) and all(map(converts_by_itself, given, wanted))
        return Signature(wanted, result) if fits else None

    return judge


def _zone_last(found: Signature, arguments: Sequence[Typed]) -> Signature:
    return _zones_at(6)(found, arguments) if len(arguments) == 7 else found


def _duration_judge(given: Types) -> Signature | None:
    wanted = (_INT, _INT, _INT, pa.decimal128(18, 6))[: len(given)]
    fits = len(given) <= 4 and all(map(converts_by_itself, given, wanted))
    return Signature(wanted, DURATION) if fits else None


def _make_duration(result: pa.DataType, *fields: Values) -> Values:
    found: Values = pa.scalar(0, _LONG)
    units = (_DAY_US, 3_600 * _MICROS, 60 * _MICROS)
    try:
        for value, unit in zip(fields[:3], units, strict=False):
            found = pc.add_checked(found, pc.multiply_checked(pc.cast(value, _LONG), unit))
        if len(fields) == 4:
            wide = pc.multiply(
                pc.cast(fields[3], pa.decimal128(26, 6)), pa.scalar(_MICROS, pa.decimal128(7, 0))
            )
            found = pc.add_checked(found, pc.cast(wide, _LONG))
    except pa.ArrowInvalid:
        raise RowsFailed(
            "INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION", "the parts are beyond all durations"
        ) from None
    return pc.cast(found, result)


def _register() -> None:
    for name, unit in (("seconds", _MICROS), ("millis", 1_000), ("micros", 1)):
        add(Rule(f"unix_{name}", FAMILY, _instant_judge, _epoch(unit), "a timestamp"))
    for name, unit in (("millis", 1_000), ("micros", 1)):
        kernel = partial(_from_epoch, unit)
        add(Rule(f"timestamp_{name}", FAMILY, _whole_judge, kernel, "a whole number", fails=unit > 1))
    add(Rule("timestamp_seconds", FAMILY, _seconds_judge, _from_seconds, "a number", fails=True))
    takes = "a unit, a constant, how many of it, and a timestamp"
    unit_first = partial(_with_unit, "timestamp_add")
    adding = with_arrays(_timestamp_add)
    add(Rule("timestamp_add", FAMILY, _add_judge, adding, takes, fails=True, refine=unit_first))
    two = exactly((_TEXT, TIMESTAMP, TIMESTAMP), _LONG)
    takes = "a unit, a constant, and two timestamps"
    unit_first = partial(_with_unit, "timestamp_diff")
    add(Rule("timestamp_diff", FAMILY, two, with_arrays(_timestamp_diff), takes, refine=unit_first))
    zoned = exactly((TIMESTAMP, _TEXT), TIMESTAMP)
    for name, shift in (("from_utc_timestamp", _from_utc), ("to_utc_timestamp", _to_utc)):
        add(Rule(name, FAMILY, zoned, shift, "a timestamp and a time zone, a constant", refine=_zones_at(1)))
    _register_parts()


def _register_parts() -> None:
    def converted(given: Types) -> Signature | None:
        zones = len(given) - 1
        return (
            exactly((_TEXT,) * zones + (LOCAL_TIMESTAMP,), LOCAL_TIMESTAMP)(given)
            if zones in (1, 2)
            else None
        )

    def zones_first(found: Signature, arguments: Sequence[Typed]) -> Signature:
        return _zones_at(*range(len(arguments) - 1))(found, arguments)

    takes = "one or two time zones, constants, and a local timestamp"
    add(Rule("convert_timezone", FAMILY, converted, _convert_timezone, takes, refine=zones_first))
    add(Rule("current_timezone", FAMILY, exactly((), _TEXT), lambda _: pa.scalar(SESSION_ZONE), "nothing"))
    takes = "year, month, day, hour, minute, second"
    for name, result in (("", TIMESTAMP), ("_ltz", TIMESTAMP), ("_ntz", LOCAL_TIMESTAMP)):
        judge = _timestamp_judge(result, zone=name != "_ntz")
        full = f"{takes}{'' if name == '_ntz' else ', and a time zone or nothing'}"
        made = f"make_timestamp{name}"
        add(Rule(made, FAMILY, judge, _make_timestamp, full, fails=True, refine=_zone_last))
    takes = "days, hours, minutes and seconds"
    add(Rule("make_dt_interval", FAMILY, _duration_judge, _make_duration, takes, fails=True))


_register()
