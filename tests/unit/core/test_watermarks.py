"""The watermark valve: the least of the active channels, and never back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.watermarks import WatermarkValve

STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.one_of(st.just("idle"), st.just("bound"), st.integers(-50, 50))),
    max_size=80,
)


@given(STEPS, st.sampled_from([WATERMARK_MIN, -10, 0, 30]))
def test_event_time_never_falls(steps: list[tuple[int, object]], start: int) -> None:
    """Whatever the channels say, be they late, idle or back again, the combined watermark never falls."""
    valve, before = WatermarkValve(3, start), start
    for channel, said in steps:
        if said == "idle":
            told = valve.idle(channel)
        elif said == "bound":
            valve.bound_by_others(channel)
            told = valve.combined
        else:
            assert isinstance(said, int)
            told = valve.advance(channel, said)
        assert told == valve.combined >= before
        before = told


@given(STEPS)
def test_combined_is_the_greatest_least_of_active_channels(steps: list[tuple[int, object]]) -> None:
    """The combined watermark is the largest value that the least of the active channels ever had."""
    valve = WatermarkValve(3)
    marks, idle, expected = [WATERMARK_MIN] * 3, [False] * 3, WATERMARK_MIN
    for channel, said in steps:
        if said == "idle":
            idle[channel] = True
            valve.idle(channel)
        elif said == "bound":
            idle[channel] = False
            others = [mark for c, mark in enumerate(marks) if c != channel and not idle[c]]
            assert valve.bound_by_others(channel) == min(others, default=WATERMARK_MAX)
            continue
        else:
            assert isinstance(said, int)
            idle[channel] = False
            marks[channel] = max(marks[channel], said)
            valve.advance(channel, said)
        active = [mark for mark, away in zip(marks, idle, strict=True) if not away]
        expected = max([expected, *([min(active)] if active else [])])
        assert valve.combined == expected
        assert valve.is_idle() == all(idle)


def test_an_idle_channel_does_not_hold_back_but_an_awake_one_does() -> None:
    """Idle: the others decide; back again: it counts, although time already passed stays passed."""
    valve = WatermarkValve(2)
    assert valve.advance(0, 100) == WATERMARK_MIN
    assert valve.idle(1) == 100
    assert valve.advance(0, 200) == 200
    assert valve.advance(1, 150) == 200
    assert valve.advance(0, 300) == 200
    assert valve.advance(1, 250) == 250


def test_when_all_are_idle_time_stands_still() -> None:
    """With nobody active there is nobody to tell the time."""
    valve = WatermarkValve(2)
    valve.advance(0, 10)
    valve.advance(1, 20)
    valve.idle(0)
    assert valve.idle(1) == 20
    assert valve.is_idle()
