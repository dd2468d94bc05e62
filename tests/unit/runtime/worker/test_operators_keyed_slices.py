"""Timers fire in slices: the same outputs, times, watermarks and state as in one go, over restores too."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_samples import ManualClock, Recorder, context, finished, opened, rows
from timer_samples import CUTS, RECORDS, Item, Rig, batch_of, items_of

import headgate as hg
from headgate.common.errors import InternalError, UserFunctionError
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.metrics.metric_table import TIMERS_FIRED
from headgate.runtime.worker.operators.keyed_context import STRIDE_MAX, Slice
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.operators.operator_contract import Operator
from headgate.state.snapshots import OperatorSubtaskState
from headgate.testing import OperatorHarness

Steps = list[Any]
"""What an operator is fed: batches, and watermarks as plain ints."""


class SlowRig(Rig):
    """Each of its timers takes 1 ms."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.clock.now += 1
        yield from super().on_timer(timestamp, ctx)


class Alarm(hg.KeyedProcessFunction[str, Any, Any]):
    """Sets the timers that its records name; each takes 1 ms, and 13 is no good."""

    fired: hg.ValueState[int] = hg.value_state(default=0)

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock

    def process(self, record: Any, ctx: Any) -> None:
        for timestamp in record.get("event", []):
            ctx.timers.register_event_time(timestamp)
        for timestamp in record.get("wall", []):
            ctx.timers.register_processing_time(timestamp)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.clock.now += 1
        self.fired.value += 1
        if timestamp == 13:
            raise ValueError("thirteen")
        if ctx.time_domain == "processing":
            ctx.timers.register_event_time(5)
        yield ctx.time_domain, ctx.key, timestamp


def made(function: Callable[[ManualClock], Any], target: int | None, *restored: Any) -> tuple[Any, ...]:
    """An open operator, its main output, its late ones, its clock."""
    clock = ManualClock()
    where = context(clock=clock, restored=list(restored), step_target_ms=target)
    operator = KeyedProcessOperator(where, function(clock), "key")
    main, sides = opened(operator, "late")
    return operator, main, sides["late"], clock


def steps_of(items: list[Item], cuts: list[tuple[int, bool, bool]]) -> Steps:
    """`items` in batches: (size, columnar, whether a watermark follows), then the end of time."""
    steps: Steps = []
    at, plans = 0, itertools.cycle(cuts)
    while at < len(items):
        size, columnar, event = next(plans)
        steps.append(batch_of(items[at : at + size], columnar))
        at += size
        if event and at < len(items):
            steps.append(items[at][2])
    return [*steps, WATERMARK_MAX]


def drive(operator: Operator, steps: Steps, paused: Callable[[Steps], None] = lambda rest: None) -> None:
    """Feed an operator as a subtask does; `paused` gets, between slices, what is not processed yet."""

    def finish(rest: Steps) -> None:
        while operator.busy:
            paused(rest)
            operator.go_on()

    finish(steps)
    for n, step in enumerate(steps):
        if isinstance(step, int):
            operator.watermark(step)
            finish(steps[n + 1 :])
            continue
        rest = step
        while len(rest):
            rest = rest.slice(operator.process_some(rest), len(rest))
            assert operator.busy or not len(rest)
            finish([rest, *steps[n + 1 :]] if len(rest) else steps[n + 1 :])


@settings(max_examples=200)
@given(RECORDS, CUTS, st.integers(0, 4))
def test_slices_change_nothing(drawn: list[Any], cuts: list[tuple[int, bool, bool]], target: int) -> None:
    """Outputs, their times, watermarks between them and the state are those of firing in one go."""
    steps = steps_of(items_of(drawn), cuts)
    whole, main, late, _ = made(SlowRig, None)
    drive(whole, steps, lambda rest: pytest.fail("without a bound nothing is put off"))
    sliced, sliced_main, sliced_late, _ = made(SlowRig, target)
    drive(sliced, steps)
    assert sliced_main.log == main.log
    assert sliced_late.log == late.log
    assert finished(sliced.snapshot(1)) == finished(whole.snapshot(1))


@settings(max_examples=100)
@given(RECORDS, CUTS, st.integers(0, 4))
def test_process_takes_everything(drawn: list[Any], cuts: list[tuple[int, bool, bool]], target: int) -> None:
    """Callers that want no slices within a batch get the same outputs."""
    batches = [step for step in steps_of(items_of(drawn), cuts) if not isinstance(step, int)]
    whole, main, _, _ = made(SlowRig, None)
    sliced, sliced_main, _, _ = made(SlowRig, target)
    for batch in batches:
        whole.process(batch)
        sliced.process(batch)
        assert not sliced.busy
    assert sliced_main.log == main.log


@settings(max_examples=60, deadline=None)
@given(RECORDS, CUTS, st.integers(0, 3))
def test_a_restore_between_any_two_slices_changes_nothing(
    drawn: list[Any], cuts: list[tuple[int, bool, bool]], target: int
) -> None:
    """A snapshot while busy, and the records not yet processed, give each key what it would have got."""
    whole, main, late, _ = made(SlowRig, None)
    steps = steps_of(items_of(drawn), cuts)
    drive(whole, steps)
    first, main_1, late_1, _ = made(SlowRig, target)
    cases: list[Any] = []

    def paused(rest: Steps) -> None:
        state = finished(first.snapshot(1))
        assert state.firing_to is not None
        assert state.watermark is not None
        assert state.watermark <= state.firing_to
        cases.append((state, rest, main_1.timed(), late_1.timed()))

    drive(first, steps, paused)
    for state, rest, main_before, late_before in cases:
        second, main_2, late_2, _ = made(SlowRig, target, state)
        assert second.busy
        drive(second, rest)
        assert by_key(main_before + main_2.timed()) == by_key(main.timed())
        assert by_key(late_before + late_2.timed()) == by_key(late.timed())
        assert in_order(main_before, main_2)
        assert main_2.log[-1] == ("watermark", WATERMARK_MAX)
        assert second.snapshot(2).watermark == WATERMARK_MAX


def by_key(entries: list[Any]) -> dict[str, list[Any]]:
    """What each key gave; a restore may change the order of keys within a timestamp."""
    return {key: [entry for entry in entries if key in entry[0]] for key in "abc"}


def in_order(before: list[Any], after: Recorder) -> bool:
    """Whether watermarks, beside records and by themselves, never fall."""
    marks = [entry[2] for entry in before]
    marks += [entry[1] if entry[0] == "watermark" else entry[2] for entry in after.log]
    return marks == sorted(marks)


def test_a_watermark_waits_for_its_timers() -> None:
    """It is passed on behind the last slice's outputs; a slice's outputs do not wait."""
    operator, main, _, _ = made(Alarm, 2)
    operator.process(rows([{"key": "a", "event": [10, 20, 30, 40, 50]}], [1], [0]))
    operator.watermark(40)
    # The clock is read after the first timer and then after two more.
    assert (main.records, operator.busy) == ([("event", "a", t) for t in (10, 20, 30)], True)
    assert finished(operator.snapshot(1)).watermark == 29
    operator.go_on()
    assert main.log[3:] == [(("event", "a", 40), 40, 39), ("watermark", 40)]
    assert not operator.busy
    operator.go_on()
    assert len(main.log) == 5


def test_a_batch_stops_before_the_record_whose_timers_take_long() -> None:
    """What was processed is told, and the rest is taken when its timers have fired."""
    operator, main, _, _ = made(Alarm, 1)
    batch = rows([{"key": "a", "event": [10, 20]}, {"key": "b"}, {"key": "c"}], [1, 2, 3], [0, 0, 30])
    assert operator.process_some(batch) == 2
    assert main.records == [("event", "a", 10)]
    state = finished(operator.snapshot(1))
    assert (state.watermark, state.firing_to) == (9, 30)
    operator.go_on()
    assert not operator.busy
    assert operator.process_some(batch.slice(2, 3)) == 1
    assert main.log == [(("event", "a", 10), 10, 9), (("event", "a", 20), 20, 19)]


@pytest.mark.parametrize(
    "give",
    [
        lambda op: op.process(rows([{"key": "a"}], [1], [50])),
        lambda op: op.process_some(rows([{"key": "a"}])),
        lambda op: op.watermark(60),
        lambda op: op.idle(),
        lambda op: op.end_of_data(),
    ],
)
def test_input_is_refused_while_timers_wait(give: Callable[[Operator], None]) -> None:
    """It would overtake them."""
    operator, main, _, _ = made(Alarm, 1)
    operator.process(rows([{"key": "a", "event": [10, 20, 30]}], [1], [0]))
    operator.watermark(50)
    with pytest.raises(InternalError, match="timers up to 50 are being fired"):
        give(operator)
    assert len(main.records) == 1


def test_processing_time_timers_fire_a_slice_per_call() -> None:
    """What remains is still due; event-time timers that they register come behind all of them."""
    results = []
    for target in (None, 1, 3):
        operator, main, _, clock = made(Alarm, target)
        clock.now = 100
        setting = {"key": "a", "wall": [20, 30, 30, 40]}, {"key": "b", "wall": [30, 40, 50]}
        operator.process(rows(setting, [1, 1], [7, 7]))
        calls = 0
        while operator.next_processing_time() is not None:
            operator.fire_processing_time(100)
            calls += 1
            drive(operator, [])
        results.append((main.log, finished(operator.snapshot(1))))
        assert calls == {None: 1, 1: 6, 3: 2}[target]
    assert results[1:] == results[:1] * 2
    assert [entry[0][0] for entry in results[0][0]] == ["processing"] * 6 + ["event"] * 2


@pytest.mark.parametrize("target", [None, 1, 3])
def test_fired_and_registered_timers_are_counted(target: int | None) -> None:
    """Those of both domains apart, whatever the slices; registered ones after each look, at the next call."""
    operator, _, _, clock = made(Alarm, target)
    assert set(operator.measured().values()) == {0}
    clock.now = 100
    operator.process(rows([{"key": "a", "wall": [20, 30, 900], "event": [8, 9, 70]}], [1], [7]))
    assert list(operator.measured().values()) == [0, 0, 3, 3]
    while operator.next_processing_time() == 20 or operator.next_processing_time() == 30:
        operator.fire_processing_time(100)
    drive(operator, [])
    # Each of the two registers a timer in event time at 5, which is the same.
    fired = operator.measured()
    assert (fired[TIMERS_FIRED.at("event")], fired[TIMERS_FIRED.at("processing")]) == (1, 2)
    drive(operator, [9])
    operator.measured()
    assert operator.has_spare_work, "nothing may come for a long time"
    operator.do_spare_work()
    assert not operator.has_spare_work
    assert list(operator.measured().values()) == [3, 2, 1, 1]


def test_the_wall_clock_may_be_set_back_between_slices() -> None:
    """Then only what is due by the new time fires."""
    operator, main, _, _ = made(Alarm, 1)
    operator.process(rows([{"key": "a", "wall": [20, 30, 40]}]))
    operator.fire_processing_time(100)
    operator.fire_processing_time(30)
    operator.fire_processing_time(30)
    assert main.records == [("processing", "a", 20), ("processing", "a", 30)]
    assert operator.next_processing_time() == 40


def test_processing_time_goes_on_while_event_time_is_being_fired() -> None:
    """Its outputs carry the mark that was reached, and the order of event time does not change."""
    operator, main, _, _ = made(Alarm, 1)
    operator.process(rows([{"key": "a", "event": [10, 20, 30], "wall": [500]}], [1], [0]))
    operator.watermark(30)
    operator.fire_processing_time(500)
    drive(operator, [])
    assert main.log == [
        (("event", "a", 10), 10, 9),
        (("processing", "a", 500), 9, 9),
        (("event", "a", 5), 5, 9),
        (("event", "a", 20), 20, 19),
        (("event", "a", 30), 30, 29),
        ("watermark", 30),
    ]


def test_timers_without_end_are_counted_over_the_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice is no fresh start for an on_timer that always registers the next timer."""

    class Ticking(Alarm):
        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield from super().on_timer(timestamp, ctx)
            ctx.timers.register_event_time(timestamp + 10)

    monkeypatch.setattr("headgate.runtime.worker.operators.keyed_operator.END_TIMERS_MAX", 100)
    operator, main, _, _ = made(Ticking, 10)
    operator.process(rows([{"key": "a", "event": [20]}], [1], [0]))
    with pytest.raises(hg.UsageError, match="timer after timer"):
        drive(operator, [WATERMARK_MAX])
    # The allowed ones and the one that was set; the last slice's outputs are lost with the failure.
    assert 80 < len(main.records) <= 101


def test_errors_of_a_later_slice_name_key_and_timer() -> None:
    """As they do in the first."""
    operator, _, _, _ = made(Alarm, 1)
    operator.process(rows([{"key": "a", "event": [11, 12, 13]}], [1], [0]))
    operator.watermark(50)
    with pytest.raises(UserFunctionError, match="thirteen") as caught:
        drive(operator, [])
    assert caught.value.record == "none (timer of key 'a' at 13)"


@pytest.mark.parametrize(
    ("states", "mark", "target"),
    [
        ([], WATERMARK_MIN, None),
        ([(None, None)], WATERMARK_MIN, None),
        ([(10, None)], 10, None),
        ([(10, 30)], 10, 30),
        ([(10, 30), (20, None)], 10, 20),
        ([(10, 30), (20, 25)], 10, 25),
        ([(10, 30), (10, None)], 10, None),
        ([(10, 30), (None, None)], 10, 30),
        ([(10, None), (20, 40)], 10, None),
        ([(10, 10)], 10, None),
    ],
)
def test_several_states_are_restored_to_what_all_had_reached(
    states: list[tuple[int | None, int | None]], mark: int, target: int | None
) -> None:
    """The mark is the least of theirs; so is what they were firing to, if that is further."""
    restored = [OperatorSubtaskState("op", None, watermark=at, firing_to=to) for at, to in states]
    operator, main, _, _ = made(Alarm, 1, *restored)
    pending = operator.snapshot(1)
    assert (pending.watermark, pending.firing_to) == (mark, target)
    assert operator.busy is (target is not None)
    drive(operator, [])
    assert main.log == ([] if target is None else [("watermark", target)])


def test_timers_that_wait_behind_the_mark_fire_first_after_a_restore() -> None:
    """They are due by what was reached, without anything to come."""
    first, main, _, _ = made(Alarm, 1)
    first.process_some(rows([{"key": "a", "event": [5, 6]}], [20], [10]))
    assert main.records == [("event", "a", 5)]
    state = finished(first.snapshot(1))
    assert (state.watermark, state.firing_to) == (10, 10)
    second, main, _, _ = made(Alarm, 1, state)
    drive(second, [])
    assert main.log == [(("event", "a", 6), 6, 10)]


def test_the_harness_fires_the_rest_of_a_snapshot() -> None:
    """What production would do before any input has happened when `restore` returns."""
    operator, _, _, _ = made(Alarm, 1)
    operator.process(rows([{"key": "a", "event": [-30, -20, -10]}], [-50], [-60]))
    operator.watermark(0)
    stored = msgspec.msgpack.encode(finished(operator.snapshot(1)))
    harness = OperatorHarness.restore(Alarm(ManualClock()), stored, key="key")
    assert harness.take() == [("event", "a", -20), ("event", "a", -10)]
    assert (harness.watermark, harness.state("fired", "a")) == (0, 3)


def test_other_operators_are_never_busy() -> None:
    """They take whole batches."""
    operator = Operator(context())
    main, _ = opened(operator)
    assert operator.process_some(rows([1, 2, 3])) == 3
    operator.go_on()
    assert (main.records, operator.busy) == ([1, 2, 3], False)


class CountingClock(ManualClock):
    """Counts how often it is asked."""

    asked = 0

    def precise_ms(self) -> float:
        self.asked += 1
        return super().precise_ms()


def fire(time: Slice, count: int, each: Callable[[], None]) -> int:
    """Fire up to `count` timers; gives how many fit the slice, which the slice knows, too."""
    for n in range(count):
        assert time.fired == n
        each()
        time.left -= 1
        if not time.left and time.over():
            assert time.fired == n + 1
            return n + 1
    assert time.fired == count
    return count


def test_cheap_timers_do_not_pay_for_the_clock() -> None:
    """It is asked every STRIDE_MAX timers, after a few questions more at the beginning."""
    clock = CountingClock()
    assert fire(Slice(clock, 10), 1_600, lambda: None) == 1_600
    assert clock.asked <= 1_600 / STRIDE_MAX + 5


@pytest.mark.parametrize(("cost", "fired"), [(50, 1), (10, 1), (4, 3), (1, 15)])
def test_expensive_timers_end_a_slice_soon(cost: int, fired: int) -> None:
    """After the first, should that have been enough, and in no case much later than wanted."""
    clock = ManualClock()

    def each() -> None:
        clock.now += cost

    assert fire(Slice(clock, 10), 1_600, each) == fired


def test_without_a_bound_the_clock_is_not_asked() -> None:
    """A slice without end costs nothing."""
    clock = CountingClock()
    assert fire(Slice(clock, None), 100, lambda: None) == 100
    assert clock.asked == 0
