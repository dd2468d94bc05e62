"""The operator harness: what a test of one function sees is what production does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import headgate as hg
from headgate.testing import ManualClock, OperatorHarness

LATE = hg.OutputTag[Any]("late")


class Streak(hg.KeyedProcessFunction[str, dict, tuple]):
    """Counts per key, and says when 30 ms of event time passed."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[int] = hg.list_state()
    by_kind: hg.MapState[str, int] = hg.map_state()

    def process(self, record: dict, ctx: Any) -> Iterable[tuple]:
        self.count.value += 1
        if ctx.timestamp is None:
            ctx.timers.register_processing_time(ctx.timers.now_ms() + 100)
        elif ctx.timestamp <= ctx.timers.current_watermark:
            ctx.side_output(LATE, record["n"])
        else:
            self.seen.add(record["n"])
            self.by_kind.put("on time", self.count.value)
            ctx.timers.register_event_time(ctx.timestamp + 30)
        yield ctx.key, self.count.value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[tuple]:
        yield ctx.key, ctx.time_domain, timestamp


class Split(hg.ProcessFunction[int, int]):
    """Even numbers to the main output, the others to the side."""

    opened = closed = False

    def open(self, context: Any) -> None:
        self.opened = True

    def process(self, record: int, ctx: Any) -> Iterable[int]:
        if record % 2:
            ctx.side_output(hg.OutputTag("odd"), record)
            return []
        return [record]

    def close(self) -> None:
        self.closed = True


def test_outputs_come_once() -> None:
    """take() gives what came since the last call; outputs keeps what was not taken."""
    harness = OperatorHarness(Streak(), key="user")
    harness.process({"user": "ada", "n": 1}, timestamp=5)
    assert harness.outputs == [("ada", 1)]
    assert harness.take() == [("ada", 1)]
    assert harness.take() == harness.outputs == []


def test_event_time_timers_fire_with_the_watermark() -> None:
    """A timer fires when the watermark reaches it, not before and only once; time never goes back."""
    harness = OperatorHarness(Streak(), key="user")
    harness.process({"user": "ada", "n": 1}, timestamp=5)
    assert harness.timers() == [(35, "ada")]
    harness.take()
    harness.advance_watermark(34)
    assert harness.take() == []
    harness.advance_watermark(35)
    assert harness.take() == [("ada", "event", 35)]
    harness.advance_watermark(20)
    assert (harness.watermark, harness.take()) == (35, [])


def test_processing_time_is_moved_by_hand() -> None:
    """Processing-time timers fire when the clock is set, and outputs of a stream without time have none."""
    harness = OperatorHarness(Streak(), key="user", clock=ManualClock(now_ms=1_000))
    harness.process({"user": "bob", "n": 1})
    harness.take()
    harness.set_processing_time(1_099)
    assert harness.take() == []
    harness.set_processing_time(1_100)
    assert harness.take() == [("bob", "processing", 1_100)]
    assert harness.timers("processing") == []


def test_side_outputs() -> None:
    """Side outputs are kept by tag; one that was never used is empty."""
    harness = OperatorHarness(Streak(), key="user")
    harness.advance_watermark(100)
    harness.process({"user": "ada", "n": 7}, timestamp=5)
    assert harness.side_outputs(LATE) == harness.side_outputs("late") == [7]
    assert harness.side_outputs("other") == []


def test_state_can_be_looked_at() -> None:
    """state() shows each kind of state, gives the empty one for an unknown key, and hands out copies."""
    harness = OperatorHarness(Streak(), key="user")
    harness.process_batch([{"user": "ada", "n": 1}, {"user": "ada", "n": 2}], [5, 6])
    found = [harness.state(name, "ada") for name in ("count", "seen", "by_kind")]
    assert found == [2, [1, 2], {"on time": 2}]
    assert [harness.state(name, "bob") for name in ("count", "seen", "by_kind")] == [0, [], {}]
    harness.state("seen", "ada").append(3)
    assert harness.state("seen", "ada") == [1, 2]
    with pytest.raises(hg.UsageError, match="declares 'count', 'seen', 'by_kind'"):
        harness.state("total", "ada")


def test_snapshot_and_restore() -> None:
    """A snapshot holds state, timers and watermark as of its moment, and gives them to a new function."""
    harness = OperatorHarness(Streak(), key="user")
    harness.process({"user": "ada", "n": 1}, timestamp=5)
    harness.advance_watermark(10)
    snapshot = harness.snapshot()
    harness.process({"user": "ada", "n": 2}, timestamp=11)
    later = OperatorHarness.restore(Streak(), snapshot, key="user")
    assert isinstance(snapshot, bytes)
    assert (later.state("count", "ada"), later.timers(), later.watermark) == (1, [(35, "ada")], 10)
    later.advance_watermark(50)
    assert later.take() == [("ada", "event", 35)]


def test_process_functions_have_no_key() -> None:
    """A ProcessFunction is opened, fed and closed; it needs no key and has no state."""
    function = Split()
    harness = OperatorHarness(function)
    harness.process_batch([1, 2, 3, 4])
    harness.close()
    assert (harness.take(), harness.side_outputs("odd")) == ([2, 4], [1, 3])
    assert (harness.function.opened, harness.function.closed, function.opened) == (True, True, False)
    assert OperatorHarness.restore(Split(), harness.snapshot()).take() == []
    with pytest.raises(hg.UsageError, match="declares no state"):
        harness.state("count", 1)


def test_errors_of_the_function_are_shown_as_in_a_job() -> None:
    """What the function raises comes as UserFunctionError with the record."""
    harness = OperatorHarness(Split())
    with pytest.raises(hg.UserFunctionError, match=r"Split.*raised TypeError.*record 'x'"):
        harness.process("x")


@pytest.mark.parametrize(
    ("function", "key", "message"),
    [
        (Streak(), None, "needs key="),
        (Split(), "user", "no KeyedProcessFunction"),
        (len, None, "expected a KeyedProcessFunction"),
    ],
)
def test_wrong_use_is_refused(function: Any, key: Any, message: str) -> None:
    """A harness that could not work says why."""
    with pytest.raises(hg.UsageError, match=message):
        OperatorHarness(function, key=key)


def test_each_record_needs_its_timestamp() -> None:
    """Records and timestamps come in pairs."""
    harness = OperatorHarness(Split())
    with pytest.raises(ValueError, match="2 records and 1 timestamps"):
        harness.process_batch([1, 2], [5])
    harness.process_batch([])
    assert harness.take() == []


def test_the_clock_only_moves_by_hand() -> None:
    """The wall clock may be set back, the monotonic one never goes back."""
    clock = ManualClock(now_ms=100)
    clock.set(50)
    assert (clock.now_ms(), clock.monotonic_ms(), clock.precise_ms()) == (50, 0, 0.0)
    clock.set(80)
    clock.advance(5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (85, 35)
    with pytest.raises(ValueError, match="advance by -1 ms"):
        clock.advance(-1)
