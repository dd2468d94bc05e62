"""Early results, windows of processing time and changes of lateness: columns do what windows of rows do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from columns_under_test import LATE, ColumnsRun, grouped
from hypothesis import given, settings
from hypothesis import strategies as st
from windows_under_test import Run, Seen, span, windows

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.testing import ManualClock

COUNT = F.count("*").alias("n")
STEPS = st.lists(
    st.one_of(
        st.lists(st.builds(Seen, st.sampled_from("ab"), st.sampled_from(range(-60, 241, 2)), st.none()),
                 min_size=1, max_size=4),
        st.integers(1, 4),
    ),
    max_size=12,
)  # fmt: skip
"""Records in order of arrival, or for how many tens of ms the wall clock goes on."""
KINDS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "tumbling": (lambda time: F.window(time, 50), lambda **time: hg.tumbling(50, **time)),
    "sliding": (lambda time: F.window(time, 60, 20), lambda **time: hg.sliding(60, 20, **time)),
    "sessions": (lambda time: F.session_window(time, 55), lambda **time: hg.session(55, **time)),
}


def shown(outputs: list[Any]) -> list[Any]:
    """Key, window and count, in an order; the time of a result is the last ms of its window, or None."""
    rows = [(row["key"], row["span"] if "span" in row else span(row), row["n"]) for _, row in outputs]
    return sorted(rows)


def both(make: Callable[[], Any], rows: Callable[[], Any], steps: list[Any], disorder: int) -> None:
    """Run columns and rows in step; what comes out must be the same at each step."""
    mine, theirs = ColumnsRun(make, ManualClock(1_000)), Run(rows, ManualClock(1_000))
    latest, wall = -(2**63), 1_000
    for step in steps:
        if isinstance(step, int):
            wall += 10 * step
            assert shown(mine.wall(wall)) == shown(theirs.wall(wall))
            continue
        marks, expected = [], []
        for record in step:
            marks.append(latest)
            expected += theirs.watermark(latest) + theirs.feed(record)
            latest = max(latest, record.at - disorder - 1)
        # Rows of a batch that become one accumulator have the first one's watermark; the last one follows.
        assert shown(mine.feed(step, marks) + mine.watermark(marks[-1])) == shown(expected)
    assert shown(mine.finish()) == shown(theirs.watermark(2**63 - 1))


@pytest.mark.parametrize("kind", KINDS)
@given(
    steps=STEPS,
    interval=st.sampled_from([10, 30]),
    disorder=st.sampled_from([0, 40, 400]),
    lateness=st.sampled_from([0, 60]),
)
@settings(max_examples=15, deadline=None)
def test_early_results_come_when_those_of_rows_come(
    kind: str, steps: list[Any], interval: int, disorder: int, lateness: int
) -> None:
    """At multiples of the interval if records have come since; at the end; and at each late record."""
    of_columns, of_rows = KINDS[kind]
    early = hg.after_watermark(early=interval)

    def table() -> Any:
        return grouped(of_columns("at")).lateness(lateness).trigger(early).agg(COUNT, uid="w")

    def stream() -> Any:
        return windows(of_rows()).lateness(lateness).trigger(early).aggregate(n=hg.count(), uid="w")

    both(table, stream, steps, disorder)


@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS)
@settings(max_examples=15, deadline=None)
def test_windows_of_processing_time_are_those_of_rows(kind: str, steps: list[Any]) -> None:
    """By the clock at which records come, whatever their event time; what has not ended at the end is not."""
    of_columns, of_rows = KINDS[kind]

    def table() -> Any:
        return grouped(of_columns(F.proctime())).agg(COUNT, uid="w")

    def stream() -> Any:
        return windows(of_rows(time="processing")).aggregate(n=hg.count(), uid="w")

    both(table, stream, steps, 0)


def test_open_windows_emit_early_once_more_after_a_restart() -> None:
    """Which of them had got records since the last interval is not stored."""
    every = hg.continuous(20, time="processing")

    def make() -> Any:
        return grouped(F.window("at", 50)).trigger(every).agg(COUNT, uid="w")

    tried = ColumnsRun(make, ManualClock(0))
    tried.feed([Seen("a", 1), Seen("b", 2)])
    assert shown(tried.wall(20)) == [("a", (0, 50), 1), ("b", (0, 50), 1)]
    assert tried.wall(60) == []
    tried.feed([Seen("a", 3)])
    tried.restart()
    assert shown(tried.wall(80)) == [("a", (0, 50), 2), ("b", (0, 50), 1)]
    assert tried.wall(200) == []
    assert shown(tried.watermark(49)) == [("a", (0, 50), 2), ("b", (0, 50), 1)]


def test_windows_of_processing_time_go_on_after_a_restart() -> None:
    """Those that ended meanwhile emit first; after the clock was set back no record is late."""
    tried = ColumnsRun(lambda: grouped(F.window(F.proctime(), 50)).agg(COUNT, uid="w"), ManualClock(1_010))
    tried.feed([Seen("a", 1)], [-5])
    tried.restart()
    assert tried.wall(1_049) == []
    tried.feed([Seen("a", 2)], [7])
    assert [(time, row["n"]) for time, row in tried.wall(1_060)] == [(7, 2)]
    tried.clock.set(900)
    tried.feed([Seen("b", 3)], [7])
    tried.restart()
    assert shown(tried.wall(1_100)) == [("b", (1_050, 1_100), 1)]
    assert tried.left == 0


class Changing:
    """A table whose lateness a later version of the program changes."""

    def __init__(self, window: Callable[[], Any], lateness: int | None) -> None:
        self.window, self.lateness = window, lateness

    def __call__(self) -> Any:
        windows = grouped(self.window())
        return (windows if self.lateness is None else windows.lateness(self.lateness)).agg(COUNT, uid="w")


WINDOWS = {
    "tumbling": (lambda: F.window("at", 50), (0, 50), (50, 100)),
    "sessions": (lambda: F.session_window("at", 20), (10, 30), (60, 80)),
}


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("before", [None, 0])
def test_more_lateness_brings_no_window_back(kind: str, before: int | None) -> None:
    """What was forgotten stays so: a late record would be alone in it. Also after a second restart."""
    window, _, second = WINDOWS[kind]
    program = Changing(window, before)
    tried = ColumnsRun(program)
    tried.feed([Seen("a", 10), Seen("a", 60)])
    assert len(tried.watermark(55)) == 1
    program.lateness = 1_000
    for _ in range(2):
        tried.restart()
        assert tried.feed([Seen("a", 11)], [55]) == []
    assert shown(tried.watermark(120)) == [("a", second, 1)]
    tried.restart()
    assert tried.feed([Seen("a", 12)], [120]) == []
    again = tried.feed([Seen("a", 61)], [120])
    assert [row["n"] for _, row in again] == [2]
    tried.finish()
    assert tried.dropped == 3


def test_a_snapshot_of_a_version_without_lateness_has_forgotten_what_had_ended() -> None:
    """Such a snapshot does not say what is forgotten."""
    program = Changing(lambda: F.window("at", 50), None)
    tried = ColumnsRun(program)
    tried.feed([Seen("a", 10), Seen("a", 60)])
    tried.watermark(55)
    program.lateness = 1_000
    tried.restart(without="forgotten")
    assert tried.feed([Seen("a", 11)], [55]) == []
    assert shown(tried.watermark(120)) == [("a", (50, 100), 1)]
    assert [row["n"] for _, row in tried.feed([Seen("a", 61)], [120])] == [2]


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("after", [None, 0, 20])
def test_less_lateness_forgets_windows_and_emits_none_again(kind: str, after: int | None) -> None:
    """A window that was only kept for late records is gone; one that is open is whole."""
    window, _, second = WINDOWS[kind]
    program = Changing(window, 1_000)
    tried = ColumnsRun(program)
    tried.feed([Seen("a", 10), Seen("a", 60)])
    assert len(tried.watermark(75)) == 1
    program.lateness = after
    tried.restart()
    assert tried.watermark(76) == []
    assert tried.feed([Seen("a", 11)], [76]) == []
    assert shown(tried.finish()) == [("a", second, 1)]
    assert (tried.dropped, tried.left) == (1, 0)


@pytest.mark.parametrize("kind", ["tumbling", "sliding", "cumulative", "sessions"])
def test_what_is_kept_is_bounded_by_the_lateness(kind: str) -> None:
    """However many windows there were: those of the last 100 + 50 ms, in slices of 50 ms at the most."""
    window = {
        "tumbling": lambda: F.window("at", 50),
        "sliding": lambda: F.window("at", 50, 25),
        "cumulative": lambda: F.cumulate_window("at", 50, 25),
        "sessions": lambda: F.session_window("at", 3),
    }[kind]
    tried = ColumnsRun(lambda: grouped(window()).lateness(100).agg(COUNT, uid="w"))
    most = 0
    for at in range(0, 5_000, 10):
        tried.feed([Seen("a", at)], [at - 1])
        most = max(most, tried.left)
    assert most <= {"tumbling": 4, "sliding": 8, "cumulative": 8, "sessions": 14}[kind]
    tried.finish()
    assert tried.left == 0


def test_many_late_records_of_one_key_each_make_its_window_emit() -> None:
    """More than are computed together."""
    tried = ColumnsRun(lambda: grouped(F.window("at", 1_000)).lateness(5_000).agg(COUNT, uid="w"))
    tried.feed([Seen("a", 1), Seen("b", 1)])
    tried.watermark(2_000)
    late = [Seen("a" if n % 3 else "b", n) for n in range(300)]
    found = [(row["key"], row["n"]) for _, row in tried.feed(late, [2_000] * len(late))]
    assert [n for key, n in found if key == "a"] == list(range(2, 202))
    assert [n for key, n in found if key == "b"] == list(range(2, 102))
    assert [key for key, _ in found] == [record.key for record in late]


def test_late_rows_have_all_columns_and_their_event_time() -> None:
    """Also those that no aggregate reads, and nulls."""
    tried = ColumnsRun(lambda: grouped(F.window("at", 50)).late_to(LATE).agg(COUNT, uid="w"))
    tried.feed([Seen("a", 10, 1)])
    tried.watermark(200)
    tried.feed([Seen("a", 11, None), Seen("b", 300, 4), Seen("b", 12, 5)], [200, 200, 299])
    assert tried.late_records == [
        (11, {"key": "a", "at": 11, "price": None}),
        (12, {"key": "b", "at": 12, "price": 5}),
    ]


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no duration": (lambda: grouped(F.window("at", 50)).lateness("soon"), r"lateness\(\) \(test_columns"),
    "no tag": (lambda: grouped(F.window("at", 50)).late_to("late"), r"expected a tag such as hg.OutputTag"),
    "no trigger": (lambda: grouped(F.window("at", 50)).trigger("10s"), r"expected a trigger such as"),
    "a count": (
        lambda: grouped(F.window("at", 50)).trigger(hg.every_count(5)),
        r'say hg.after_watermark\(early="10s"\) or .* or windows of rows',
    ),
    "event time": (
        lambda: grouped(F.window("at", 50)).trigger(hg.continuous("1s")),
        r"F.cumulate_window\(\)",
    ),
    "purging": (lambda: grouped(F.window("at", 50)).trigger(hg.purging(hg.at_end())), r"windows of rows"),
    "late of the clock": (lambda: grouped(F.window(F.proctime(), 50)).lateness(5), r"no row is late for it"),
    "early of the clock": (
        lambda: grouped(F.window(F.proctime(), 50)).trigger(hg.after_watermark(early=5)),
        r"take shorter windows",
    ),
    "another side output": (
        lambda: grouped(F.window("at", 50)).late_to(LATE).agg(COUNT).side_output(hg.OutputTag("other")),
        r"say late_to\(tag\) between group_by\(\) and agg\(\)",
    ),
    "windows of repeated results": (
        lambda: grouped(F.window("at", 50)).lateness(5).agg(COUNT).group_by("window"),
        r"results of windows with lateness, which come more than once",
    ),
    "event time of repeated results": (
        lambda: grouped(F.window("at", 50)).lateness(5).agg(COUNT).with_watermark("window"),
        r"with_watermark\(\) .* comes after other calls",
    ),
    "a window of no length": (lambda: F.window("at", None), r"window\(\): size is None; expected text such"),
    "a session without a gap": (lambda: F.session_window("at", [1]), r"session_window\(\): gap is \[1\]"),
    "joins of early results": (
        lambda: (early := grouped(F.window("at", 50)).trigger(hg.after_watermark(early=5)).agg(COUNT)).join(
            early, ["window", "key"]
        ),
        r"join\(\) .* early results",
    ),
    "joins of processing time": (
        lambda: (clock := grouped(F.window(F.proctime(), 50)).agg(COUNT)).join(clock, ["window", "key"]),
        r"which no watermark ends",
    ),
    "the clock as a column": (
        lambda: _table().select(F.proctime()),
        r"proctime\(\) is the time of a window",
    ),
    "windows of the clock as a column": (
        lambda: _table().select(F.window(F.proctime(), 50)),
        r"it goes into group_by",
    ),
}


def _table() -> Any:
    return grouped(F.window("at", 50)).agg(COUNT)


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_exist_is_refused(what: str) -> None:
    """While the plan is built, with what to do."""
    made, text = WRONG[what]
    with pytest.raises(hg.PlanError, match=text):
        made()


def test_the_plan_says_that_results_repeat() -> None:
    """And where late rows go."""
    early = hg.after_watermark(early="10s")
    windows = grouped(F.window("at", "1min")).lateness("30s").late_to(LATE).trigger(early)
    running = windows.agg(COUNT, uid="w").explain().partition("as it runs")[2]
    assert "early results every 10s of the wall clock" in running
    assert "late rows are taken for 30s after the end of a window" in running
    assert "later rows go to side output 'late'" in running
    assert "results of a window may come more than once: the last one counts" in running
    assert "more than once" not in grouped(F.window("at", "1min")).agg(COUNT, uid="w").explain()
