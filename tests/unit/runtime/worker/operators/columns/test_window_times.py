"""Windows and panes of event time against their definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.relational.relations import Windowed
from headgate.runtime.worker.operators.columns.window_times import WindowTimes

WINDOWS = st.integers(1, 40).flatmap(
    lambda size: st.tuples(st.just(size), st.integers(1, size), st.integers(0, 50))
)


@given(WINDOWS, st.integers(-300, 300))
def test_a_pane_is_in_the_windows_in_which_its_times_are(window: tuple[int, int, int], time: int) -> None:
    """Every time of a pane lies in the same windows, by the definition of windows."""
    size, slide, offset = window
    times = WindowTimes.of(Windowed(size, slide, offset))
    starts = range(-400 * slide + offset, 400 * slide + offset, slide)
    expected = sorted(start + size for start in starts if start <= time < start + size)
    pane = int(times.panes_of(np.array([time]))[0])
    assert pane <= time < pane + times.pane
    assert list(times.ends_over(pane)) == expected
    assert int(times.last_ends(np.array([pane]))[0]) == expected[-1]
