"""Windows and panes of event time against their definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.relational.relations import Windowed
from headgate.runtime.worker.operators.columns.window_times import CumulativeTimes, WindowTimes

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


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 90), st.integers(-300, 300))
def test_windows_that_grow_begin_together(step: int, steps: int, offset: int, time: int) -> None:
    """A time lies in the windows that end after it, up to the longest one."""
    size = step * steps
    times = CumulativeTimes.of(Windowed(size, step, offset, "cumulative"))
    start = (time - offset) // size * size + offset
    expected = [end for end in range(start + step, start + size + 1, step) if time < end]
    pane = int(times.panes_of(np.array([time]))[0])
    assert pane <= time < pane + step
    assert list(times.ends_over(pane)) == expected
    assert int(times.last_ends(np.array([pane]))[0]) == start + size
    assert {times.start_of(end) for end in expected} == {start}
