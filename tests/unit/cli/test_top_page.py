"""What `headgate top` shows of event time."""

from __future__ import annotations

import pytest

from headgate.cli.pages.top_page import behind


@pytest.mark.parametrize(
    ("watermark_ms", "shown"),
    [
        (1_700_000_000_000 - 2_500, "2.5 s"),
        (1_700_000_000_000 - 90_000_000, "at 2023-11-13 21:13"),
        (0, "at 1970-01-01 00:00"),
        (2**62, f"at {2**62}"),
    ],
)
def test_event_time_of_another_day_is_a_moment(watermark_ms: int, shown: str) -> None:
    """Recorded input is years behind the clock, which says nothing; a moment does."""
    assert behind(1_700_000_000_000, watermark_ms) == shown
