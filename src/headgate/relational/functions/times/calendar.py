"""Rules of dates: days and months added, differences, beginnings of months, dates from fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import by_numpy, missing, per_value, refuse, wholes, with_arrays
from headgate.relational.functions.times.zone import instants, local, micros_of
from headgate.relational.resolved import Typed
from headgate.relational.rules import RowsFailed, Rule, Signature, add, constant_of, either, exactly
from headgate.relational.spark_types import LOCAL_TIMESTAMP, TIMESTAMP

FAMILY: Final = "datetime"
_DATE: Final = pa.date32()
_INT: Final = pa.int32()
_TEXT: Final = pa.string()
_BOOL: Final = pa.bool_()
Days = npt.NDArray[np.int32]
Micros = npt.NDArray[np.int64]
_DAY_US: Final = 86_400_000_000
_DAYS_LEAST: Final = -(2**31)
_DAYS_MOST: Final = 2**31 - 1
_MONTH_S: Final = 31 * 86_400


# -- months


def _months_and_days(days: Days | Micros) -> tuple[Micros, Micros]:
    # Months since 1970, and the day within the month from 0.
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    return months.astype(np.int64), (dates - months.astype("datetime64[D]")).astype(np.int64)


def _first_day(months: Micros) -> Micros:
    found: Micros = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return found


def _last_day(days: Days) -> Days:
    months, _ = _months_and_days(days)
    return (_first_day(months + 1) - 1).astype(np.int32)


def moved_by_months(days: Days, months: npt.NDArray[np.generic]) -> Micros:
    """Return days since 1970 moved by months; a day that the month does not have becomes its last one."""
    month, day = _months_and_days(days)
    wanted = month + months.astype(np.int64)
    found: Micros = np.minimum(_first_day(wanted) + day, _first_day(wanted + 1) - 1)
    return found


def _add_months(days: Days, months: npt.NDArray[np.generic]) -> Days:
    found = moved_by_months(days, months)
    if len(found) and (found.min() < _DAYS_LEAST or found.max() > _DAYS_MOST):
        raise RowsFailed("ARITHMETIC_OVERFLOW", "so many months lead beyond all dates")
    return found.astype(np.int32)


def _months_between(one: Micros, other: Micros, rounded: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    days = [(each // _DAY_US).astype(np.int32) for each in (one, other)]
    (months, day), (other_months, other_day) = map(_months_and_days, days)
    last, other_last = (_last_day(each) == each for each in days)
    whole = (months - other_months).astype(np.float64)
    seconds = (day - other_day) * 86_400 + one % _DAY_US // 1_000_000 - other % _DAY_US // 1_000_000
    exact = whole + seconds / float(_MONTH_S)
    found = np.where(rounded, np.floor(exact * 1e8 + 0.5) / 1e8, exact)
    return np.where((day == other_day) | (last & other_last), whole, found)


def _between(result: pa.DataType, one: pa.Array, other: pa.Array, *rounded: pa.Array) -> pa.Array:
    plain = wholes(rounded[0]).astype(np.bool_) if rounded else np.ones(len(one), np.bool_)
    found = _months_between(micros_of(local(one)), micros_of(local(other)), plain)
    return pa.array(found, result, mask=missing(one, other, *rounded))


# -- days


def _plus_days(days: Days, more: Days) -> Days:
    return days + more


def _minus_days(days: Days, less: Days) -> Days:
    return days - less


_WEEKDAYS: Final = ("THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY")
"""The days of the week from 1970-01-01 on."""


def _weekday(name: str) -> int:
    wanted = name.upper()
    for number, day in enumerate(_WEEKDAYS):
        if wanted in (day, day[:3], day[:2]):
            return number
    raise RowsFailed("ILLEGAL_DAY_OF_WEEK", f"{name!r} is no day of the week; expected one such as 'Mon'")


def _next_day(result: pa.DataType, days: pa.Array, name: pa.Array) -> pa.Array:
    # A name beside no date is not looked at.
    known = pc.if_else(pc.is_null(days), pa.scalar(None, _TEXT), name)
    wanted = per_value(_weekday)(_INT, known)
    plain = wholes(days)
    found = plain + 1 + (wholes(wanted) - 1 - plain) % 7
    return pa.array(found.astype(np.int32), result, mask=missing(days, wanted))


# -- beginnings


_UNITS: Final = {
    "microsecond": ("MICROSECOND",),
    "millisecond": ("MILLISECOND",),
    "second": ("SECOND",),
    "minute": ("MINUTE",),
    "hour": ("HOUR",),
    "day": ("DAY", "DD"),
    "week": ("WEEK",),
    "month": ("MONTH", "MM", "MON"),
    "quarter": ("QUARTER",),
    "year": ("YEAR", "YYYY", "YY"),
}
_UNITS_US: Final = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": _DAY_US,
}
_UNIT_OF: Final = {name: unit for unit, names in _UNITS.items() for name in names}
_OF_DATES: Final = ("week", "month", "quarter", "year")


def _date_trunc(result: pa.DataType, name: pa.Array, times: pa.Array) -> pa.Array:
    unit = _unit(name)
    if unit is None:
        return pa.nulls(len(times), result)
    return instants(pa.array(_floor(micros_of(local(times)), unit), LOCAL_TIMESTAMP, mask=missing(times)))


def _trunc(result: pa.DataType, days: pa.Array, name: pa.Array) -> pa.Array:
    unit = _unit(name)
    if unit not in _OF_DATES:
        return pa.nulls(len(days), result)
    return pa.array(_first_of(wholes(days), unit).astype(np.int32), result, mask=missing(days))


def _unit(names: pa.Array) -> str | None:
    # The name is the same in all rows.
    return _UNIT_OF.get((names[0].as_py() or "").upper()) if len(names) else "day"


def _floor(micros: Micros, unit: str) -> Micros:
    if unit in _UNITS_US:
        return micros // _UNITS_US[unit] * _UNITS_US[unit]
    return _first_of(micros // _DAY_US, unit) * _DAY_US


def _first_of(days: Micros, unit: str) -> Micros:
    if unit == "week":
        return days - (days + 3) % 7  # 1970-01-01 was a Thursday
    size = {"month": 1, "quarter": 3, "year": 12}[unit]
    months, _ = _months_and_days(days)
    return _first_day(months // size * size)


def _unit_first(found: Signature, arguments: Sequence[Typed]) -> Signature:
    constant_of(arguments, 0, "the unit of date_trunc()")
    return found


def _unit_second(found: Signature, arguments: Sequence[Typed]) -> Signature:
    constant_of(arguments, 1, "the unit of trunc()")
    return found


# -- dates from fields


def days_from_fields(year: Micros, month: Micros, day: Micros) -> tuple[Micros, npt.NDArray[np.bool_]]:
    """Return days since 1970 for years, months and days (both from 1), and which of them do exist."""
    months = (year - 1970) * 12 + month - 1
    first = _first_day(months)
    size = _first_day(months + 1) - first
    good = (month >= 1) & (month <= 12) & (day >= 1) & (day <= size)
    return first + day - 1, good


def _make_date(result: pa.DataType, *fields: pa.Array) -> pa.Array:
    days, good = days_from_fields(*map(wholes, fields))
    absent = missing(*fields)
    bad = pa.array(~good & ~absent)
    why = "year, month and day are in no calendar; try_make_date gives null"
    refuse(bad, "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION", why)
    return pa.array(days.astype(np.int32), result, mask=absent)


def _register() -> None:
    date_and_number = exactly((_DATE, _INT), _DATE)
    add(
        Rule(
            "add_months",
            FAMILY,
            date_and_number,
            by_numpy(_add_months),
            "a date and a number of months",
            True,
        )
    )
    add(Rule("date_add", FAMILY, date_and_number, by_numpy(_plus_days), "a date and a number of days"))
    add(Rule("date_sub", FAMILY, date_and_number, by_numpy(_minus_days), "a date and a number of days"))
    add(Rule("datediff", FAMILY, exactly((_DATE, _DATE), _INT), by_numpy(_minus_days), "two dates"))
    add(Rule("last_day", FAMILY, exactly((_DATE,), _DATE), by_numpy(_last_day), "a date"))
    takes = "a date and the name of a day of the week"
    add(Rule("next_day", FAMILY, exactly((_DATE, _TEXT), _DATE), with_arrays(_next_day), takes, fails=True))
    two = exactly((TIMESTAMP, TIMESTAMP), pa.float64())
    between = either(two, exactly((TIMESTAMP, TIMESTAMP, _BOOL), pa.float64()))
    takes = "two timestamps, and whether to round or nothing"
    add(Rule("months_between", FAMILY, between, with_arrays(_between), takes))
    takes = "a unit, a constant, and a timestamp"
    truncated = exactly((_TEXT, TIMESTAMP), TIMESTAMP, nullable=True)
    kernel = with_arrays(_date_trunc)
    add(Rule("date_trunc", FAMILY, truncated, kernel, takes, refine=_unit_first))
    trunc = exactly((_DATE, _TEXT), _DATE, nullable=True)
    takes = "a date and a unit, a constant"
    add(Rule("trunc", FAMILY, trunc, with_arrays(_trunc), takes, refine=_unit_second))
    fields = exactly((_INT, _INT, _INT), _DATE)
    add(Rule("make_date", FAMILY, fields, with_arrays(_make_date), "a year, a month and a day", fails=True))
    add(Rule("unix_date", FAMILY, exactly((_DATE,), _INT), lambda _, days: pc.cast(days, _INT), "a date"))
    from_unix = exactly((_INT,), _DATE)
    add(
        Rule(
            "date_from_unix_date", FAMILY, from_unix, lambda _, n: pc.cast(n, _DATE), "days since 1970-01-01"
        )
    )


_register()
