"""The input gate: fair, in order per channel, silent until every channel has spoken, obeying blocks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.errors import InternalError
from headgate.common.time import WATERMARK_MIN
from headgate.core.channel_turns import MOST_PASSED_OVER
from headgate.core.input_gate import InputGate

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 2)),
        st.tuples(st.just("poll"), st.just(0)),
        st.tuples(st.just("block"), st.frozensets(st.integers(0, 2))),
    ),
    max_size=120,
)


def is_record(element: Any) -> bool:
    """In these tests text is an event and everything else a record."""
    return not isinstance(element, str)


def drained(gate: InputGate) -> list[tuple[int, Any]]:
    """All that may be polled."""
    out = []
    while (polled := gate.poll()) is not None:
        out.append(polled)
    return out


def test_nothing_is_read_before_every_channel_has_spoken() -> None:
    """One silent channel keeps the gate shut, whatever the others have."""
    gate = InputGate(3, is_record)
    gate.put(0, 1)
    gate.put(2, "first sign")
    assert not gate.available
    assert gate.poll() is None
    gate.put(1, 2)
    assert gate.available


def test_first_elements_that_are_no_records_come_first() -> None:
    """Among first elements events are read before records, each group in order of arrival."""
    gate = InputGate(4, is_record)
    for channel, element in [(3, 30), (1, 10), (2, "c"), (0, "a")]:
        gate.put(channel, element)
    assert drained(gate) == [(2, "c"), (0, "a"), (3, 30), (1, 10)]


def test_channels_take_turns() -> None:
    """A channel with much to say does not keep the others waiting."""
    gate = InputGate(2, is_record)
    for n in range(4):
        gate.put(0, n)
    gate.put(1, 100)
    gate.put(1, 101)
    assert [channel for channel, _ in drained(gate)] == [0, 1, 0, 1, 0, 0]


def test_a_blocked_channel_keeps_its_place_in_line_until_it_is_unblocked() -> None:
    """What arrives on a blocked channel waits, in order, and is read after the block ends."""
    gate = InputGate(2, is_record)
    gate.put(0, "b0")
    gate.put(1, "b1")
    assert len(drained(gate)) == 2
    gate.put(0, 1)
    gate.set_blocked({0})
    gate.put(0, 2)
    gate.put(1, 3)
    assert drained(gate) == [(1, 3)]
    assert gate.queued(0) == 2
    gate.set_blocked(set())
    assert drained(gate) == [(0, 1), (0, 2)]


def test_a_choosy_poll_takes_the_first_that_is_wanted_and_changes_no_other_place() -> None:
    """Only what is next on a channel counts, blocked channels are passed over, and the line stays."""
    gate = InputGate(4, is_record)
    for channel in range(4):
        gate.put(channel, "s")
    drained(gate)
    for channel, element in [(0, 1), (1, 2), (1, "behind a record"), (2, "c"), (3, "d"), (2, 3)]:
        gate.put(channel, element)
    gate.set_blocked({3})
    assert gate.poll(lambda element: isinstance(element, str)) == (2, "c")
    assert gate.poll(lambda element: isinstance(element, str)) is None
    gate.set_blocked(set())
    assert gate.poll(lambda element: isinstance(element, str)) == (3, "d")
    assert drained(gate) == [(0, 1), (1, 2), (2, 3), (1, "behind a record")]


def test_what_waits_can_be_looked_at_and_stays() -> None:
    """In order of arrival, blocked or not."""
    gate = InputGate(2, is_record)
    gate.put(0, 1)
    gate.put(0, 2)
    gate.set_blocked({0})
    assert list(gate.waiting(0)) == [1, 2]
    assert (list(gate.waiting(1)), gate.queued(0)) == ([], 2)


@given(STEPS)
def test_polls_are_exactly_what_may_be_read(steps: list[tuple[str, Any]]) -> None:
    """Against a plain model: per channel first in first out, nothing lost, nothing from a blocked channel,
    and `available` is true exactly when some unblocked channel has something and none is still silent.
    """
    gate = InputGate(3, is_record)
    model: list[list[int]] = [[], [], []]
    blocked: frozenset[int] = frozenset()
    spoken: set[int] = set()
    number = 0
    for verb, argument in steps:
        if verb == "put":
            gate.put(argument, number)
            model[argument].append(number)
            spoken.add(argument)
            number += 1
        elif verb == "block":
            blocked = argument
            gate.set_blocked(set(argument))
        readable = {c for c in range(3) if model[c] and c not in blocked} if len(spoken) == 3 else set()
        assert gate.available == bool(readable)
        if verb == "poll":
            polled = gate.poll()
            assert (polled is None) == (not readable)
            if polled is not None:
                channel, element = polled
                assert channel in readable
                assert element == model[channel].pop(0)
    assert [gate.queued(c) for c in range(3)] == [len(queue) for queue in model]


def gate_with_event_times(event_times: list[int], each: int, idle: int | None = None) -> InputGate[Any]:
    """A gate whose channels have `each` records, numbered from 0, and these event times; one may be idle."""
    gate = InputGate(len(event_times), is_record, lambda channel: (event_times[channel], channel == idle))
    for channel in range(len(event_times)):
        for number in range(each):
            gate.put(channel, number)
    return gate


def test_records_of_the_channel_furthest_behind_come_first() -> None:
    """And once it is no longer behind, channels take their turns."""
    times = [30, 10, 20]
    gate = gate_with_event_times(times, 3)
    assert [gate.poll(), gate.poll()] == [(1, 0), (1, 1)]
    times[1] = 40
    assert gate.poll() == (2, 0)
    times[:] = [40, 40, 40]
    assert [channel for channel, _ in drained(gate)] == [0, 1, 2, 0, 2, 0]


@pytest.mark.parametrize("times", [[WATERMARK_MIN] * 3, [5, WATERMARK_MIN, WATERMARK_MIN], [9, 9, 1]])
def test_a_channel_without_event_time_neither_gives_way_nor_is_preferred(times: list[int]) -> None:
    """Nobody waits for its event time, or it has none; the last channel is idle."""
    gate = gate_with_event_times(times, 2, idle=2)
    assert [channel for channel, _ in drained(gate)] == [0, 1, 2, 0, 1, 2]


def test_an_event_whose_turn_it_is_gives_way_to_no_records() -> None:
    """A watermark or a barrier of a channel that is ahead is not delayed."""
    gate = InputGate(2, is_record, lambda channel: ([20, 10][channel], False))
    gate.put(0, "barrier")
    gate.put(1, 1)
    assert drained(gate) == [(0, "barrier"), (1, 1)]


def test_a_blocked_channel_is_not_read_however_far_behind() -> None:
    """The other one is, as nothing else may be."""
    gate = gate_with_event_times([20, 10], 1)
    gate.set_blocked({1})
    assert drained(gate) == [(0, 0)]


def test_a_channel_that_is_ahead_is_passed_over_a_limited_number_of_times() -> None:
    """So a sender that replays years does not stop one that is live."""
    gate = gate_with_event_times([20, 10], 3 * MOST_PASSED_OVER)
    read = [channel for channel, _ in drained(gate)]
    assert read[: MOST_PASSED_OVER + 2] == [1] * MOST_PASSED_OVER + [0, 1]
    assert read.count(0) == read.count(1)


@given(st.lists(st.integers(0, 2), min_size=3, max_size=60))
def test_no_channel_waits_for_more_than_one_turn_of_each_other(order: list[int]) -> None:
    """Between two reads of one channel with more to say, every other channel is read at most once."""
    gate = InputGate(3, is_record)
    for channel in (0, 1, 2, *order):
        gate.put(channel, 0)
    left = [1 + order.count(c) for c in range(3)]
    since: list[list[int]] = [[], [], []]
    for channel, _ in drained(gate):
        assert all(since[channel].count(other) <= 1 for other in range(3))
        left[channel] -= 1
        since[channel] = []
        for other in range(3):
            if other != channel and left[other]:
                since[other].append(channel)
    assert left == [0, 0, 0]


def test_blocking_and_unblocking_does_not_duplicate_a_channels_place() -> None:
    """However often blocks change, every element is read once."""
    gate = InputGate(2, is_record)
    gate.put(0, "s")
    gate.put(1, "s")
    drained(gate)
    gate.put(0, 1)
    for blocked in ({0}, {0, 1}, {1}, set(), {0}, set()):
        gate.set_blocked(blocked)
        gate.set_blocked(set(blocked))
    assert drained(gate) == [(0, 1)]


def test_reading_a_blocked_channel_would_be_an_error() -> None:
    """The gate guards its own invariant: a ready channel is never blocked."""
    gate = InputGate(1, is_record)
    gate.put(0, 1)
    gate._blocked.add(0)  # What must never happen.
    with pytest.raises(InternalError, match="channel 0, which is blocked"):
        gate.poll()
