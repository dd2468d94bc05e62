"""Casts: texts of numbers and times as Java writes and reads them, bounds, and null where asked."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from headgate.relational.casts import cast_values
from headgate.relational.functions.number_texts import float32_text, float_text
from headgate.relational.rules import RowsFailed
from headgate.relational.spark_types import LOCAL_TIMESTAMP, TIMESTAMP


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"), (0.001, "0.001"), (0.0001, "1.0E-4"), (9999999.0, "9999999.0"), (1e7, "1.0E7"),
        (-0.0, "-0.0"), (5e-324, "4.9E-324"), (123456.789, "123456.789"), (1.5e300, "1.5E300"),
        (float("-inf"), "-Infinity"), (100.0, "100.0"),
    ],
)  # fmt: skip
def test_doubles_are_written_as_in_java(number: float, text: str) -> None:
    """Plainly between 0.001 and 10,000,000, else with an exponent."""
    assert float_text(number) == text


def test_floats_have_their_own_digits() -> None:
    """Not those of the double that holds them."""
    assert float32_text(pa.scalar(0.1, pa.float32()).as_py()) == "0.1"
    assert cast_values(pa.array([0.1], pa.float32()), pa.string(), True).to_pylist() == ["0.1"]


def test_what_does_not_fit_is_an_error_or_null() -> None:
    """By the type that is wanted."""
    numbers = pa.array([300, 7])
    assert cast_values(numbers, pa.int8(), False).to_pylist() == [None, 7]
    with pytest.raises(RowsFailed, match="CAST_OVERFLOW"):
        cast_values(numbers, pa.int8(), True)
    with pytest.raises(RowsFailed, match="NUMERIC_VALUE_OUT_OF_RANGE"):
        cast_values(pa.array([Decimal("999.99")]), pa.decimal128(4, 1), True)
    assert cast_values(pa.array([Decimal("99.95")]), pa.decimal128(4, 1), True).to_pylist() == [
        Decimal("100.0")
    ]


def test_one_value_stays_one_value() -> None:
    """A scalar is no text of Python's."""
    assert cast_values(pa.scalar(1.5), pa.string(), True) == pa.scalar("1.5")
    assert cast_values(pa.scalar("2024-1-2"), pa.date32(), True) == pa.scalar(dt.date(2024, 1, 2))


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2024-02-29 12:34:56", dt.datetime(2024, 2, 29, 12, 34, 56)),
        (" 2024-2-9T1:2:3.45 ", dt.datetime(2024, 2, 9, 1, 2, 3, 450_000)),
        ("2024", dt.datetime(2024, 1, 1)),
        ("2024-02-30", None),
        ("2024-02-29 24:00:00", None),
        ("20240229", None),
    ],
)
def test_texts_of_times(text: str, time: dt.datetime | None) -> None:
    """One or two digits, parts left out; what is in no calendar is none."""
    assert cast_values(pa.array([text]), LOCAL_TIMESTAMP, False).to_pylist() == [time]
    zoned = cast_values(pa.array([text, "2024-01-01 00:00:00+01:00"]), TIMESTAMP, False).to_pylist()
    assert zoned == [time and time.replace(tzinfo=dt.UTC), dt.datetime(2023, 12, 31, 23, tzinfo=dt.UTC)]


def test_decimals_are_written_without_an_exponent() -> None:
    """However small they are."""
    small = pa.array([Decimal("0.00000001")], pa.decimal128(20, 8))
    assert cast_values(small, pa.string(), True).to_pylist() == ["0.00000001"]
