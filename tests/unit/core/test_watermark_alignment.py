"""Event times of several workers, as one that is ahead compares itself with them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.watermark_alignment import least_of

REPORTS = st.lists(st.none() | st.dictionaries(st.sampled_from("abc"), st.integers(-5, 5)))


@given(REPORTS)
def test_the_least_of_each_group(reports: list[dict[str, int] | None]) -> None:
    """As long as a report is missing nothing is known; a group that nobody reports holds nobody."""
    least = least_of(reports)
    if None in reports:
        assert least is None
    else:
        known = [report for report in reports if report is not None]
        times = {group: [r[group] for r in known if group in r] for group in "abc"}
        assert least == {group: min(found) for group, found in times.items() if found}
