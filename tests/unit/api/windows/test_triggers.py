"""When windows emit, by each trigger: the table of what comes out at each record and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from windows_under_test import END, Run, Seen, windows

import headgate as hg

COUNT = hg.every_count


def counting(windows: Any) -> Any:
    """The number of records of each window."""
    return windows.aggregate(n=hg.count(), prices=hg.collect_list("price"))


def tried(trigger: Any, assigner: Any = None, lateness: int | None = 0) -> Run:
    """Windows of 100 ms with a trigger."""

    def make() -> Any:
        made = windows(assigner or hg.tumbling(100)).trigger(trigger)
        return counting(made if lateness is None else made.lateness(lateness))

    return Run(make)


def counts(outputs: Sequence[Any]) -> list[Any]:
    """Event time and number of records of each result."""
    return [(time, row["n"]) for time, row in outputs]


def test_the_usual_trigger_fires_at_the_end_and_at_late_records() -> None:
    """And at no other time."""
    run = tried(hg.at_end(), lateness=50)
    assert run.feed(Seen("a", 10), Seen("a", 20)) == []
    assert counts(run.watermark(98)) == []
    assert counts(run.watermark(99)) == [(99, 2)]
    assert counts(run.feed(Seen("a", 30))) == [(99, 3)]
    assert counts(run.watermark(148)) == []
    assert counts(run.feed(Seen("a", 31))) == [(99, 4)]
    assert (run.watermark(149), run.left(), run.timers) == ([], {}, [])
    assert (run.feed(Seen("a", 32)), run.harness.function.dropped) == ([], 1)


def test_counts_fire_at_each_so_many_records_and_not_at_the_end() -> None:
    """What was not enough is forgotten with the window."""
    run = tried(COUNT(2))
    assert counts(run.feed(*[Seen("a", at) for at in range(5)])) == [(99, 2), (99, 4)]
    assert (run.watermark(99), run.left(), run.timers) == ([], {}, [])


def test_counts_are_of_each_window_and_key() -> None:
    """One is not another's."""
    run = tried(COUNT(2))
    assert counts(run.feed(Seen("a", 1), Seen("b", 1), Seen("a", 101))) == []
    assert counts(run.feed(Seen("b", 2), Seen("a", 102))) == [(99, 2), (199, 2)]


def test_purging_forgets_what_was_emitted() -> None:
    """Results are of new records only."""
    run = tried(hg.purging(COUNT(2)))
    fed = run.feed(*[Seen("a", at, at) for at in range(5)])
    assert [row["prices"] for _, row in fed] == [[0, 1], [2, 3]]
    run = tried(hg.purging(hg.at_end()), lateness=50)
    run.feed(Seen("a", 1, 1))
    assert [row["prices"] for _, row in run.watermark(99)] == [[1]]
    assert [row["prices"] for _, row in run.feed(Seen("a", 2, 2))] == [[2]]
    assert (run.watermark(149), run.left(), run.timers) == ([], {}, [])


def test_early_firing_by_count_and_the_end() -> None:
    """The exact result comes at the end in any case; late records fire one by one."""
    run = tried(hg.after_watermark(early=COUNT(2)), lateness=50)
    assert counts(run.feed(Seen("a", 1), Seen("a", 2), Seen("a", 3))) == [(99, 2)]
    assert counts(run.watermark(99)) == [(99, 3)]
    assert counts(run.feed(Seen("a", 4))) == [(99, 4)]
    assert (run.watermark(149), run.left(), run.timers) == ([], {}, [])


def test_late_firing_by_count() -> None:
    """What is not enough until the window goes is not emitted."""
    run = tried(hg.after_watermark(late=COUNT(2)), lateness=50)
    run.feed(Seen("a", 1))
    assert counts(run.watermark(99)) == [(99, 1)]
    assert counts(run.feed(Seen("a", 2), Seen("a", 3), Seen("a", 4))) == [(99, 3)]
    assert (run.watermark(149), run.left(), run.timers) == ([], {}, [])


def test_early_firing_by_the_wall_clock() -> None:
    """At multiples of the interval, if records have come since."""
    run = tried(hg.after_watermark(early="10s"))
    run.wall(3_000)
    run.feed(Seen("a", 1))
    assert counts(run.wall(9_999)) == []
    assert counts(run.wall(10_000)) == [(99, 1)]
    assert counts(run.wall(30_000)) == []
    run.feed(Seen("a", 2), Seen("a", 3))
    assert counts(run.wall(40_000)) == [(99, 3)]
    run.feed(Seen("a", 4))
    assert counts(run.watermark(99)) == [(99, 4)]
    assert (run.left(), run.timers, run.wall(99_000)) == ({}, [], [])


def test_continuous_firing_in_event_time() -> None:
    """At multiples of the interval before the end, and at the end."""
    run = tried(hg.continuous(30))
    run.feed(Seen("a", 10))
    assert counts(run.watermark(30)) == [(99, 1)]
    assert counts(run.watermark(65)) == []
    run.feed(Seen("a", 66))
    assert counts(run.watermark(89)) == []
    assert counts(run.watermark(90)) == [(99, 2)]
    run.feed(Seen("a", 95))
    assert run.timers == [(99, "a")]
    assert (counts(run.watermark(END)), run.left(), run.timers) == ([(99, 3)], {}, [])


def test_continuous_firing_of_all_time_ends_with_the_input() -> None:
    """It does not go on for ever without records."""
    run = tried(hg.continuous(30), hg.global_window(), lateness=None)
    run.feed(Seen("a", 10), Seen("a", 20))
    assert [row["n"] for _, row in run.watermark(END)] == [2]
    assert run.timers == []


class EveryDear(hg.Trigger):
    """Fires at prices above a limit, and 10 ms of event time after that once more; counts them."""

    def on_record(self, record: Any, timestamp: Any, window: Any, ctx: Any) -> hg.TriggerResult:
        if record.price < 100:
            return hg.TriggerResult.CONTINUE
        ctx.state["dear"] = ctx.state.get("dear", 0) + 1
        ctx.state["again"] = timestamp + 10
        ctx.register_event_time(timestamp + 10)
        return hg.TriggerResult.FIRE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> hg.TriggerResult:
        return hg.TriggerResult.PURGE if ctx.state["dear"] > 1 else hg.TriggerResult.FIRE

    def clear(self, window: Any, ctx: Any) -> None:
        if "again" in ctx.state:
            ctx.delete_event_time(ctx.state["again"])


def test_a_trigger_of_ones_own_has_state_and_times() -> None:
    """Both are stored with the window, and gone with it."""
    run = tried(EveryDear())
    assert counts(run.feed(Seen("a", 1, 1), Seen("a", 2, 100))) == [(99, 2)]
    run.restart()
    assert counts(run.watermark(12)) == [(99, 2)]
    assert counts(run.feed(Seen("a", 13, 500))) == [(99, 3)]
    assert counts(run.watermark(23)) == []
    assert run.left()["remembered"] == {(0, 100): {"trigger": {"dear": 2, "again": 23}}}
    assert counts(run.feed(Seen("a", 95, 500))) == [(99, 1)]
    assert (run.watermark(99), run.left(), run.timers) == ([], {}, [])


def test_triggers_of_sessions_merge() -> None:
    """Counts add up; what waited waits for the new end."""
    run = tried(COUNT(4), hg.session(20))
    assert run.feed(Seen("a", 0), Seen("a", 1), Seen("a", 30)) == []
    assert counts(run.feed(Seen("a", 15))) == [(49, 4)]
    assert (run.watermark(END), run.left(), run.timers) == ([], {}, [])
    run = tried(hg.continuous(10), hg.session(20))
    run.feed(Seen("a", 0), Seen("a", 30), Seen("a", 15))
    assert counts(run.watermark(10)) == [(49, 3)]
    assert counts(run.watermark(END)) == [(49, 3)]
    assert (run.left(), run.timers) == ({}, [])


def test_a_purged_session_stays_one() -> None:
    """Its records are gone, and what touches it joins it."""
    run = tried(hg.purging(COUNT(2)), hg.session(20))
    assert counts(run.feed(Seen("a", 0), Seen("a", 1))) == [(20, 2)]
    assert counts(run.feed(Seen("a", 10), Seen("a", 25))) == [(44, 2)]
    assert (run.watermark(END), run.left(), run.timers) == ([], {}, [])


def test_a_trigger_without_merging_is_refused_for_sessions() -> None:
    """Where it is written."""
    with pytest.raises(
        hg.PlanError, match=r"aggregate\(\) \(test_triggers.py:\d+\): the trigger has no on_merge"
    ):
        counting(windows(hg.session(20)).trigger(hg.purging(EveryDear())))


def test_a_global_window_needs_a_trigger() -> None:
    """It never ends."""
    with pytest.raises(hg.PlanError, match=r"global_window\(\) never ends"):
        counting(windows(hg.global_window()))


@pytest.mark.parametrize(
    "assigner", [hg.tumbling(100, time="processing"), hg.sliding(100, 100, time="processing")]
)
def test_windows_of_processing_time_follow_the_clock(assigner: Any) -> None:
    """Whatever the event time of the records; nothing is late."""
    run = Run(lambda: counting(windows(assigner)))
    run.wall(30)
    run.feed(Seen("a", 5_000), Seen("a", 1))
    run.restart()
    assert run.wall(98) == []
    assert [(row["window"]["end"].microsecond, row["n"]) for _, row in run.wall(99)] == [(100_000, 2)]
    assert (run.left(), run.timers) == ({}, [])


def test_sessions_of_processing_time() -> None:
    """They end when the clock has passed the gap."""
    run = Run(lambda: counting(windows(hg.session(20, time="processing"))))
    run.feed(Seen("a", 1))
    run.wall(15)
    run.feed(Seen("a", 1))
    assert run.wall(33) == []
    assert counts(run.wall(34)) == [(None, 2)]
    assert (run.left(), run.timers) == ({}, [])


WRONG = {
    "every_count": lambda: hg.every_count(0),
    "continuous": lambda: hg.continuous("soon"),
    "continuous, time": lambda: hg.continuous("1s", time="wall"),
    "after_watermark": lambda: hg.after_watermark(early="-1s"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_refused_where_they_are_written(name: str) -> None:
    """In a sentence that names the call."""
    call = name.partition(",")[0]
    with pytest.raises(hg.PlanError, match=rf"{call}\(\) \(test_triggers.py:\d+\)"):
        WRONG[name]()
