"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.time import (
    DAYS,
    HOURS,
    MINUTES,
    SECONDS,
    WATERMARK_MAX,
    WATERMARK_MIN,
    duration_ms,
    format_ms,
)


@pytest.mark.parametrize(
    ("text", "span_ms"),
    [
        ("0ms", 0),
        ("500ms", 500),
        ("1s", SECONDS),
        ("1.5s", 1500),
        ("5min", 5 * MINUTES),
        ("5m", 5 * MINUTES),
        ("2h", 2 * HOURS),
        ("7d", 7 * DAYS),
        ("10 seconds", 10 * SECONDS),
        ("1 Minute", MINUTES),
        (" 10 s ", 10 * SECONDS),
        (20, 20),
        (1.6, 2),
    ],
)
def test_durations_are_read(text: str | float, span_ms: int) -> None:
    """Each unit means what it says; a bare number is milliseconds."""
    assert duration_ms(text) == span_ms


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "5",
        "s",
        "-1s",
        "1 week",
        "1s 5ms",
        "1e3s",
        "1,5s",
        -1,
        -0.5,
        True,
        float("nan"),
        float("inf"),
        "9" * 400 + "d",
    ],
)
def test_everything_else_is_refused_by_name(wrong: str | float) -> None:
    """What is no duration is refused with the name of what it was for."""
    with pytest.raises(ValueError, match=r"^idleness is .*expected"):
        duration_ms(wrong, "idleness")


@given(st.integers(0, 2**53))
def test_written_durations_read_back(span_ms: int) -> None:
    """The text of a duration is read back to the same milliseconds."""
    assert duration_ms(format_ms(span_ms)) == span_ms


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1000, "1s"),
        (60_000, "1min"),
        (90_000, "90s"),
        (DAYS, "1d"),
        (25 * HOURS, "25h"),
    ],
)
def test_the_largest_unit_that_fits_is_written(span_ms: int, text: str) -> None:
    """A duration is written without fractions in the largest unit that divides it."""
    assert format_ms(span_ms) == text


def test_event_time_lies_between_its_ends() -> None:
    """Both ends fit into a signed 64-bit integer."""
    assert WATERMARK_MIN == -(1 << 63)
    assert WATERMARK_MAX == (1 << 63) - 1
