"""Windows that go on under another trigger or lateness, and triggers that leave times behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from windows_under_test import END, Run, Seen, windows

import headgate as hg

Rules = Callable[[Any], Any]


def changed(before: Rules, after: Rules, watermark: int = 0, assigner: Any = None) -> Run:
    """A window of 100 ms with a record, stored when event time was `watermark`; then with other rules."""

    def made(rules: Rules) -> Callable[[], Any]:
        return lambda: rules(windows(assigner or hg.tumbling(100))).aggregate(n=hg.count())

    run = Run(made(before))
    run.feed(Seen("a", 1))
    run.watermark(watermark)
    run.make = made(after)
    run.restart()
    return run


def lateness(given: int) -> Rules:
    """The usual windows, with this lateness."""
    return lambda stream: stream.lateness(given)


def counts(outputs: Any) -> list[Any]:
    """Event time and number of records of each result."""
    return [(time, row["n"]) for time, row in outputs]


@pytest.mark.parametrize("assigner", [hg.tumbling(100), hg.session(99)])
@pytest.mark.parametrize("watermark", [0, 110])
@pytest.mark.parametrize(("before", "after"), [(30, 60), (30, 0), (30, 20), (0, 60), (30, 30)])
def test_a_changed_lateness_is_that_of_open_windows(
    before: int, after: int, watermark: int, assigner: Any
) -> None:
    """They emit once, take records for so long, and are forgotten."""
    run = changed(lateness(before), lateness(after), watermark, assigner)
    if watermark == 0:
        assert counts(run.watermark(99)) == [(99, 1)]
    if after >= 20 and (watermark == 0 or before >= 30):
        run.watermark(98 + 20)
        assert counts(run.feed(Seen("a", 1))) == [(99, 2)]
        run.watermark(98 + after)
        assert run.left()
    assert run.watermark(99 + max(before, after)) == []
    assert (run.left(), run.timers) == ({}, [])


@pytest.mark.parametrize("after", [hg.at_end(), hg.purging(hg.at_end()), hg.after_watermark(early=9)])
@pytest.mark.parametrize("allowed", [0, 30])
def test_a_trigger_that_wants_the_end_gets_that_of_open_windows(after: Any, allowed: int) -> None:
    """Though the trigger before it did not."""
    run = changed(
        lambda stream: stream.lateness(allowed).trigger(hg.every_count(9)),
        lambda stream: stream.lateness(allowed).trigger(after),
    )
    assert counts(run.watermark(END)) == [(99, 1)]
    assert (run.left(), run.timers) == ({}, [])


def test_a_trigger_that_does_not_want_the_end_does_not_fire_there() -> None:
    """Though the trigger before it did; it goes on with its own counts."""
    run = changed(lateness(30), lambda stream: stream.lateness(30).trigger(hg.every_count(2)))
    assert counts(run.feed(Seen("a", 2), Seen("a", 3), Seen("a", 4))) == [(99, 3)]
    assert (run.watermark(END), run.left(), run.timers) == ([], {}, [])


class Asked(hg.Trigger):
    """Wants to know of some times, and never asks for them to be deleted; fires whenever it is asked."""

    def __init__(self, *times: int, clock: int | None = None) -> None:
        self.times, self.clock = times, clock

    def on_record(self, record: Any, timestamp: Any, window: Any, ctx: Any) -> hg.TriggerResult:
        for time in self.times:
            ctx.register_event_time(time)
        if self.clock is not None:
            ctx.register_processing_time(self.clock)
        return hg.TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> hg.TriggerResult:
        assert time in self.times
        ctx.state["asked"] = time
        return hg.TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> hg.TriggerResult:
        assert time == self.clock
        ctx.state["asked"] = time
        return hg.TriggerResult.FIRE


def asked(trigger: hg.Trigger) -> Run:
    """Windows of 100 ms with a lateness of 30 and a trigger."""
    return Run(lambda: windows(hg.tumbling(100)).lateness(30).trigger(trigger).aggregate(n=hg.count()))


def test_a_trigger_is_asked_at_the_times_that_it_wants() -> None:
    """Neither at the end of a window, nor where it is forgotten; unless it wants that."""
    for times in ([50], [50, 99], [99], [129], [50, 99, 120, 129]):
        run = asked(Asked(*times))
        run.feed(Seen("a", 1))
        for at in range(40, 140):
            assert counts(run.watermark(at)) == ([(99, 1)] if at in times else [])
        assert (run.left(), run.timers) == ({}, [])


def test_times_that_a_trigger_left_behind_do_nothing() -> None:
    """The window is gone, and so is what the trigger remembered."""
    run = asked(Asked(300, clock=5_000))
    run.feed(Seen("a", 1))
    assert run.watermark(200) == []
    assert run.wall(6_000) == []
    assert run.watermark(END) == []
    assert (run.left(), run.timers) == ({}, [])
