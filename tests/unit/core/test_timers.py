"""TimerQueue: one timer per timestamp and key, fired in order, safe against changes while firing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import UsageError
from headgate.core.timers import LOOKS_MAX, TimerQueue, in_order


def queue(*timers: tuple[int, str]) -> TimerQueue[str]:
    """A queue with these timers."""
    made: TimerQueue[str] = TimerQueue()
    made.restore(timers)
    return made


def test_due_timers_come_by_time_then_registration() -> None:
    """Timestamps order the timers; registration orders those of one timestamp."""
    timers = queue((5, "z"), (3, "b"), (5, "a"), (3, "a"), (9, "a"))
    assert list(timers.pop_due(5)) == [(3, "b"), (3, "a"), (5, "z"), (5, "a")]
    assert timers.snapshot() == [(9, "a")]


def test_registering_twice_is_once() -> None:
    """A key has one timer per timestamp, at its first place."""
    timers = queue((1, "a"), (1, "b"))
    assert timers.register(1, "a") is False
    assert list(timers.pop_due(1)) == [(1, "a"), (1, "b")]


@pytest.mark.parametrize("count", [3, 3_000])
def test_timers_of_one_time_are_taken_together(count: int) -> None:
    """The first ones in order; a snapshot that is being written still has them, whatever their number."""
    timers = queue(*((7, f"k{n}") for n in range(count)), (9, "a"))
    cut = timers.freeze()
    assert timers.first_at(7, 2) == ["k0", "k1"]
    timers.discard(7, ["k0", "k1"])
    assert timers.first_at(7, 1) == ["k2"]
    timers.discard(7, timers.first_at(7, count))
    assert (timers.first_at(7, 1), timers.next_time, len(timers)) == ([], 9, 1)
    assert sum(len(keys) for _, keys in cut.slices(100)) == count + 1
    cut.release()
    while not timers.settle(1_000):
        pass
    assert timers.snapshot() == [(9, "a")]


def test_deleted_timers_do_not_fire() -> None:
    """Deleting answers whether there was a timer; the rest stays."""
    timers = queue((1, "a"), (1, "b"), (2, "a"))
    assert (timers.delete(1, "a"), timers.delete(1, "a"), timers.delete(7, "x")) == (True, False, False)
    assert timers.delete(1, "b")
    assert timers.next_time == 2
    assert len(timers) == 1
    assert list(timers.pop_due(10)) == [(2, "a")]
    assert timers.next_time is None


def test_deleted_and_registered_again_moves_to_the_end() -> None:
    """A timer registered anew after its deletion fires after those registered before."""
    timers = queue((1, "a"), (1, "b"))
    timers.delete(1, "a")
    timers.register(1, "a")
    assert list(timers.pop_due(1)) == [(1, "b"), (1, "a")]


def test_timers_registered_while_firing_come_in_their_place() -> None:
    """A timer that becomes due while others fire is fired in the same run, in order of time."""
    timers = queue((5, "a"), (5, "b"), (6, "a"))
    seen: list[tuple[int, str]] = []
    for timer in timers.pop_due(6):
        if not seen:
            for new in [(2, "late"), (5, "a"), (6, "c"), (7, "future")]:
                timers.register(*new)
        seen.append(timer)
    # (5, "a") was registered anew, so it comes after the others of its timestamp.
    assert seen == [(5, "a"), (2, "late"), (5, "b"), (5, "a"), (6, "a"), (6, "c")]
    assert timers.snapshot() == [(7, "future")]


def test_descending_registrations_while_firing_need_no_stack() -> None:
    """Each firing may register an earlier timer, thousands deep."""
    timers = queue((5000, "a"))
    seen = []
    for timestamp, key in timers.pop_due(5000):
        seen.append(timestamp)
        if timestamp:
            timers.register(timestamp - 1, key)
    assert list(range(5000, -1, -1)) == seen


def test_an_iteration_that_was_put_aside_goes_on() -> None:
    """What came, went or fired elsewhere in between is seen; nothing fires twice."""
    timers = queue((5, "a"), (5, "b"), (5, "c"), (5, "d"), (6, "a"), (7, "a"))
    aside = timers.pop_due(6)
    assert next(aside) == (5, "a")
    timers.register(3, "x")
    timers.delete(5, "b")
    timers.register(5, "e")
    other = timers.pop_due(5)
    assert [next(other), next(other)] == [(3, "x"), (5, "c")]
    assert list(aside) == [(5, "d"), (5, "e"), (6, "a")]
    assert list(other) == []
    assert timers.snapshot() == [(7, "a")]


def test_due_timers_are_told_without_taking_them() -> None:
    """At the time itself they are due; deleted ones are not."""
    timers = queue((5, "a"), (8, "b"))
    assert [timers.has_due(time) for time in (4, 5, 6)] == [False, True, True]
    timers.delete(5, "a")
    assert [timers.has_due(time) for time in (7, 8)] == [False, True]
    assert not queue().has_due(100)


def test_timers_deleted_while_firing_are_skipped() -> None:
    """A due timer that an earlier callback deletes does not fire."""
    timers = queue((1, "a"), (1, "b"), (2, "c"))
    seen = []
    for timer in timers.pop_due(5):
        seen.append(timer)
        timers.delete(1, "b")
        timers.delete(2, "c")
    assert seen == [(1, "a")]


def test_abandoned_firing_loses_nothing() -> None:
    """What was not yielded is still in the queue, in order."""
    timers = queue((1, "a"), (1, "b"), (2, "c"))
    due = timers.pop_due(5)
    assert next(due) == (1, "a")
    assert timers.snapshot() == [(1, "b"), (2, "c")]
    due.close()  # type: ignore[attr-defined]
    assert list(timers.pop_due(5)) == [(1, "b"), (2, "c")]


def test_registering_at_or_behind_the_limit_interrupts() -> None:
    """The flag rises for a timer that is due now, and only then."""
    timers: TimerQueue[str] = TimerQueue(limit=10)
    timers.register(11, "a")
    assert not timers.interrupt
    timers.register(10, "a")
    assert timers.interrupt


@pytest.mark.parametrize("timestamp", [1.5, "3", None, True, 2**63, -(2**63) - 1])
def test_a_timestamp_must_be_an_int_of_64_bits(timestamp: int) -> None:
    """Other timestamps are refused where the user registers them."""
    with pytest.raises(UsageError, match="expected whole milliseconds"):
        TimerQueue[str]().register(timestamp, "a")


def test_deleting_does_not_pile_up() -> None:
    """Timers moved on again and again leave no more than their own number behind."""
    timers: TimerQueue[str] = TimerQueue()
    for timestamp in range(10_000):
        timers.delete(timestamp - 1, "a")
        timers.register(timestamp, "a")
    assert len(timers._heap) < 200
    assert timers.snapshot() == [(9999, "a")]


def test_a_frozen_copy_does_not_change() -> None:
    """Firing and registering after a snapshot do not reach it."""
    timers = queue((1, "a"), (2, "b"))
    frozen = timers.frozen()
    list(timers.pop_due(1))
    timers.register(2, "c")
    assert list(zip(*in_order(*frozen), strict=True)) == [(1, "a"), (2, "b")]


Step = st.tuples(st.sampled_from(["add", "add", "delete", "fire"]), st.integers(0, 6), st.sampled_from("abc"))


@settings(max_examples=150, derandomize=True, deadline=None, database=None)
@given(st.lists(Step, max_size=60))
def test_queue_equals_a_sorted_list(steps: list[tuple[str, int, str]]) -> None:
    """Any sequence of calls behaves as a list sorted by time; a restored snapshot behaves the same."""
    timers: TimerQueue[str] = TimerQueue()
    model: list[tuple[int, str]] = []
    for action, timestamp, key in steps:
        if action == "add":
            assert ((timestamp, key) not in model) == timers.register(timestamp, key)
            if (timestamp, key) not in model:
                model.append((timestamp, key))
        elif action == "delete":
            assert ((timestamp, key) in model) == timers.delete(timestamp, key)
            model = [timer for timer in model if timer != (timestamp, key)]
        else:
            expected = sorted((t for t in model if t[0] <= timestamp), key=lambda t: t[0])
            assert expected == list(timers.pop_due(timestamp))
            model = [t for t in model if t[0] > timestamp]
        timers = queue(*timers.snapshot()) if timestamp == 6 else timers
        assert sorted(model, key=lambda t: t[0]) == timers.snapshot()
        assert min((t[0] for t in model), default=None) == timers.next_time
        assert len(model) == len(timers) == timers.about()


@pytest.mark.parametrize("timestamps", [0, 1, LOOKS_MAX])
def test_timers_of_not_too_many_timestamps_are_counted(timestamps: int) -> None:
    """Exactly, however many there are of each; also while a snapshot holds them."""
    timers = queue(*((t, key) for t in range(timestamps) for key in "abc"[: 1 + t % 3]))
    assert timers.about() == len(timers)
    timers.freeze()
    timers.register(0, "z")
    assert timers.about() == len(timers)


def test_the_number_of_many_timers_is_estimated() -> None:
    """Deleted ones do not count, and few of the timestamps are looked at."""
    timers = queue(*((t, key) for t in range(30_000) for key in "abcd"[: 1 + t * 7919 % 4]))
    for t in range(0, 30_000, 3):
        timers.delete(t, "a")
    assert timers.about() == pytest.approx(len(timers), rel=0.1)
