"""Pace: steps get as long as they should take, judged by what records cost lately."""

from __future__ import annotations

import pytest
from operator_samples import ManualClock

from headgate.runtime.pace import RECORDS_FIRST, RECORDS_MAX, Pace


def stepped(pace: Pace, clock: ManualClock, cost_us: int) -> None:
    """One step of as many records as the pace wants, at a cost per record."""
    with pace.step() as step:
        step.records = pace.records
        clock.now += pace.records * cost_us / 1000  # type: ignore[assignment]


@pytest.mark.parametrize(("cost_us", "expected"), [(1, 10_000), (10, 1_000), (1_000, 10), (50_000, 1)])
def test_steps_settle_at_the_target(cost_us: int, expected: int) -> None:
    """At a steady cost a step takes the target, and one record at least."""
    clock = ManualClock(0)
    pace = Pace(clock, 10)
    for _ in range(40):
        stepped(pace, clock, cost_us)
    assert pace.records == pytest.approx(expected, rel=0.01)


def test_steps_grow_by_doubling_at_most_and_not_without_end() -> None:
    """One cheap step says little about a large one; free records are capped."""
    clock = ManualClock(0)
    pace = Pace(clock, 10)
    seen = []
    for _ in range(12):
        seen.append(pace.records)
        stepped(pace, clock, 0)
    assert seen[:3] == [RECORDS_FIRST, 2 * RECORDS_FIRST, 4 * RECORDS_FIRST]
    assert seen[-1] == RECORDS_MAX


def test_a_sudden_cost_shortens_steps_at_once() -> None:
    """Shrinking is not smoothed by doubling: a costly step is followed by much shorter ones."""
    clock = ManualClock(0)
    pace = Pace(clock, 10)
    for _ in range(12):
        stepped(pace, clock, 1)
    stepped(pace, clock, 1_000)
    assert pace.records < 50


def test_a_step_without_records_teaches_nothing() -> None:
    """Events are measured as busy time only."""
    clock = ManualClock(0)
    pace = Pace(clock, 10)
    with pace.step():
        clock.now += 500
    assert (pace.records, pace.busy_ms, pace.longest_ms) == (RECORDS_FIRST, 500, 500)


def test_time_behind_a_blocked_output_is_counted_once() -> None:
    """From the first refused turn to the next step."""
    clock = ManualClock(0)
    pace = Pace(clock, 10)
    for now in (100, 150, 200):
        clock.now = now
        pace.blocked()
    clock.now = 300
    stepped(pace, clock, 0)
    clock.now = 400
    stepped(pace, clock, 0)
    assert pace.backpressured_ms == 200


def test_a_step_that_raises_is_measured_all_the_same() -> None:
    """The error passes, the time counts."""
    clock = ManualClock(0)
    pace = Pace(clock, 10)
    with pytest.raises(KeyError), pace.step():
        clock.now += 7
        raise KeyError
    assert pace.busy_ms == 7
