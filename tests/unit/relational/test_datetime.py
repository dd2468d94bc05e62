"""Functions of dates and times: ends of months, days before 1970, zones, patterns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_call import column, kind, value

from headgate.common.errors import PlanError
from headgate.relational.functions.times.time_texts import days_since_1970
from headgate.relational.functions.times.zone import instants_of, local_in, offset_us
from headgate.relational.rules import RowsFailed
from headgate.relational.spark_types import TIMESTAMP

LEAP = dt.date(2024, 2, 29)
TIME = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)


@given(st.dates())
def test_days_are_counted_as_in_python(date: dt.date) -> None:
    """For all its years; beyond them, by the same calendar."""
    assert days_since_1970(date.year, date.month, date.day) == (date - dt.date(1970, 1, 1)).days
    assert (
        days_since_1970(date.year + 400 * 30, date.month, date.day)
        == (date - dt.date(1970, 1, 1)).days + 146_097 * 30
    )


def test_months_are_added_up_to_their_last_day() -> None:
    """The last day of a month is not kept as such."""
    assert value("add_months", dt.date(2024, 1, 31), 1) == LEAP
    assert value("add_months", LEAP, 12) == dt.date(2025, 2, 28)
    assert value("last_day", dt.date(2023, 2, 3)) == dt.date(2023, 2, 28)
    assert value("next_day", LEAP, "Thu") == dt.date(2024, 3, 7)


def test_months_between() -> None:
    """Whole where days are equal, or both the last of their months."""
    assert value("months_between", dt.date(2024, 2, 29), dt.date(2023, 2, 28)) == 12.0
    assert value("months_between", dt.datetime(1997, 2, 28, 10, 30), dt.date(1996, 10, 30)) == 3.94959677


def test_times_before_1970_are_rounded_down() -> None:
    """Not towards zero."""
    assert value("unix_seconds", TIME) == -1
    assert value("unix_millis", TIME) == -1
    assert value("date_trunc", "hour", TIME) == dt.datetime(1969, 12, 31, 23, tzinfo=dt.UTC)
    assert value("date_part", "second", TIME) == Decimal("59.999999")
    assert value("year", TIME) == 1969


def test_zones() -> None:
    """A local time that is skipped goes on by an hour; of two that are one, the earlier is meant."""
    times = pa.array([dt.datetime(2024, 3, 31, 2, 30), dt.datetime(2024, 10, 27, 2, 30)], pa.timestamp("us"))
    found = instants_of(times, "Europe/Berlin")
    assert found.to_pylist() == [
        dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC),
        dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC),
    ]
    assert local_in(found, "Europe/Berlin").to_pylist()[1] == dt.datetime(2024, 10, 27, 2, 30)
    assert offset_us("GMT-3") == -3 * 3_600_000_000
    assert offset_us("Europe/Berlin") is None
    with pytest.raises(PlanError, match="no time zone 'Nowhere/X'"):
        value("from_utc_timestamp", TIME, "Nowhere/X")


def test_units() -> None:
    """Months count when their day and time are reached."""
    one, other = dt.datetime(2024, 1, 31, 12, tzinfo=dt.UTC), dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    assert value("timestamp_diff", "month", one, other) == 0
    assert value("timestamp_diff", "DAY", other, one) == -29
    assert value("timestamp_add", "month", 1, one) == other
    with pytest.raises(PlanError, match="no unit 'eon'"):
        value("timestamp_add", "eon", 1, one)


def test_patterns() -> None:
    """Texts in quotes, names, twelve hours; what is not taken is refused with what is."""
    time = dt.datetime(2024, 3, 5, 0, 7, 9, 120_000, tzinfo=dt.UTC)
    assert value("date_format", time, "EEE d MMM yyyy 'at' hh:mm a, SSS") == "Tue 5 Mar 2024 at 12:07 AM, 120"
    assert value("to_timestamp", "5.3.2024 7:9", "d.M.yyyy H:m") == time.replace(
        hour=7, minute=9, second=0, microsecond=0
    )
    assert value("try_to_timestamp", "2024-02-30", "yyyy-MM-dd") is None
    with pytest.raises(PlanError, match="'QQ'"):
        value("date_format", time, "QQ")
    with pytest.raises(PlanError, match="not read here"):
        value("to_date", "1", "D")
    with pytest.raises(RowsFailed, match="CANNOT_PARSE_TIMESTAMP"):
        value("to_date", "2024-2-3", "yyyy-MM-dd")


@pytest.mark.parametrize(
    "pattern", ["yyyy-MM-dd", "D E", "HH", "hh a", "H:mm", "mm:ss", "ss.SSS", "'x'", "y"]
)
@given(random=st.randoms(use_true_random=False))
def test_many_times_are_written_as_each_alone(pattern: str, random: Random) -> None:
    """Times of one minute, of one day, and all over the centuries; and nulls among them."""
    spread = random.choice([60, 86_400, 2**32])
    begin = random.choice([dt.datetime(1969, 12, 31, 23, 59, tzinfo=dt.UTC), TIME])
    times = [begin + dt.timedelta(seconds=random.random() * spread) for _ in range(40)]
    times = [None if random.random() < 0.1 else each for each in times]
    assert column("date_format", pa.array(times, TIMESTAMP), pattern) == [
        None if each is None else value("date_format", each, pattern) for each in times
    ]


def test_the_first_time_there_is_can_be_written() -> None:
    """Its day begins before it."""
    first = pa.array([-(2**63)] * 4).cast(TIMESTAMP)
    assert column("date_format", first, "yyyy-MM-dd HH") == ["-290308-12-21 19"] * 4


def test_times_move_by_durations() -> None:
    """With `+` and `-`; between times lies a duration."""
    day = dt.timedelta(days=1, seconds=1)
    assert value("+", TIME, day) == TIME + day
    assert value("-", TIME, day) == TIME - day
    assert value("-", TIME + day, TIME) == day
    assert value("-", LEAP, dt.date(2024, 2, 1)) == dt.timedelta(days=28)
    assert kind("+", pa.date32(), day) == "timestamp"
    assert column("+", pa.array([LEAP, None]), 1) == [dt.date(2024, 3, 1), None]


def test_fields_must_be_in_the_calendar() -> None:
    """Seconds may be 60, as in PostgreSQL."""
    assert value("make_timestamp", 2024, 2, 29, 23, 59, Decimal(60)) == dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
    assert value("try_make_date", 2023, 2, 29) is None
    with pytest.raises(RowsFailed, match="DATETIME_FIELD_OUT_OF_BOUNDS"):
        value("make_date", 2023, 2, 29)
