"""The function that joins records of two streams, against a join that looks at all pairs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.api.streams.joining.join_function import JoinRules, join_function
from headgate.api.streams.joining.tagged_records import Side, Tagger, common_key, tagged_type
from headgate.api.windows.window_states import Storable
from headgate.testing import OperatorHarness

Record = tuple[int | None, int, int]
"""Key (None: it has none), event time in ms, number."""
Event = tuple[int, Record] | int
"""A record of a side, or a watermark."""
Result = tuple[int, tuple[Record | None, Record | None]]

RECORDS = st.tuples(st.sampled_from([1, 2, None]), st.integers(0, 40), st.integers(0, 1000))
EVENTS = st.lists(st.tuples(st.sampled_from([0, 1]), RECORDS) | st.integers(0, 40), max_size=40)
BOUNDS = st.tuples(st.integers(-15, 15), st.integers(-15, 15)).map(lambda both: (min(both), max(both)))
KEPT = st.tuples(st.booleans(), st.booleans())


def both_of(left: Any, right: Any) -> Any:
    """A pair as it is."""
    return left, right


class Joined:
    """The function in a harness, with what a job puts before it."""

    def __init__(self, bounds: tuple[int, int], kept: tuple[bool, bool], hint: Any) -> None:
        self.sides = [Side(Storable(hint), lambda record: record[0], alone) for alone in kept]
        self.function = join_function(JoinRules(*bounds, kept, both_of, False), self.sides)
        key = common_key([int, int], may_lack=any(kept))
        kind = tagged_type(self.sides, key)
        self.taggers = [Tagger(number, side, kind, key) for number, side in enumerate(self.sides)]
        self.harness = OperatorHarness(self.function, key="key")

    def feed(self, event: Event) -> None:
        """Process a record, or advance the watermark."""
        if isinstance(event, int):
            self.harness.advance_watermark(max(event, self.harness.watermark))
            return
        side, record = event
        for tagged in self.taggers[side](record):
            self.harness.process(tagged, timestamp=record[1])

    def restart(self) -> None:
        """Go on from a snapshot."""
        taken = self.harness.take()
        self.harness = OperatorHarness.restore(self.function, self.harness.snapshot(), key="key")
        self.harness.outputs.extend(taken)


def expected(events: list[Event], bounds: tuple[int, int], kept: tuple[bool, bool]) -> list[Result]:
    """What comes out, with its event time, of the records that are in time."""
    sides: tuple[list[Record], list[Record]] = ([], [])
    watermark = -1
    for event in events:
        if isinstance(event, int):
            watermark = max(watermark, event)
        elif event[1][1] > watermark:
            sides[event[0]].append(event[1])
    lower, upper = bounds
    pairs = [
        (left, right)
        for left in sides[0]
        for right in sides[1]
        if left[0] is not None and left[0] == right[0] and lower <= right[1] - left[1] <= upper
    ]
    found: list[Result] = [(max(left[1], right[1]), (left, right)) for left, right in pairs]
    had = [left for left, _ in pairs], [right for _, right in pairs]
    if kept[0]:
        found += [(max(each[1], each[1] + upper), (each, None)) for each in sides[0] if each not in had[0]]
    if kept[1]:
        found += [(max(each[1], each[1] - lower), (None, each)) for each in sides[1] if each not in had[1]]
    return sorted(found, key=str)


@given(EVENTS, BOUNDS, KEPT, st.integers(0, 40), st.sampled_from([None, Record]))
def test_the_join_is_that_of_all_pairs(
    events: list[Event], bounds: tuple[int, int], kept: tuple[bool, bool], restart_at: int, hint: Any
) -> None:
    """Whatever order records and watermarks come in, and wherever it is restored; and nothing is left."""
    joined = Joined(bounds, kept, hint)
    for place, event in enumerate(events):
        if place == restart_at:
            joined.restart()
        joined.feed(event)
    joined.harness.advance_watermark(100)
    assert sorted(joined.harness.take(), key=str) == expected(events, bounds, kept)
    assert joined.harness.timers() == []
    keys = {1, 2, *range(128)}
    assert all(joined.harness.state(name, key) == {} for name in ("left", "right") for key in keys)


def test_records_are_forgotten_behind_the_watermark() -> None:
    """Left ones after the upper bound, right ones after the lower one; so state does not grow with time."""
    joined = Joined((-5, 10), (False, True), Record)
    for time in range(1_000):
        joined.feed((0, (1, time, 0)))
        joined.feed((1, (1, time, 1)))
        joined.feed(time - 1)
        joined.harness.take()
        assert len(joined.harness.state("left", 1)) <= 11
        assert len(joined.harness.state("right", 1)) <= 6


def test_late_records_are_counted() -> None:
    """At or before the watermark, on either side."""
    joined = Joined((-5, 5), (True, True), Record)
    for event in (10, (0, (1, 10, 0)), (1, (1, 9, 1)), (0, (1, 11, 2)), 30):
        joined.feed(event)  # type: ignore[arg-type]
    assert joined.harness.function.dropped == 2  # type: ignore[union-attr]
    assert joined.harness.take() == [(16, ((1, 11, 2), None))]


def test_a_record_without_event_time_is_refused() -> None:
    """With what to do."""
    joined = Joined((-5, 5), (False, False), Record)
    (tagged,) = joined.taggers[0]((1, 2, 3))
    with pytest.raises(hg.UsageError, match=r"is by event time, and a record has none; call with_event_time"):
        joined.harness.process(tagged)
