"""Keyed operators beside event time: state, processing time, side outputs, kept rows, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_samples import ManualClock, columns, context, finished, opened, rows

import headgate as hg
from headgate.common.errors import UsageError, UserFunctionError
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.common.time import WATERMARK_MAX
from headgate.records.row import Row
from headgate.runtime.worker.operators.keyed_loop import LoopShape, loop_source
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.testing import OperatorHarness

SIDE = hg.OutputTag("side")


class Counter(hg.KeyedProcessFunction[str, Any, Any]):
    """One state of each kind."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    names: hg.ListState[str] = hg.list_state()
    tally: hg.MapState[str, int] = hg.map_state()
    whole: hg.ValueState[dict[str, int]] = hg.value_state(default_factory=dict)

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        self.count.value += 1
        self.names.add(record["name"])
        self.tally.put(record["name"], self.tally.get(record["name"], 0) + 1)
        self.whole.value["n"] = self.whole.value.get("n", 0) + 1
        yield ctx.key, self.count.value, self.names.get(), dict(self.tally.items()), dict(self.whole.value)


def keyed(function: Any, key: Any = "key", **changes: Any) -> Any:
    """An open operator with its outputs."""
    operator = KeyedProcessOperator(context(**changes), function, key)
    main, sides = opened(operator, "side")
    return operator, main, sides["side"]


RECORDS = st.lists(
    st.fixed_dictionaries({"key": st.sampled_from(["a", "b", "c", ""]), "name": st.sampled_from("xyz")}),
    min_size=1,
    max_size=30,
)


def counted(records: list[dict[str, str]]) -> list[Any]:
    """What Counter gives, by plain means."""
    names: dict[str, list[str]] = {}
    out = []
    for record in records:
        mine = names.setdefault(record["key"], [])
        mine.append(record["name"])
        tally = {name: mine.count(name) for name in mine}
        out.append((record["key"], len(mine), list(mine), tally, {"n": len(mine)}))
    return out


@given(RECORDS, st.booleans(), st.integers(1, 10), st.integers(0, 30))
def test_all_kinds_of_state_are_per_key_and_survive_a_restore(
    records: list[dict[str, str]], columnar: bool, size: int, at: int
) -> None:
    """Value, list, map and mutable value states belong to their key, in both shapes, over a restore."""
    make = columns if columnar else rows
    first, out_1, _ = keyed(Counter())
    for start in range(0, min(at, len(records)), size):
        first.process(make(records[start : min(start + size, at)]))
    second, out_2, _ = keyed(Counter(), restored=[finished(first.snapshot(1))])
    for start in range(min(at, len(records)), len(records), size):
        second.process(make(records[start : start + size]))
    assert out_1.records + out_2.records == counted(records)


def test_a_snapshot_is_not_changed_by_what_follows() -> None:
    """What is drawn stays what it was, although its bytes are written after further records."""
    records = [{"key": "a", "name": name} for name in "xyzxyz"]
    operator, _, _ = keyed(Counter())
    operator.process(rows(records[:3]))
    pending = operator.snapshot(1)
    operator.process(rows(records[3:]))
    restored, out, _ = keyed(Counter(), restored=[finished(pending)])
    restored.process(rows([{"key": "a", "name": "w"}]))
    assert out.records == [("a", 4, ["x", "y", "z", "w"], dict.fromkeys("xyzw", 1), {"n": 4})]


def test_state_is_restored_by_key_group_from_several_subtasks() -> None:
    """Two old subtasks make three new ones: each key is found where its key group went."""
    keys = [f"k{n}" for n in range(40)]

    def owner(key: str, parallelism: int) -> int:
        group = key_group(key, 128)
        ranges = [key_group_range(128, parallelism, i) for i in range(parallelism)]
        return next(i for i, (first, last) in enumerate(ranges) if first <= group <= last)

    old = []
    for subtask in range(2):
        operator, _, _ = keyed(Counter(), parallelism=2, subtask=subtask)
        mine = [{"key": key, "name": "x"} for key in keys if owner(key, 2) == subtask]
        operator.process(rows(mine))
        old.append(finished(operator.snapshot(1)))
    out = []
    for subtask in range(3):
        operator, main, _ = keyed(Counter(), parallelism=3, subtask=subtask, restored=old)
        operator.process(rows([{"key": key, "name": "y"} for key in keys if owner(key, 3) == subtask]))
        out += [(record[0], record[1]) for record in main.records]
    assert sorted(out) == sorted((key, 2) for key in keys)


class Clockwork(hg.KeyedProcessFunction[str, Any, Any]):
    """Processing-time timers."""

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        for due in record["at"]:
            ctx.timers.register_processing_time(due)
        for due in record.get("not_at", []):
            ctx.timers.delete_processing_time(due)
        yield "record", ctx.timestamp, ctx.timers.now_ms()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.time_domain, ctx.key, timestamp
        if ctx.time_domain == "processing" and timestamp == 30:
            ctx.timers.register_event_time(5)
            ctx.timers.register_processing_time(60)


def test_processing_time_timers_fire_by_the_clock() -> None:
    """They fire in order of time, up to now and no further, once, unless they were deleted."""
    clock = ManualClock(10)
    operator, main, _ = keyed(Clockwork(), clock=clock)
    assert operator.next_processing_time() is None
    operator.process(rows([{"key": "a", "at": [40, 20]}, {"key": "b", "at": [20, 50], "not_at": [50]}]))
    assert operator.next_processing_time() == 20
    operator.fire_processing_time(19)
    assert main.records[2:] == []
    operator.fire_processing_time(40)
    assert main.records[2:] == [("processing", "a", 20), ("processing", "b", 20), ("processing", "a", 40)]
    assert operator.next_processing_time() is None


def test_processing_time_timers_survive_a_restore() -> None:
    """They are state."""
    first, _, _ = keyed(Clockwork())
    first.process(rows([{"key": "a", "at": [20]}]))
    second, main, _ = keyed(Clockwork(), restored=[finished(first.snapshot(1))])
    second.fire_processing_time(20)
    assert main.records == [("processing", "a", 20)]


def test_outputs_of_the_wall_clock_carry_the_event_time_that_was_reached() -> None:
    """On a stream with event time, what a processing-time timer emits is neither late nor early."""
    operator, main, _ = keyed(Clockwork())
    operator.process(rows([{"key": "a", "at": [20]}], [100], [90]))
    operator.fire_processing_time(20)
    assert main.timed()[1:] == [(("processing", "a", 20), 90, 90)]


class Aside(Clockwork):
    """Emits everything twice: to the main output and to a side output."""

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        for output in super().process(record, ctx):
            ctx.side_output(SIDE, output)
            yield output

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        for output in super().on_timer(timestamp, ctx):
            ctx.side_output(SIDE, output)
            yield output


@pytest.mark.parametrize("times", [([100], [90]), (None, None)])
def test_a_side_output_has_the_event_time_of_a_main_output(times: Any) -> None:
    """From records and from timers of both clocks, on streams with and without event time."""
    operator, main, side = keyed(Aside())
    operator.process(rows([{"key": "a", "at": [20, 30]}], *times))
    operator.fire_processing_time(30)
    assert len(main.timed()) == (4 if times[0] else 3)
    assert side.timed() == main.timed()


def test_an_event_time_timer_that_is_due_at_once_fires_right_after_the_call() -> None:
    """Also where the call was a processing-time timer, with no record or watermark to wait for."""
    operator, main, _ = keyed(Clockwork())
    operator.process(rows([{"key": "a", "at": [30]}], [100], [90]))
    operator.fire_processing_time(30)
    assert main.records[1:] == [("processing", "a", 30), ("event", "a", 5)]
    assert operator.next_processing_time() == 60


def test_without_event_time_a_record_has_no_timestamp() -> None:
    """A timer's time does not stick to the records that follow it."""
    operator, main, _ = keyed(Clockwork())
    operator.process(rows([{"key": "a", "at": [20]}]))
    operator.fire_processing_time(20)
    operator.process(rows([{"key": "a", "at": []}]))
    assert main.timed() == [
        (("record", None, 1000), None, None),
        (("processing", "a", 20), None, None),
        (("record", None, 1000), None, None),
    ]


def test_event_time_timers_of_a_stream_without_event_time_fire_at_its_end() -> None:
    """The end of the input is the end of time."""

    class Waiting(Clockwork):
        def process(self, record: Any, ctx: Any) -> Any:
            ctx.timers.register_event_time(record["at"])

    operator, main, _ = keyed(Waiting())
    operator.process(rows([{"key": "a", "at": 7}, {"key": "b", "at": 3}]))
    assert main.records == []
    operator.watermark(WATERMARK_MAX)
    assert main.records == [("event", "b", 3), ("event", "a", 7)]


class Keeper(hg.KeyedProcessFunction[int, Any, Any]):
    """Keeps rows wherever rows can be kept."""

    def open(self, context: Any) -> None:
        self.list: list[Any] = []
        self.closures: list[Any] = []
        self.last: Any = None

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        turn = record.n % 6
        if turn == 0:
            self.list.append(record)
        elif turn == 1:
            self.closures.append(lambda: record.n)
        elif turn == 2:
            yield record
        elif turn == 3:
            ctx.side_output(SIDE, record)
        elif turn == 4:
            self.last = [record]
            yield from (f"{r.n}" for r in [record])


@given(st.integers(1, 60), st.integers(1, 20))
def test_kept_rows_stay_what_they_were(count: int, size: int) -> None:
    """The loop moves one view along the batch; a view that anybody kept is left behind unmoved."""
    function = Keeper()
    operator, main, side = keyed(function, lambda r: r.n)
    records = [{"n": n} for n in range(count)]
    for start in range(0, count, size):
        operator.process(columns(records[start : start + size]))
    by_turn = {turn: [n for n in range(count) if n % 6 == turn] for turn in range(6)}
    assert [row.n for row in function.list] == by_turn[0]
    assert [call() for call in function.closures] == by_turn[1]
    assert [row.n for row in main.records if isinstance(row, Row)] == by_turn[2]
    assert [row.n for row in side.records] == by_turn[3]
    assert [text for text in main.records if isinstance(text, str)] == [str(n) for n in by_turn[4]]


def test_a_row_that_nobody_keeps_is_one_view_for_the_whole_batch() -> None:
    """The point of the moving view: no object per record."""
    seen: list[int] = []

    class Looking(hg.KeyedProcessFunction[Any, Any, Any]):
        def process(self, record: Any, ctx: Any) -> None:
            seen.append(id(record))

    operator, _, _ = keyed(Looking(), "n")
    operator.process(columns([{"n": n} for n in range(50)]))
    assert len(set(seen)) == 1


def test_side_outputs_carry_event_time() -> None:
    """Side outputs of records and timers have the timestamp of their cause and the watermark in force."""

    class Sides(hg.KeyedProcessFunction[str, Any, Any]):
        def process(self, record: Any, ctx: Any) -> None:
            ctx.side_output(SIDE, "record")
            ctx.timers.register_event_time(15)

        def on_timer(self, timestamp: int, ctx: Any) -> None:
            ctx.side_output(SIDE, "timer")

    operator, main, side = keyed(Sides())
    operator.process(rows([{"key": "a"}, {"key": "a"}], [10, 20], [1, 18]))
    assert side.timed() == [("record", 10, 1), ("timer", 15, 14), ("record", 20, 18), ("timer", 15, 18)]
    assert main.batches == []


@pytest.mark.parametrize("result", [("a", 1), "text", b"bytes", {"a": 1}, Row.of(a=1)], ids=repr)
def test_one_record_returned_instead_of_yielded_is_refused(result: Any) -> None:
    """A tuple, text, dict or row that is returned would be taken apart; it is refused with the remedy."""

    class Returning(hg.KeyedProcessFunction[Any, Any, Any]):
        def process(self, record: Any, ctx: Any) -> Any:
            return [record] if record["n"] < 1 else result

    operator, _, _ = keyed(Returning(), "n")
    with pytest.raises(UserFunctionError, match="yield it, or return a list of outputs") as caught:
        operator.process(rows([{"n": 0}, {"n": 1}]))
    assert caught.value.record == "{'n': 1}"


class Failing(hg.KeyedProcessFunction[Any, Any, Any]):
    """Raises for n = 3, from a timer at 13, and by generator for n = 4."""

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        if record["n"] == 3:
            raise LookupError("three")
        return self.generated(record, ctx)

    def generated(self, record: Any, ctx: Any) -> Iterator[Any]:
        yield record["n"]
        if record["n"] == 4:
            raise ArithmeticError("four")
        if record["n"] > 9:
            ctx.timers.register_event_time(record["n"])

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        raise BufferError("thirteen")


@pytest.mark.parametrize("columnar", [True, False], ids=["columns", "rows"])
@pytest.mark.parametrize(("numbers", "bad", "text"), [([1, 2, 3, 5], 3, "three"), ([1, 4, 2], 4, "four")])
def test_errors_name_operator_record_and_attempt(
    columnar: bool, numbers: list[int], bad: int, text: str
) -> None:
    """Name and uid, the very record, the attempt, and the user's frames without Headgate's."""
    operator, _, _ = keyed(Failing(), "n")
    make = columns if columnar else rows
    with pytest.raises(UserFunctionError) as caught:
        operator.process(make([{"n": n} for n in numbers]))
    error = caught.value
    assert error.operator == "operator 'the op' (uid 'op')"
    assert error.record == (f"Row(n={bad})" if columnar else f"{{'n': {bad}}}")
    assert error.attempt == 3
    assert text in error.traceback_text
    assert "src/headgate" not in error.traceback_text
    assert "test_operators_keyed.py" in error.traceback_text


def test_errors_of_timers_name_key_and_time() -> None:
    """A timer has no record; its key and timestamp say which one it was."""
    operator, _, _ = keyed(Failing(), "n")
    with pytest.raises(UserFunctionError, match="thirteen") as caught:
        operator.process(rows([{"n": 13}], [1], [20]))
    assert caught.value.record == "none (timer of key 13 at 13)"


def test_errors_of_a_key_function_are_the_users() -> None:
    """A key function that raises is named with the record that it was given."""
    operator, _, _ = keyed(Counter(), lambda r: r["missing"])
    with pytest.raises(UserFunctionError, match="KeyError: 'missing'") as caught:
        operator.process(rows([{"key": "a", "name": "x"}]))
    assert caught.value.record == "{'key': 'a', 'name': 'x'}"


def test_a_timer_that_is_no_int_is_refused() -> None:
    """Fractions of milliseconds are a mistake of units."""

    class Wrong(Counter):
        def process(self, record: Any, ctx: Any) -> Any:
            ctx.timers.register_event_time(1.5)

    operator, _, _ = keyed(Wrong())
    with pytest.raises(UsageError, match=r"1\.5 of type float"):
        operator.process(rows([{"key": "a"}]))


def test_the_generated_loop_leaves_out_what_is_not_needed() -> None:
    """No states, no times, no views: nothing of them in the text."""
    bare = loop_source(LoopShape(0, 0, False, False))
    for word in ("h0", "b0", "new_row()", "ctx.timestamp =", "queue.interrupt"):
        assert word not in bare
        assert word in loop_source(LoopShape(1, 1, True, True))


def test_timers_without_end_are_refused_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An on_timer that always registers the next timer would never let a bounded input end."""

    class Ticking(hg.KeyedProcessFunction):
        def process(self, record: Any, ctx: Any) -> None:
            ctx.timers.register_event_time(10)

        def on_timer(self, timestamp: int, ctx: Any) -> None:
            ctx.timers.register_event_time(timestamp + 10)

    monkeypatch.setattr("headgate.runtime.worker.operators.keyed_operator.END_TIMERS_MAX", 100)
    harness = OperatorHarness(Ticking(), key="key")
    harness.process({"key": "a"}, timestamp=1)
    with pytest.raises(hg.UsageError, match="timer after timer"):
        harness.advance_watermark(2**63 - 1)
