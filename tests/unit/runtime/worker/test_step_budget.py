"""StepBudget: steps get as long as they should take, judged by what records cost lately."""

from __future__ import annotations

import random

import pytest
from operator_samples import ManualClock

from headgate.runtime.worker.task.step_budget import RECORDS_FIRST, RECORDS_MAX, StepBudget


def stepped(budget: StepBudget, clock: ManualClock, cost_us: int) -> None:
    """One step of as many records as the budget wants, at a cost per record."""
    with budget.step() as step:
        step.records = budget.records
        clock.now += budget.records * cost_us / 1000  # type: ignore[assignment]


@pytest.mark.parametrize(("cost_us", "expected"), [(1, 10_000), (10, 1_000), (1_000, 10), (50_000, 1)])
def test_steps_settle_at_the_target(cost_us: int, expected: int) -> None:
    """At a steady cost a step takes the target, and one record at least."""
    clock = ManualClock(0)
    budget = StepBudget(clock, 10)
    for _ in range(40):
        stepped(budget, clock, cost_us)
    assert budget.records == pytest.approx(expected, rel=0.01)


def test_steps_grow_by_doubling_at_most_and_not_without_end() -> None:
    """One cheap step says little about a large one; free records are capped."""
    clock = ManualClock(0)
    budget = StepBudget(clock, 10)
    seen = []
    for _ in range(12):
        seen.append(budget.records)
        stepped(budget, clock, 0)
    assert seen[:3] == [RECORDS_FIRST, 2 * RECORDS_FIRST, 4 * RECORDS_FIRST]
    assert seen[-1] == RECORDS_MAX


def test_a_sudden_cost_shortens_steps_at_once() -> None:
    """Shrinking is not smoothed by doubling: a costly step is followed by much shorter ones."""
    clock = ManualClock(0)
    budget = StepBudget(clock, 10)
    for _ in range(12):
        stepped(budget, clock, 1)
    stepped(budget, clock, 1_000)
    assert budget.records < 50


@pytest.mark.parametrize(
    ("fixed_ms", "per_record_us", "least", "most"),
    [(20, 0, RECORDS_MAX, RECORDS_MAX), (20, 100, 150, 260), (4, 100, 50, 70), (500, 1_000, 400, 600)],
)
def test_what_a_step_costs_by_itself_is_not_saved_by_shorter_steps(
    fixed_ms: int, per_record_us: int, least: int, most: int
) -> None:
    """A fixed cost as long as the target does not drive steps down to one record each."""
    clock = ManualClock(0)
    budget = StepBudget(clock, 10)
    for _ in range(60):
        with budget.step() as step:
            step.records = budget.records
            clock.now += fixed_ms + budget.records * per_record_us / 1000  # type: ignore[assignment]
    assert least <= budget.records <= most


def test_steps_of_one_record_grow_again_when_it_is_the_step_that_costs() -> None:
    """Records were dear, as where other processes have the processor; now a step of any size takes 20 ms."""
    clock = ManualClock(0)
    budget = StepBudget(clock, 10)
    for _ in range(20):
        stepped(budget, clock, 50_000)
    assert budget.records <= 2
    for _ in range(100):
        with budget.step() as step:
            step.records = budget.records
            clock.now += 20
    assert budget.records > 1_000


def test_dear_records_are_seldom_taken_two_at_a_time() -> None:
    """To see whether it is still the records that take the time."""
    clock = ManualClock(0)
    budget, taken = StepBudget(clock, 10), []
    for _ in range(200):
        taken.append(budget.records)
        stepped(budget, clock, 50_000)
    assert set(taken[20:]) == {1, 2}
    assert taken[20:].count(2) < 20


@pytest.mark.parametrize("seed", range(5))
def test_noise_does_not_drive_the_pace_away(seed: int) -> None:
    """Costs that vary by half, with a pause now and then, keep steps within a factor of the target."""
    rng, clock = random.Random(seed), ManualClock(0)
    budget, settled = StepBudget(clock, 10), []
    for turn in range(400):
        with budget.step() as step:
            step.records = budget.records
            pause = 30 if rng.random() < 0.02 else 0
            clock.now += pause + budget.records * 0.01 * rng.uniform(0.7, 1.5)  # type: ignore[assignment]
        if turn > 50:
            settled.append(budget.records)
    assert 400 < sorted(settled)[len(settled) // 2] < 1_500
    assert max(settled) < 5_000


def test_a_step_that_sends_windows_out_does_not_shorten_the_next_ones() -> None:
    """Every fourth step takes three times the target for a reason of its own; the records are cheap."""
    clock = ManualClock(0)
    budget = StepBudget(clock, 10)
    for turn in range(200):
        with budget.step() as step:
            step.records = budget.records
            clock.now += 1 + budget.records * 0.001 + (30 if turn % 4 == 3 else 0)  # type: ignore[assignment]
    assert budget.records > 5_000


def test_short_steps_of_few_records_do_not_shorten_the_next_ones() -> None:
    """What little input costs, by itself and by chance, is not taken for the cost of records."""
    clock, rng = ManualClock(0), random.Random(1)
    budget = StepBudget(clock, 10)
    for _ in range(12):
        stepped(budget, clock, 0)
    for _ in range(100):
        with budget.step() as step:
            step.records = 3
            clock.now += rng.uniform(0.5, 5)  # type: ignore[assignment]
    assert budget.records == RECORDS_MAX


def test_a_step_without_records_teaches_nothing() -> None:
    """Events are measured as busy time only."""
    clock = ManualClock(0)
    budget = StepBudget(clock, 10)
    with budget.step():
        clock.now += 500
    assert (budget.records, budget.times.spent().busy, budget.times.longest_us) == (
        RECORDS_FIRST,
        500,
        500_000,
    )


def test_time_behind_a_blocked_output_is_counted_once() -> None:
    """From the first refused turn to the next step."""
    clock = ManualClock(0)
    budget = StepBudget(clock, 10)
    for now in (100, 150, 200):
        clock.now = now
        budget.times.blocked()
    clock.now = 300
    stepped(budget, clock, 0)
    clock.now = 400
    stepped(budget, clock, 0)
    assert budget.times.spent().backpressured == 200


def test_a_step_that_raises_is_measured_all_the_same() -> None:
    """The error passes, the time counts."""
    clock = ManualClock(0)
    budget = StepBudget(clock, 10)
    with pytest.raises(KeyError), budget.step():
        clock.now += 7
        raise KeyError
    assert budget.times.spent().busy == 7
