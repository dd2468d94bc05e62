"""Rules of times written and read by a pattern: `date_format`, `to_timestamp` and the like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.casts import cast_values
from headgate.relational.functions.kernels import missing, per_value, wholes
from headgate.relational.functions.times.reading import micros_by_pattern, refuse_unreadable
from headgate.relational.functions.times.time_fields import DAYS, MONTHS, field_of
from headgate.relational.functions.times.time_patterns import Part, parts_of
from headgate.relational.functions.times.zone import days_of, instants, local
from headgate.relational.resolved import Typed, Values
from headgate.relational.rules import Judge, Refine, Rule, Signature, Types, add, constant_of, exactly
from headgate.relational.spark_types import LOCAL_TIMESTAMP, TIMESTAMP

FAMILY: Final = "datetime"
_TEXT: Final = pa.string()
_DATE: Final = pa.date32()
_LONG: Final = pa.int64()
_PLAIN: Final = "yyyy-MM-dd HH:mm:ss"
_HOUR_US: Final = 3_600_000_000
_DAY_US: Final = 24 * _HOUR_US
_UNITS_US: Final = {"S": 1, "s": 1_000_000, "m": 60_000_000, **dict.fromkeys("aHkhK", _HOUR_US)}
"""For each letter the microseconds of the largest unit within which it is the same; other letters: a day."""


# -- writing


def _half_day(values: Values) -> Values:
    return pc.if_else(pc.less(field_of("hour", values), 12), pa.scalar("AM"), pa.scalar("PM"))


def _hour_of(size: int, zero: int) -> Callable[[Values], Values]:
    def hour(values: Values) -> Values:
        found = field_of("hour", values)
        rest = pc.subtract(found, pc.multiply(pc.divide(found, size), size)) if size < 24 else found
        return pc.if_else(pc.equal(rest, 0), pa.scalar(zero, pa.int32()), rest)

    return hour


_NUMBERS: Final[dict[str, Callable[[Values], Values]]] = {
    "y": partial(field_of, "year"),
    "M": partial(field_of, "month"),
    "L": partial(field_of, "month"),
    "d": partial(field_of, "day"),
    "D": partial(field_of, "dayofyear"),
    "H": partial(field_of, "hour"),
    "k": _hour_of(24, 24),
    "h": _hour_of(12, 12),
    "K": _hour_of(12, 0),
    "m": partial(field_of, "minute"),
    "s": partial(field_of, "second"),
}


def _written(part: Part, times: Values) -> Values:
    letter, count = part.letter, part.times
    if letter == "":
        return pa.scalar(part.text)
    if letter == "a":
        return _half_day(times)
    if letter == "S":
        micros = pc.add(pc.multiply(pc.millisecond(times), 1_000), pc.microsecond(times))
        digits = pc.utf8_lpad(pc.cast(micros, _TEXT), width=6, padding="0")
        return pc.utf8_slice_codeunits(pc.utf8_rpad(digits, width=9, padding="0"), 0, count)
    if letter == "E":
        names = [day if count == 4 else day[:3] for day in DAYS]
        return per_value(lambda number: names[number])(_TEXT, field_of("weekday", times))
    number = _NUMBERS[letter](times)
    if letter in "ML" and count > 2:
        names = [month if count == 4 else month[:3] for month in MONTHS]
        return per_value(lambda number: names[number - 1])(_TEXT, number)
    if letter == "y" and count == 2:
        number = pc.subtract(number, pc.multiply(pc.divide(number, 100), 100))
    return _year(number, count) if letter == "y" and count > 3 else _padded(number, count)


def _padded(number: Values, count: int) -> Values:
    return pc.utf8_lpad(pc.cast(number, _TEXT), width=count, padding="0")


def _year(number: Values, count: int) -> Values:
    # With a sign before 0, and where there are more digits than asked for.
    sign = pc.if_else(pc.less(number, 0), "-", pc.if_else(pc.greater_equal(number, 10**count), "+", ""))
    return pc.binary_join_element_wise(sign, _padded(pc.abs(number), count), "")


def written(values: Values, pattern: str) -> Values:
    """Return dates and times as texts by a pattern, in the session's zone; null for null.
    PlanError if the pattern has a letter that is not taken, see :func:`parts_of`.
    """
    times = local(values)
    if isinstance(times, pa.Scalar) or not pa.types.is_timestamp(times.type):
        return _of_each(times, pattern)
    return _of_alike(times, pattern)


def _of_each(times: Values, pattern: str) -> Values:
    parts = [_written(part, times) for part in parts_of(pattern)]
    empty = pa.scalar("")
    if isinstance(times, pa.Scalar):
        return pa.scalar("".join(part.as_py() for part in parts) if times.is_valid else None, _TEXT)
    if not any(isinstance(part, pa.Array) for part in parts):
        parts.append(pc.if_else(pc.is_valid(times), empty, pa.scalar(None, _TEXT)))
    return pc.binary_join_element_wise(*parts, empty)


def _of_alike(times: pa.Array, pattern: str) -> Values:
    """Write one time of each unit that the pattern tells apart: times of a batch are near each other, and
    most batches are of one day and few minutes.
    """
    unit = min((_UNITS_US.get(part.letter, _DAY_US) for part in parts_of(pattern)), default=_DAY_US)
    if unit == 1:
        return _of_each(times, pattern)
    units = pa.array(wholes(times) // unit, mask=missing(times)).dictionary_encode()
    if 2 * len(units.dictionary) > len(times):
        return _of_each(times, pattern)
    return _of_units(pattern, times.type, unit, tuple(units.dictionary.to_pylist())).take(units.indices)


@lru_cache(maxsize=16)
def _of_units(pattern: str, kind: pa.DataType, unit: int, units: tuple[int, ...]) -> Values:
    # The next batch is mostly of the same units. The earliest of all begins before there are times.
    starts = [max(each * unit, -(2**63)) for each in units]
    return _of_each(pa.array(starts, pa.int64()).cast(kind), pattern)


def _date_format(result: pa.DataType, values: Values, pattern: pa.Scalar) -> Values:
    return written(values, pattern.as_py()) if pattern.is_valid else pa.scalar(None, result)


def _from_unixtime(result: pa.DataType, seconds: Values, pattern: pa.Scalar | None = None) -> Values:
    # What is beyond all times wraps, as in Spark.
    times = pc.cast(pc.multiply(seconds, 1_000_000), TIMESTAMP)
    return _date_format(result, times, pa.scalar(_PLAIN) if pattern is None else pattern)


# -- reading


def _read(result: pa.DataType, text: Values, pattern: pa.Scalar | None = None) -> Values:
    if pattern is None:
        return cast_values(text, result, strict=True)
    if not pattern.is_valid:
        return pa.scalar(None, result)
    times = pc.cast(micros_by_pattern(text, pattern.as_py()), LOCAL_TIMESTAMP)
    if pa.types.is_date(result):
        return days_of(times)
    return times if result == LOCAL_TIMESTAMP else instants(times)


def _time_or_text(result: pa.DataType) -> Judge:
    def judge(given: Types) -> Signature | None:
        if len(given) not in (1, 2):
            return None
        times = pa.types.is_date(given[0]) or pa.types.is_timestamp(given[0])
        wanted = (given[0] if times else _TEXT, _TEXT)[: len(given)]
        return exactly(wanted, result)(given)

    return judge


def _to_time(result: pa.DataType, values: Values, pattern: pa.Scalar | None = None) -> Values:
    if pa.types.is_string(values.type):
        return _read(result, values, pattern)
    if pattern is not None and not pattern.is_valid:
        return pa.scalar(None, result)
    return cast_values(values, result, strict=True)


def _unix_timestamp(result: pa.DataType, values: Values, pattern: pa.Scalar | None = None) -> Values:
    form = pa.scalar(_PLAIN) if pattern is None else pattern
    micros = pc.cast(_to_time(TIMESTAMP, values, form), _LONG)
    # Towards zero, unlike unix_seconds().
    return pc.cast(pc.divide(micros, 1_000_000), result)


def _pattern_at(place: int, reads: bool = True) -> Refine:
    def refine(found: Signature, arguments: Sequence[Typed]) -> Signature:
        if len(arguments) <= place:
            return found
        pattern = constant_of(arguments, place, "the pattern")
        if not pattern.is_valid:
            return found._replace(nullable=True)
        if reads and pa.types.is_string(found.arguments[0]):
            refuse_unreadable(pattern.as_py())
        parts_of(pattern.as_py())
        return found

    return refine


def _register() -> None:
    takes = "a timestamp and a pattern, a constant"
    format_judge = exactly((TIMESTAMP, _TEXT), _TEXT)
    local_judge = exactly((LOCAL_TIMESTAMP, _TEXT), _TEXT)

    def formatted(given: Types) -> Signature | None:
        return (local_judge if given and given[0] == LOCAL_TIMESTAMP else format_judge)(given)

    add(Rule("date_format", FAMILY, formatted, _date_format, takes, refine=_pattern_at(1, reads=False)))
    takes = "seconds since 1970, and a pattern or nothing"

    def from_seconds(given: Types) -> Signature | None:
        return exactly((_LONG, _TEXT)[: len(given)], _TEXT)(given) if given else None

    refine = _pattern_at(1, reads=False)
    add(Rule("from_unixtime", FAMILY, from_seconds, _from_unixtime, takes, refine=refine))
    takes = "a text or a time, and a pattern or nothing"
    for name, result in (
        ("to_date", _DATE),
        ("to_timestamp", TIMESTAMP),
        ("to_timestamp_ltz", TIMESTAMP),
        ("to_timestamp_ntz", LOCAL_TIMESTAMP),
    ):
        add(Rule(name, FAMILY, _time_or_text(result), _to_time, takes, fails=True, refine=_pattern_at(1)))
    for name in ("unix_timestamp", "to_unix_timestamp"):
        judge = _time_or_text(_LONG)
        add(Rule(name, FAMILY, judge, _unix_timestamp, takes, fails=True, refine=_pattern_at(1)))


_register()
