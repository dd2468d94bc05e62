"""A subtask fed by others: alignment, cursor, credit, event time of several channels, ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_samples import finished, rows
from task_samples import Rig, Watching

from headgate.common.errors import InternalError
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.alignment.barriers import SavepointOrder
from headgate.core.alignment.handler_contract import ON_CANCELLATION_BARRIER, SUBSUMED
from headgate.runtime.protocol.elements import Barrier, CancelMarker, EndOfData, Idle, Watermark

SIGN = Watermark(WATERMARK_MIN)


def signed(channels: int, **more: Any) -> Rig:
    """A rig whose channels have all given their first sign."""
    rig = Rig(channels, **more)
    rig.deliver(*[(channel, SIGN) for channel in range(channels)])
    return rig


def cut(rig: Rig, at: int = 0) -> Any:
    """What the snapshot saw."""
    return finished(rig.taken.drawn[at].pending[0]).list_state["seen"]


def test_the_snapshot_holds_exactly_what_stood_before_the_barriers() -> None:
    """Records behind a barrier wait until all barriers are there, and follow the barrier downstream."""
    rig = signed(2)
    rig.deliver((0, rows([1])), (0, Barrier(1, 990)), (0, rows([2])), (1, rows([3])))
    assert rig.taken.drawn == []
    rig.clock.now += 50
    rig.deliver((1, Barrier(1, 990)))
    assert sorted(cut(rig)) == [1, 3]
    assert rig.records[-1] == 2
    rig.outputs.barrier(Barrier(2, 0))
    story = [e.rows() if hasattr(e, "rows") else e for e in rig.lane.elements]
    assert story == [[1, 3], SIGN, Barrier(1, 990), [2], Barrier(2, 0)]
    drawn = rig.taken.drawn[0]
    assert (drawn.checkpoint, drawn.metrics.start_delay_ms, drawn.metrics.alignment_ms) == (1, 10, 50)
    assert drawn.records == (2, 2)


def test_a_subsumed_checkpoint_is_declined_and_cancelled_downstream() -> None:
    """Row D4, as a subtask does it: decline with the reason, marker behind what was emitted."""
    rig = signed(2)
    rig.deliver((0, Barrier(1, 0)), (1, Barrier(2, 0)))
    assert rig.reports.declined == [(1, SUBSUMED)]
    assert CancelMarker(1) in rig.lane.elements
    rig.deliver((0, Barrier(2, 0)))
    assert [drawn.checkpoint for drawn in rig.taken.drawn] == [2]


def test_a_cancel_marker_releases_the_channels_and_goes_on() -> None:
    """Row B9: declined with ON_CANCELLATION_BARRIER, and told to whoever comes next, once."""
    rig = signed(2)
    rig.deliver((0, Barrier(1, 0)), (0, rows([5])), (1, CancelMarker(1)), (1, CancelMarker(1)))
    assert rig.records == [5]
    assert rig.reports.declined == [(1, ON_CANCELLATION_BARRIER)]
    assert rig.lane.elements.count(CancelMarker(1)) == 1


def test_barriers_still_count_on_channels_whose_data_ended() -> None:
    """After the end of the data a channel carries barriers; the final checkpoint needs them all."""
    rig = signed(2)
    rig.deliver((0, Watermark(WATERMARK_MAX)), (0, EndOfData()), (1, rows([1])), (0, Barrier(1, 0)))
    assert rig.taken.drawn == []
    rig.deliver((1, Barrier(1, 0)))
    assert cut(rig) == [1]
    assert rig.reports.ends == 0
    rig.deliver((1, Watermark(WATERMARK_MAX)), (1, EndOfData()))
    assert rig.reports.ends == 1
    assert rig.lane.elements[-2:] == [Watermark(WATERMARK_MAX), EndOfData()]
    rig.deliver((0, Barrier(2, 0)), (1, Barrier(2, 0)))
    assert [drawn.checkpoint for drawn in rig.taken.drawn] == [1, 2]


# -- the cursor


def test_a_long_batch_is_processed_in_steps_and_a_barrier_waits_for_its_end_only() -> None:
    """Steps follow the cost of records; what another channel has waits for the batch, not for its frame."""
    rig = signed(2, cost_ms=1)
    rig.task.budget.records = 4
    rig.task.deliver(0, rows(list(range(10))))
    rig.task.deliver(1, Barrier(1, 0))
    sizes = []
    while rig.task.step():
        sizes.append(len(rig.operator.seen.batches[-1]) if rig.operator.seen.batches else 0)
    assert sizes[0] == 4
    assert rig.records == list(range(10))
    assert rig.task.records_in == 10
    assert rig.taken.drawn == []


def test_credit_goes_back_when_a_batch_is_used_up_not_when_it_came_in() -> None:
    """So a subtask that is slow stops its senders."""
    rig = signed(1, input_credit=2, cost_ms=100)
    rig.task.deliver(0, rows([1, 2, 3]))
    rig.task.budget.records = 1
    rig.task.step()
    assert rig.granted == [0]
    rig.run()
    assert rig.granted == [1]


def test_a_sender_beyond_its_credit_is_refused() -> None:
    """The receiver checks the law, too."""
    rig = Rig(1, input_credit=1)
    rig.task.deliver(0, rows([1]))
    with pytest.raises(InternalError, match="exceeded its credit"):
        rig.task.deliver(0, rows([2]))


def test_a_blocked_output_stops_reading() -> None:
    """Neither records nor events are read while something waits for credit downstream."""
    rig = signed(1, credit=1)
    for n in (1, 2, 3):
        rig.deliver((0, rows([n])), (0, Barrier(n, 0)))
    assert rig.records == [1, 2]
    assert [drawn.checkpoint for drawn in rig.taken.drawn] == [1, 2]
    rig.edge.channels[0].grant(1)
    rig.run()
    assert [drawn.checkpoint for drawn in rig.taken.drawn] == [1, 2, 3]


# -- event time


def test_time_is_the_least_of_all_channels_also_for_records() -> None:
    """A batch that carries a late channel's time beyond the others' is held to theirs, record by record."""
    rig = signed(2)
    rig.deliver((1, Watermark(15)), (0, rows(["a", "b", "c"], [1, 2, 3], [5, 10, 20])))
    assert [entry[2] for entry in rig.operator.seen.timed()] == [5, 10, 15]
    rig.deliver((0, Watermark(25)))
    assert rig.operator.seen.log[-1] == ("watermark", 15)
    rig.deliver((1, Watermark(22)))
    assert rig.operator.seen.log[-1] == ("watermark", 22)


def test_time_does_not_go_back_for_a_slow_channel() -> None:
    """Records of a channel that woke up late carry the time that was reached."""
    rig = signed(2)
    rig.deliver((0, Watermark(50)), (1, Idle()))
    assert rig.operator.seen.log[-1] == ("watermark", 50)
    rig.deliver((1, rows(["late"], [10], [0])))
    assert rig.operator.seen.log[-1] == ("late", 10, 50)


def test_an_idle_channel_counts_again_with_its_first_batch() -> None:
    """From then on it holds back the others' records."""
    rig = signed(2)
    rig.deliver((1, Idle()), (0, rows(["a"], [1], [30])), (1, rows(["b"], [1], [31])))
    assert [entry[2] for entry in rig.operator.seen.timed()] == [30, 30]
    rig.deliver((0, rows(["c"], [1], [90])))
    assert rig.operator.seen.timed()[-1][2] == 31


def test_all_idle_is_told_on() -> None:
    """One active channel is enough to stay awake."""
    rig = signed(2)
    rig.deliver((0, Idle()))
    assert "idle" not in rig.operator.seen.log
    rig.deliver((1, Idle()))
    assert rig.operator.seen.log[-1] == "idle"
    assert rig.lane.elements[-1] == Idle()


def test_with_one_channel_batches_pass_as_they_are() -> None:
    """Nothing is combined where there is nothing to combine."""
    rig = signed(1)
    batch = rows(["a"], [1], [7])
    rig.deliver((0, batch))
    assert rig.operator.seen.batches[0] is batch


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(st.just("idle"), st.integers(0, 12), st.lists(st.integers(0, 12), min_size=1, max_size=4)),
    ),
    max_size=30,
)


@given(STEPS, st.integers(1, 5))
def test_the_operator_never_sees_time_fall(steps: list[tuple[int, Any]], size: int) -> None:
    """Over all channels, batches, steps and idleness, watermarks before records and events never fall."""
    rig = signed(3)
    own = [WATERMARK_MIN] * 3
    for channel, said in steps:
        rig.task.budget.records = size
        if said == "idle":
            rig.deliver((channel, Idle()))
        elif isinstance(said, int):
            own[channel] = max(0, own[channel]) + said
            rig.deliver((channel, Watermark(own[channel])))
        else:
            marks = []
            for rise in said:
                own[channel] = max(0, own[channel]) + rise
                marks.append(own[channel])
            rig.deliver((channel, rows(marks, marks, marks)))
    times = [
        entry[1] if entry[0] == "watermark" else entry[2]
        for entry in rig.operator.seen.log
        if isinstance(entry, tuple)
    ]
    assert times == sorted(times)


class Slow(Watching):
    """Needs some more slices for each watermark, like a keyed operator with many timers."""

    slices = 0

    @property
    def busy(self) -> bool:
        return self.slices > 0

    def go_on(self) -> None:
        self.slices -= 1
        self.life.append("slice")

    def watermark(self, timestamp: int) -> None:
        assert not self.busy
        super().watermark(timestamp)
        self.slices = 2

    def idle(self) -> None:
        assert not self.busy
        super().idle()

    def end_of_data(self) -> None:
        assert not self.busy
        self.life.append("end")
        super().end_of_data()


def slowly(rig: Rig) -> Slow:
    """Replace the rig's operator by one that is slow with watermarks."""
    slow = Slow(rig.clock)
    slow.next = rig.operator.next
    rig.task.operators[:] = [slow]  # type: ignore[index]
    rig.operator = rig.task.head = slow
    return slow


def test_idleness_and_the_end_wait_for_timers_that_are_due() -> None:
    """A head that is still firing takes nothing new, and gets it when it is through."""
    rig = signed(2)
    slow = slowly(rig)
    rig.deliver((0, Watermark(5)), (0, Idle()), (1, Watermark(9)), (1, Idle()))
    assert slow.seen.log == [("watermark", 5), ("watermark", 9), "idle"]
    rig.deliver((0, EndOfData()), (1, EndOfData()))
    assert slow.life[-1] == "end"
    assert slow.life.count("slice") == 6


def test_a_barrier_passes_between_two_slices_of_timers() -> None:
    """It is behind the watermark in its channel, but need not wait until all of its timers have fired."""
    rig = signed(1)
    slow = slowly(rig)
    rig.task.deliver(0, Watermark(5))
    rig.task.step()
    assert slow.busy
    rig.task.deliver(0, Barrier(1, 0))
    rig.task.step()
    assert [drawn.checkpoint for drawn in rig.taken.drawn] == [1]
    assert slow.life.index("snapshot 1") < len(slow.life)
    assert slow.life.count("slice") <= 1


DRAIN = Barrier(1, 0, savepoint=SavepointOrder("file:///s", stop=True, drain=True))


def test_a_barrier_that_drains_waits_until_the_last_timer_has_fired() -> None:
    """What timers emit is before it, and nothing that came behind it overtakes it."""
    rig = signed(2)
    slow = slowly(rig)
    for channel in (0, 1):
        rig.task.deliver(channel, Watermark(WATERMARK_MAX))
        rig.task.deliver(channel, DRAIN)
        rig.task.deliver(channel, Barrier(2, 0))
    rig.run()
    assert slow.life == ["slice", "slice", "snapshot 1", "snapshot 2"]
    assert rig.lane.elements[-2:] == [DRAIN, Barrier(2, 0)]


def test_a_drain_that_is_given_up_meanwhile_is_not_drawn() -> None:
    """Those downstream hear that the barrier will not come."""
    rig = signed(1)
    slow = slowly(rig)
    for element in (Watermark(WATERMARK_MAX), DRAIN):
        rig.task.deliver(0, element)
    rig.task.step()
    rig.task.step()
    assert slow.busy
    rig.task.aborted(1)
    rig.run()
    assert rig.taken.drawn == []
    assert (slow.life, rig.lane.elements[-1]) == (["slice", "slice"], CancelMarker(1))


class Restored:
    """Records in flight of a restored checkpoint, one batch at a time."""

    def __init__(self, *batches: Any) -> None:
        self.batches = list(batches)

    def poll(self) -> Any:
        return (0, self.batches.pop(0), WATERMARK_MIN) if self.batches else None

    def wait_for(self, live: Any) -> None:
        self.live = list(live)

    def seeds(self, channels: Any) -> Any:
        return [(None, False)] * len(channels)


def test_senders_may_begin_when_the_subtask_is_open() -> None:
    """Their credit comes from the receiver, at once where nothing is before them."""
    assert Rig(2, input_credit=4, withheld=True).granted == [4, 4]


def test_nothing_new_comes_in_before_restored_records_are_processed() -> None:
    """Otherwise each restart would add a credit's worth to what is in flight."""
    restored = Restored(rows([1]), rows([2]))
    rig = Rig(2, input_credit=4, withheld=True, recovered=restored)
    assert len(restored.live) == 2  # it knows the channels for which event time has to wait
    assert rig.granted == [0, 0]
    assert rig.task.step()
    assert rig.granted == [0, 0]
    rig.run()
    assert (rig.records, rig.granted) == ([1, 2], [4, 4])
    rig.deliver((0, SIGN), (1, SIGN), (0, rows([3])))
    assert rig.records == [1, 2, 3]
