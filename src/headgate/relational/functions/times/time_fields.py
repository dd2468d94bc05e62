"""Rules of fields of dates and times: year, month, hour, names of days, `date_part`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import PlanError
from headgate.relational.functions.kernels import first_rows, missing, per_value, wholes
from headgate.relational.functions.times.zone import days_of, local
from headgate.relational.resolved import Typed, Values
from headgate.relational.rules import Judge, Kernel, Rule, Signature, Types, add, constant_of, exactly
from headgate.relational.spark_types import DURATION, LOCAL_TIMESTAMP, TIMESTAMP, text_of

FAMILY: Final = "datetime"
_INT: Final = pa.int32()
_DATE: Final = pa.date32()
_TEXT: Final = pa.string()
_SECONDS: Final = pa.decimal128(8, 6)
_MICROS: Final = 1_000_000
_DAYS_OF_400_YEARS: Final = 146_097
_DAYS_OF_ARROW: Final = 10_000_000
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip


def _week_from(monday: int) -> Callable[[Values], Values]:
    return lambda values: pc.day_of_week(values, count_from_zero=monday == 0, week_start=1)


def _from_sunday(values: Values) -> Values:
    return pc.day_of_week(values, count_from_zero=False, week_start=7)


_OF_DAYS: Final[dict[str, Callable[[Values], Values]]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "day": pc.day,
    "dayofyear": pc.day_of_year,
    "dayofweek": _from_sunday,
    "weekday": _week_from(0),
    "weekofyear": pc.iso_week,
}
_OF_TIMES: Final[dict[str, Callable[[Values], Values]]] = {
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}


def field_of(name: str, values: Values) -> Values:
    """Return a field of dates or times, such as "year" or "hour", as `int`, in the session's zone."""
    if name in _OF_DAYS:
        return pc.cast(of_days(_OF_DAYS[name], days_of(values)), _INT)
    return pc.cast(_OF_TIMES[name](local(values)), _INT)


def of_days(field: Callable[[Values], Values], days: Values) -> Values:
    """Return a field of dates by an Arrow kernel, also of years that the kernel does not know.

    Arrow's years are those of 16 bits. The calendar repeats itself after 400 years.
    """
    least, most = (pc.min_max(pc.cast(first_rows(days), _INT))[name].as_py() for name in ("min", "max"))
    if least is None or (least > -_DAYS_OF_ARROW and most < _DAYS_OF_ARROW):
        return field(days)
    if isinstance(days, pa.Scalar):
        return of_days(field, first_rows(days))[0]
    plain = wholes(days)
    turns = plain // _DAYS_OF_400_YEARS
    near = pa.array((plain - turns * _DAYS_OF_400_YEARS).astype(np.int32), _DATE, mask=missing(days))
    found = pc.cast(field(near), pa.int64())
    return pc.add(found, pa.array(turns.astype(np.int64) * 400)) if field in (pc.year, pc.iso_year) else found


def _field(name: str) -> Kernel:
    return lambda _result, values: field_of(name, values)


def of_times(result: pa.DataType) -> Judge:
    """Return a judge of functions of one timestamp with or without a zone; a date is one at midnight."""

    def judge(given: Types) -> Signature | None:
        kind = LOCAL_TIMESTAMP if given and given[0] == LOCAL_TIMESTAMP else TIMESTAMP
        return exactly((kind,), result)(given)

    return judge


def _name_of(field: str, names: Sequence[str]) -> Kernel:
    counted = {"weekday": 0, "month": 1}[field]
    short = [name[:3] for name in names]

    def kernel(result: pa.DataType, values: Values) -> Values:
        return per_value(lambda number: short[number - counted])(result, field_of(field, values))

    return kernel


# -- date_part


_NAMES: Final = {
    "year": ("Y", "YEAR", "YEARS", "YR", "YRS"),
    "yearofweek": ("YEAROFWEEK",),
    "quarter": ("QUARTER", "QTR"),
    "month": ("MONTH", "MON", "MONS", "MONTHS"),
    "weekofyear": ("WEEK", "W", "WEEKS"),
    "day": ("DAY", "D", "DAYS"),
    "dayofweek": ("DAYOFWEEK", "DOW"),
    "weekday": ("DAYOFWEEK_ISO", "DOW_ISO"),
    "dayofyear": ("DOY",),
    "hour": ("HOUR", "H", "HOURS", "HR", "HRS"),
    "minute": ("MINUTE", "M", "MIN", "MINS", "MINUTES"),
    "second": ("SECOND", "S", "SEC", "SECONDS", "SECS"),
}
_FIELDS: Final = {name: field for field, names in _NAMES.items() for name in names}
_OF_DURATIONS: Final = {"day": _INT, "hour": pa.int8(), "minute": pa.int8(), "second": _SECONDS}


def _part_judge(given: Types) -> Signature | None:
    if len(given) != 2 or not pa.types.is_string(given[0]):
        return None
    kind = given[1]
    if pa.types.is_string(kind) or pa.types.is_null(kind):
        kind = TIMESTAMP
    known = kind == DURATION or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    return Signature((_TEXT, kind), _INT) if known else None


def _part_type(found: Signature, arguments: Sequence[Typed]) -> Signature:
    given = constant_of(arguments, 0, "the field of date_part()").as_py()
    field, kind = _FIELDS.get(str(given).upper()), found.arguments[1]
    if field is None or (kind == DURATION and field not in _OF_DURATIONS):
        known = ", ".join(_OF_DURATIONS if kind == DURATION else _NAMES).upper()
        raise PlanError(f"date_part() has no field {given!r} of {text_of(kind)}; expected one of {known}")
    if kind == DURATION:
        return found._replace(result=_OF_DURATIONS[field])
    return found._replace(result=_SECONDS if field == "second" else _INT)


def _part(result: pa.DataType, name: pa.Scalar, values: Values) -> Values:
    field = _FIELDS[name.as_py().upper()]
    if values.type == DURATION:
        return _part_of_duration(field, result, values)
    match field:
        case "second":
            whole = pc.cast(local(values), pa.int64())
            return _seconds(
                pc.subtract(whole, pc.multiply(_floor(whole, 60 * _MICROS), 60 * _MICROS)), result
            )
        case "weekday":
            return pc.cast(of_days(_week_from(1), days_of(values)), _INT)
        case "yearofweek":
            return pc.cast(of_days(pc.iso_year, days_of(values)), _INT)
    return field_of(field, values)


def _floor(values: Values, unit: int) -> Values:
    down = pc.divide(values, unit)
    return pc.subtract(down, pc.cast(pc.less(values, pc.multiply(down, unit)), pa.int64()))


def _seconds(micros: Values, result: pa.DataType) -> Values:
    # Millionths become digits after the point.
    return pc.cast(pc.multiply(pc.cast(micros, pa.decimal128(19, 0)), _MILLIONTH), result)


_MILLIONTH: Final = pa.scalar("0.000001").cast(pa.decimal128(7, 6))


def _part_of_duration(field: str, result: pa.DataType, values: Values) -> Values:
    size, unit = {"day": (None, 86_400), "hour": (24, 3_600), "minute": (60, 60), "second": (60, 1)}[field]
    whole = pc.cast(values, pa.int64())
    if field == "second":
        minutes = pc.multiply(pc.divide(whole, 60 * _MICROS), 60 * _MICROS)
        return _seconds(pc.subtract(whole, minutes), result)
    found = pc.divide(whole, unit * _MICROS)
    if size is not None:
        found = pc.subtract(found, pc.multiply(pc.divide(found, size), size))
    return pc.cast(found, result)


def _register() -> None:
    for name in _OF_DAYS:
        add(Rule(name, FAMILY, exactly((_DATE,), _INT), _field(name), "a date"))
    for name in _OF_TIMES:
        add(Rule(name, FAMILY, of_times(_INT), _field(name), "a timestamp"))
    add(Rule("dayname", FAMILY, exactly((_DATE,), _TEXT), _name_of("weekday", DAYS), "a date"))
    add(Rule("monthname", FAMILY, exactly((_DATE,), _TEXT), _name_of("month", MONTHS), "a date"))
    takes = "a field, a constant, and a date, a timestamp or a duration"
    add(Rule("date_part", FAMILY, _part_judge, _part, takes, refine=_part_type))


_register()
