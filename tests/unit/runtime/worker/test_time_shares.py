"""How a subtask's time is divided: no time is lost, none counts twice, and each kind counts what it says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_samples import ManualClock, rows
from task_samples import CountingReader, Rig, SourceRig

from headgate.core.alignment.barriers import Barrier
from headgate.runtime.protocol.elements import Watermark
from headgate.runtime.worker.task.time_shares import Spent, TimeShares

steps = st.sampled_from(["step", "blocked", "no work", "arrived", "look"])


@given(st.lists(st.tuples(steps, st.integers(0, 50)), max_size=60))
def test_the_times_add_up_and_never_fall(events: list[tuple[str, int]]) -> None:
    """Whatever happens in whatever order; after a step or an arrival the reason of a pause is still open."""
    clock = ManualClock(500)
    times = TimeShares(clock)
    last, open_since = times.spent(), 500
    for event, passed in events:
        clock.now += passed
        if event == "step":
            began = times.begin()
            clock.now += 3
            times.end(began)
            open_since = clock.now
        elif event == "blocked":
            times.blocked()
            open_since = -1
        elif event == "no work":
            times.no_work()
            open_since = -1
        elif event == "arrived":
            times.arrived()
            open_since = clock.now if times._state == 0 else -1
        spent = times.spent()
        assert all(now >= before for now, before in zip(spent, last, strict=True))
        open_for = 0 if open_since < 0 else clock.now - open_since
        assert sum(spent) + open_for == clock.now - 500
        last = spent


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (None, Spent(1, 0, 0, 7)),
        ("no_work", Spent(1, 0, 7, 0)),
        ("blocked", Spent(1, 4, 0, 3)),
        ("arrived", Spent(1, 0, 3, 4)),
    ],
)
def test_what_is_noted_between_two_steps_says_what_the_pause_was(change: str | None, expected: Spent) -> None:
    """The first step ends, 3 ms later something is noted, 4 ms later the next step begins."""
    clock = ManualClock(0)
    times = TimeShares(clock)
    began = times.begin()
    clock.now += 1
    times.end(began)
    clock.now += 3
    if change is not None:
        getattr(times, change)()
    clock.now += 4
    times.end(times.begin())
    assert times.spent() == expected


def test_an_idle_or_blocked_time_that_goes_on_counts_up_to_now() -> None:
    """A subtask that is stuck says so before it goes on."""
    clock = ManualClock(0)
    times = TimeShares(clock)
    times.no_work()
    clock.now += 60_000
    assert times.spent() == Spent(0, 0, 60_000, 0)
    times.blocked()
    clock.now += 30_000
    assert times.spent() == Spent(0, 30_000, 60_000, 0)


def test_lengths_of_steps_are_kept_as_the_longest_and_in_a_histogram() -> None:
    """In microseconds."""
    clock = ManualClock(0)
    times = TimeShares(clock)
    for took_ms in (2, 30, 5):
        began = times.begin()
        clock.now += took_ms
        times.end(began)
    assert times.longest_us == 30_000
    assert times.steps.count == 3
    assert times.steps.quantile(1.0) == pytest.approx(30_000, rel=0.125)


# -- subtasks


def spent(rig: Any) -> Spent:
    """The times of a rig's subtask."""
    return rig.task.budget.times.spent()  # type: ignore[no-any-return]


def test_a_subtask_is_idle_until_input_arrives_and_then_waits_for_its_turn() -> None:
    """The loop is with another subtask when the batch comes."""
    rig = Rig(1, cost_ms=2)
    rig.clock.now += 100
    rig.task.deliver(0, rows([1, 2, 3]))
    rig.clock.now += 20
    rig.run()
    assert spent(rig) == Spent(busy=6, backpressured=0, idle=100, waiting=20)
    rig.clock.now += 50
    assert spent(rig) == Spent(busy=6, backpressured=0, idle=150, waiting=20)


def test_only_the_first_arrival_ends_the_idle_time() -> None:
    """The second batch finds the first one there."""
    rig = Rig(1, cost_ms=1)
    for value in (1, 2):
        rig.clock.now += 10
        rig.task.deliver(0, rows([value]))
    rig.clock.now += 10
    rig.run()
    assert spent(rig) == Spent(busy=2, backpressured=0, idle=10, waiting=20)


def test_a_subtask_that_cannot_emit_is_backpressured_and_not_idle() -> None:
    """Also while nothing more arrives."""
    rig = Rig(1, credit=1)
    for number in range(3):
        rig.task.deliver(0, rows([number]))
        rig.task.step()
        rig.outputs.barrier(Barrier(number + 1, 0))
    rig.task.step()
    rig.clock.now += 40
    rig.task.deliver(0, Watermark(5))
    rig.clock.now += 2
    assert spent(rig).backpressured == 42
    rig.edge.channels[0].grant(1)
    rig.clock.now += 8
    rig.run()
    assert spent(rig).backpressured == 50


def test_a_source_with_nothing_to_read_is_idle() -> None:
    """And one that reads waits for its turn between its steps."""
    reader = CountingReader()
    reader.splits = [[0, 4]]
    rig = SourceRig(reader)
    assert rig.task.step()
    rig.clock.now += 7
    assert rig.task.step()
    assert spent(rig) == Spent(0, 0, 0, 7)
    for _ in range(3):
        rig.task.step()
        rig.clock.now += 100
    assert spent(rig) == Spent(0, 0, 300, 7)
