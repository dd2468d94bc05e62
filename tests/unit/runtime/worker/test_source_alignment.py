"""Which source subtasks wait for slower ones, in the same worker and in others."""

from __future__ import annotations

from operator_samples import context

from headgate.api.streams.event_time import WatermarkStrategy
from headgate.common.time import WATERMARK_MIN
from headgate.runtime.worker.operators.source_alignment import AlignedTimestamps, SourceAlignment


class Source(AlignedTimestamps):
    """A source subtask at an event time that a test sets."""

    event_time: int | None = None  # type: ignore[assignment]


def source(at: int | None, drift: int = 10, group: str = "a") -> Source:
    """One that may be `drift` ahead."""
    made = Source(context(), WatermarkStrategy("at", max_drift_ms=drift, drift_group=group))
    made.event_time = at
    return made


def aligned(*sources: Source, alone: bool = True) -> SourceAlignment:
    """Those of one worker."""
    return SourceAlignment(sources, alone)


def test_who_is_too_far_ahead_waits_for_the_slowest_here() -> None:
    """One may be exactly the limit ahead."""
    slow, fast = source(100), source(110)
    alignment = aligned(slow, fast)
    assert not alignment.holds(fast)
    fast.event_time = 111
    assert alignment.holds(fast)
    assert not alignment.holds(slow)
    slow.event_time = 101
    assert not alignment.holds(fast)


def test_groups_do_not_wait_for_each_other() -> None:
    """Each has its own slowest source."""
    alignment = aligned(source(0, group="a"), fast := source(1_000, group="b"))
    assert not alignment.holds(fast)
    assert alignment.event_times() == {"a": 0, "b": 1_000}


def test_nobody_waits_for_idle_and_ended_sources() -> None:
    """They have no event time that matters."""
    alignment = aligned(source(None), fast := source(1_000))
    assert not alignment.holds(fast)
    assert not alignment.holds(source(None))


def test_who_has_not_begun_is_waited_for_and_may_begin() -> None:
    """Its first record may be of any time."""
    alignment = aligned(new := source(WATERMARK_MIN), fast := source(5))
    assert alignment.holds(fast)
    assert not alignment.holds(new)


def test_without_news_of_other_workers_all_that_have_begun_wait() -> None:
    """They could be ahead by any time; what is known stays known when an answer knows less."""
    alignment = aligned(new := source(WATERMARK_MIN), alone=False)
    assert not alignment.holds(new)
    new.event_time = 5
    assert alignment.holds(new)
    alignment.others_reached({"a": 0})
    assert not alignment.holds(new)
    new.event_time = 11
    assert alignment.holds(new)
    alignment.others_reached(None)
    assert alignment.holds(new)
    alignment.others_reached({"a": 1})
    assert not alignment.holds(new)
    alignment.others_reached({})
    new.event_time = 1_000
    assert not alignment.holds(new)
