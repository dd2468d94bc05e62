"""What windows keep and give: reduced records, evictors, whole windows; late records; wrong calls."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from windows_under_test import END, Run, Seen, span, windows

import headgate as hg

LATE = hg.OutputTag("late")


def prices(stream: Any) -> Any:
    """The prices of each window, of whole windows."""
    return stream.process(lambda key, window, records, ctx: [[record.price for record in records]])


def test_reduce_keeps_one_record() -> None:
    """That of the highest price."""
    run = Run(
        lambda: windows(hg.tumbling(100)).reduce(lambda a, b: max(a, b, key=lambda record: record.price))
    )
    run.feed(Seen("a", 1, 5), Seen("a", 2, 8), Seen("a", 3, 6))
    run.restart()
    assert len(run.left()["windows"]) == 1
    assert run.watermark(END) == [(99, Seen("a", 2, 8))]
    assert run.left() == {}


def test_records_of_merged_sessions_stand_in_order_of_time() -> None:
    """Those of the earlier session first, whichever had more."""
    for more in (1, 4):
        run = Run(lambda: prices(windows(hg.session(20))))
        run.feed(*[Seen("a", 40, n) for n in range(more)], *[Seen("a", 5, 10 + n) for n in range(2)])
        run.feed(Seen("a", 22, 99))
        assert [result for _, result in run.watermark(END)] == [[10, 11, *range(more), 99]]
        assert (run.left(), run.timers) == ({}, [])


def test_records_are_stored_one_by_one() -> None:
    """A further record leaves the stored ones alone, and a longer session keeps their places."""
    run = Run(lambda: prices(windows(hg.session(20))))
    run.feed(Seen("a", 0, 0))
    (first,) = run.left()["records"].items()
    run.feed(*[Seen("a", 10 * n, n) for n in range(1, 9)])
    left = run.left()["records"]
    assert len(left) == 9
    assert left[first[0]] == first[1]
    assert list(run.left()["windows"]) == [(0, 100)]


def test_evictors_take_records_out() -> None:
    """For the result and all later ones."""
    run = Run(
        lambda: (
            windows(hg.tumbling(1_000))
            .trigger(hg.every_count(2))
            .evict(hg.last_records(3))
            .aggregate(all=hg.collect_list("price"))
        )
    )
    fed = run.feed(*[Seen("a", n, n) for n in range(6)])
    assert [row["all"] for _, row in fed] == [[0, 1], [1, 2, 3], [3, 4, 5]]
    assert len(run.left()["records"]) == 3
    assert (run.watermark(END), run.left(), run.timers) == ([], {}, [])


def test_an_evictor_by_time_leaves_the_last_moments() -> None:
    """Of event time; a record at exactly the length before the latest goes."""
    run = Run(lambda: prices(windows(hg.tumbling(1_000)).evict(hg.last_time(10))))
    run.feed(Seen("a", 5, 1), Seen("a", 20, 2), Seen("a", 10, 3), Seen("a", 11, 4))
    assert run.watermark(END) == [(999, [2, 4])]


class Cheap(hg.Evictor):
    """Leaves nothing before, or after."""

    def __init__(self, before: bool) -> None:
        self.first = before

    def before(self, records: Any, window: Any) -> Any:
        return [each for each in records if not self.first]

    def after(self, records: Any, window: Any) -> Any:
        return [each for each in records if each.record.price > 1]


def test_a_window_without_records_emits_nothing() -> None:
    """And an evictor after the result acts on the next."""
    run = Run(lambda: prices(windows(hg.tumbling(1_000)).trigger(hg.every_count(1)).evict(Cheap(True))))
    assert run.feed(Seen("a", 1, 1), Seen("a", 1, 2)) == []
    run = Run(lambda: prices(windows(hg.tumbling(1_000)).trigger(hg.every_count(1)).evict(Cheap(False))))
    fed = run.feed(Seen("a", 1, 1), Seen("a", 1, 2), Seen("a", 1, 3))
    assert [result for _, result in fed] == [[1], [2], [2, 3]]
    assert (run.watermark(END), run.left()) == ([], {})


def test_a_function_sees_its_window_and_keeps_state_of_it() -> None:
    """Until the window is gone."""

    def rises(key: str, window: hg.Window, records: Any, ctx: Any) -> Any:
        ctx.state["fired"] = ctx.state.get("fired", 0) + 1
        ctx.side_output(LATE, len(records))
        yield key, window.start, window.end, ctx.state["fired"], ctx.watermark

    run = Run(lambda: windows(hg.tumbling(100)).lateness(50).process(rises))
    run.feed(Seen("a", 1))
    assert run.watermark(120) == [(99, ("a", 0, 100, 1, 98))]
    run.restart()
    assert run.feed(Seen("a", 2)) == [(99, ("a", 0, 100, 2, 120))]
    assert run.harness.side_outputs(LATE) == [2]
    assert (run.watermark(149), run.left(), run.timers) == ([], {}, [])


def test_sessions_have_no_state_of_a_function() -> None:
    """Two of them may become one."""
    run = Run(lambda: windows(hg.session(5)).process(lambda key, window, records, ctx: [dict(ctx.state)]))
    run.feed(Seen("a", 1))
    with pytest.raises(hg.UsageError, match="sessions have no state of their own"):
        run.watermark(END)


def test_late_records_go_to_the_side_output_or_are_counted() -> None:
    """Only those of which all windows have ended."""
    run = Run(lambda: windows(hg.sliding(100, 50)).late_to(LATE).aggregate(n=hg.count()))
    run.watermark(120)
    assert run.feed(Seen("a", 60), Seen("a", 40), Seen("a", 49)) == []
    assert run.harness.side_outputs(LATE) == [Seen("a", 40), Seen("a", 49)]
    assert run.harness.function.dropped == 0
    assert [(span(row), row["n"]) for _, row in run.watermark(END)] == [((50, 150), 1)]


def test_state_is_bounded_by_watermark_and_lateness() -> None:
    """However long the stream: no more than the windows that are open, and nothing at their end."""
    for kind in (lambda stream: stream.aggregate(n=hg.count()), prices):
        run = Run(lambda kind=kind: kind(windows(hg.sliding(100, 50)).lateness(100)))
        for at in range(0, 20_000, 25):
            run.feed(Seen("a", at, at))
            run.watermark(at)
            left = run.left()
            assert len(left["windows"]) <= 5
            assert len(left.get("records", ())) <= 14
            assert len(run.timers) <= 10
        run.watermark(20_300)
        assert (run.left(), run.timers) == ({}, [])


def test_gaps_may_depend_on_the_record() -> None:
    """Text or ms; one that is none fails with its value."""
    run = Run(lambda: prices(windows(hg.session(lambda record: record.price))))
    run.feed(Seen("a", 0, 10), Seen("a", 30, 5), Seen("a", 10, 20))
    assert run.watermark(END) == [(34, [10, 5, 20])]
    with pytest.raises(hg.UserFunctionError, match=r"the gap of session\(\) is 0 for this record"):
        run.feed(Seen("a", END // 2, 0))


def test_sums_and_means_are_those_of_columns() -> None:
    """NaN is above all numbers, whole numbers have 64 bits, decimals are exact."""
    nan = float("nan")

    def found(aggregate: Any, *values: Any) -> Any:
        run = Run(lambda: windows(hg.tumbling(100)).aggregate(x=aggregate))
        run.feed(*[Seen("a", 1, value) for value in values])
        return run.watermark(END)[0][1]["x"]

    assert found(hg.max("price"), 1.0, nan, 2.0) != found(hg.max("price"), 1.0, nan, 2.0)
    assert [found(hg.min("price"), *each) for each in ((1.0, nan), (nan, 1.0))] == [1.0, 1.0]
    assert found(hg.sum("price"), 2**62, -(2**62)) == 0
    assert found(hg.sum(lambda record: record.price * 2), 1, 2) == 6
    assert found(hg.avg("price"), Decimal("1.00"), Decimal("2.00"), Decimal("2.00")) == Decimal("1.666667")
    with pytest.raises(
        hg.UserFunctionError, match=r"sum\('price'\) is 9223372036854775808, beyond the 64 bits"
    ):
        found(hg.sum("price"), 2**62, 2**62)
    with pytest.raises(hg.UserFunctionError, match=r"sum\('price'\) got 'x' of type str; expected a number"):
        found(hg.sum("price"), "x")
    with pytest.raises(hg.UserFunctionError, match=r"max\('price'\) got values of the types int and str"):
        found(hg.max("price"), 1, "x")
    with pytest.raises(hg.UserFunctionError, match="Seen' object has no attribute 'cost'"):
        found(hg.max("cost"), 1)


def test_records_without_event_time_are_refused() -> None:
    """With what to do."""
    run = Run(lambda: windows(hg.tumbling(100)).aggregate(n=hg.count()))
    with pytest.raises(hg.UsageError, match=r"the windows are of event time, and the stream has none"):
        run.harness.process(Seen("a", 1))


def test_records_of_an_undeclared_type_cannot_be_kept() -> None:
    """At once, not at the first checkpoint."""
    env = hg.Environment(parallelism=1, executor=hg.testing.MiniCluster())  # type: ignore[attr-defined]
    stream = env.from_collection([object()]).with_event_time(lambda record: 1).key_by(lambda record: 1)
    with pytest.raises(hg.UsageError, match="a window is to keep a object, and the program does not declare"):
        prices(stream.window(hg.tumbling(100))).collect()


def _keyed(*names: str) -> Any:
    """A stream of dicts, by these fields."""
    env = hg.Environment(parallelism=1)
    return env.from_collection([{"window": "w", "at": 1}]).with_event_time("at").key_by(*names)


TUMBLING = hg.tumbling(100)
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "size": (lambda: hg.tumbling(0), r"tumbling\(\) \(.*\): size is 0; expected at least 1 ms"),
    "no duration": (lambda: hg.tumbling("an hour"), "size is 'an hour'; expected a number and a unit"),
    "time": (lambda: hg.tumbling(1, time="wall"), "time is 'wall'; expected 'event' or 'processing'"),
    "slide": (lambda: hg.sliding("1s", "2s"), "slide is '2s' and size '1s'; expected a slide up to the size"),
    "step": (lambda: hg.cumulative("1h", "7min"), "expected a multiple of the step"),
    "gap": (lambda: hg.session("0s"), "gap is '0s'; expected at least 1 ms"),
    "gap function": (lambda: hg.session(lambda: 5), "expected a function of one record"),
    "count": (lambda: hg.count_window(0), "n is 0; expected a whole number of at least 1"),
    "window": (lambda: windows("1h"), "expected"),
    "no aggregate": (lambda: windows(TUMBLING).aggregate(), "got no aggregate"),
    "another aggregate": (lambda: windows(TUMBLING).aggregate(n=len), "expected an aggregate|got"),
    "a name that is taken": (
        lambda: windows(TUMBLING).aggregate(key=hg.count()),
        "'key' is a field of the results already",
    ),
    "window's name": (lambda: windows(TUMBLING).aggregate(window=hg.count()), "'window' is a field"),
    "window's name as the key": (
        lambda: _keyed("window").window(TUMBLING).aggregate(n=hg.count()),
        "the key 'window' would be hidden by the window in the results; rename the field",
    ),
    "field": (lambda: hg.sum(""), "expected the name of a field or a function"),
    "reduce": (lambda: windows(TUMBLING).reduce(len), "expected a function of two records"),
    "process": (lambda: windows(TUMBLING).process(lambda key: []), "expected a function of key and window"),
    "lateness": (lambda: windows(hg.count_window(2)).lateness("1s"), "not of event time"),
    "late_to": (lambda: windows(hg.session(1, time="processing")).late_to(LATE), "not of event time"),
    "evictor": (lambda: hg.last_records(0), "n is 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_refused_where_they_are_written(name: str) -> None:
    """In a sentence that says what is expected."""
    call, text = WRONG[name]
    with pytest.raises(hg.PlanError, match=text) as refused:
        call()
    assert "test_window_contents.py:" in str(refused.value) or "windows_under_test.py:" in str(refused.value)
