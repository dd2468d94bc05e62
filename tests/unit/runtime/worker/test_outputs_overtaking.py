"""What a barrier overtakes on its way out: nothing is lost, nothing is in two places, order is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_samples import rows

from headgate.common.ids import EdgeId
from headgate.common.time import WATERMARK_MIN
from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.graph.partitioners import Broadcast, Forward, Rebalance
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.elements import CancelMarker, EndOfData, Idle, Watermark
from headgate.runtime.worker.exchange.output import EdgeEnds, OutputChannel, OutputEdge, Outputs

SIGN = Watermark(WATERMARK_MIN)


class Arrived:
    """A lane whose far end keeps everything."""

    def __init__(self) -> None:
        self.elements: list[Any] = []

    def deliver(self, element: Any) -> None:
        self.elements.append(element)

    @property
    def story(self) -> list[Any]:
        """Records one by one, and events."""
        return told(self.elements)


def told(elements: list[Any]) -> list[Any]:
    """Records one by one, and events."""
    return [each for e in elements for each in (e.rows() if isinstance(e, RowBatch) else [e])]


def over(checkpoint: int) -> Barrier:
    """A barrier that overtakes."""
    return Barrier(checkpoint, 1_000, Alignment.UNALIGNED)


def timed(checkpoint: int) -> Barrier:
    """A barrier that overtakes when it is too old."""
    return Barrier(checkpoint, 1_000, timeout_ms=50)


def edge(number: int, partitioner: Any, receivers: int, credit: int) -> tuple[OutputEdge, list[Arrived]]:
    """An exchange and what arrives."""
    lanes = [Arrived() for _ in range(receivers)]
    ends = EdgeEnds(EdgeId(number), "op", None, f"after-{number}")
    return OutputEdge(partitioner, [OutputChannel(lane, credit) for lane in lanes], 128, ends=ends), lanes


def subtask(*edges: OutputEdge) -> Outputs:
    """A subtask's outputs."""
    outputs = Outputs(10)
    outputs.edges += edges
    return outputs


def fill(channel: OutputChannel, *records: Any) -> None:
    """One frame for each record."""
    for record in records:
        channel.add(rows([record]))
        channel.flush()


def consume(channel: OutputChannel, frames: int) -> None:
    """The receiver takes in one frame after the other."""
    for _ in range(frames):
        channel.grant(1)


def test_a_barrier_goes_past_queued_frames_and_fragments() -> None:
    """What it overtook is told, and leaves later in its old order."""
    one, (lane,) = edge(0, Forward(), 1, credit=1)
    outputs = subtask(one)
    channel = one.channels[0]
    fill(channel, 1, 2, 3)
    channel.add(rows([4]))
    (overtaken,) = outputs.barrier(over(1))
    assert lane.story == [1, over(1)]
    assert told(overtaken.elements) == [2, 3, 4]
    assert (overtaken.ends.receiver, overtaken.receiver) == ("after-0", 0)
    channel.flush()
    consume(channel, 3)
    assert lane.story == [1, over(1), 2, 3, 4]


def test_a_broadcast_edge_keeps_its_order_beside_one_that_is_overtaken() -> None:
    """There the barrier is forced to align: it queues, nothing is taken along, time goes ahead of it."""
    free, (passed,) = edge(0, Forward(), 1, credit=1)
    forced, lanes = edge(1, Broadcast(), 2, credit=1)
    outputs = subtask(free, forced)
    for channel in outputs.channels():
        fill(channel, "a", "b")
    outputs.watermark(70)
    overtaken = outputs.barrier(over(1))
    assert [each.ends.receiver for each in overtaken] == ["after-0"]
    assert told(overtaken[0].elements) == ["b", Watermark(70)]
    assert passed.story == ["a", over(1)]
    for lane, channel in zip(lanes, forced.channels, strict=True):
        assert lane.story == ["a"]
        channel.grant(1)
        assert lane.story == ["a", "b", Watermark(70), over(1).as_forced()]


def test_a_stuck_barrier_is_released_only_where_it_is_stuck() -> None:
    """Of an exchange with one slow receiver only that one's records are taken along."""
    one, (fast, slow) = edge(0, Rebalance(), 2, credit=1)
    outputs = subtask(one)
    fill(one.channels[0], "x")
    fill(one.channels[1], "y", "z")
    outputs.barrier(timed(1))
    assert fast.story == ["x", SIGN, timed(1)]
    assert outputs.holds_barrier(1)
    fill(one.channels[1], "behind")
    released = outputs.release_barrier(1)
    assert [(each.receiver, told(each.elements)) for each in released] == [(0, []), (1, ["z", SIGN])]
    assert fast.story == ["x", SIGN, timed(1)], "one barrier for each receiver"
    assert slow.story == ["y", timed(1).as_unaligned()]
    assert not outputs.holds_barrier(1)
    consume(one.channels[1], 2)
    assert slow.story[2:] == ["z", SIGN, "behind"]


def test_a_barrier_that_is_stuck_on_a_broadcast_edge_is_not_waited_for() -> None:
    """It may never overtake there, so there is nothing to release."""
    forced, (lane,) = edge(0, Broadcast(), 1, credit=1)
    outputs = subtask(forced)
    fill(forced.channels[0], 1, 2)
    outputs.barrier(timed(1))
    assert not outputs.holds_barrier(1)
    assert outputs.release_barrier(1) == []
    forced.channels[0].grant(1)
    assert lane.story[-1].alignment is Alignment.FORCED_ALIGNED


@pytest.mark.parametrize("event", [CancelMarker(7), EndOfData(), timed(6)], ids=lambda e: type(e).__name__)
def test_what_is_of_this_run_only_is_not_taken_along(event: Any) -> None:
    """After a restore an ended sender says so again, and nobody waits for an old checkpoint."""
    one, (lane,) = edge(0, Forward(), 1, credit=1)
    outputs = subtask(one)
    fill(one.channels[0], 1, 2)
    one.channels[0].event(event)
    (overtaken,) = outputs.barrier(over(8))
    assert told(overtaken.elements) == [2]
    one.channels[0].grant(1)
    assert lane.story == [1, over(8), 2, event], "but it is sent all the same"


def test_idleness_under_way_is_taken_along() -> None:
    """Or a restored receiver would wait for the time of a sender that says nothing."""
    one, _ = edge(0, Forward(), 1, credit=1)
    outputs = subtask(one)
    fill(one.channels[0], 1, 2)
    outputs.idle()
    (overtaken,) = outputs.barrier(over(1))
    assert told(overtaken.elements) == [2, SIGN, Idle()]


def test_time_that_was_told_is_not_told_again() -> None:
    """Only a watermark that waits for a flush is under way; an idle sender that wakes up tells it anew."""
    one, _ = edge(0, Forward(), 1, credit=10)
    outputs = subtask(one)
    outputs.watermark(70)
    outputs.barrier(Barrier(1, 0))
    assert outputs.barrier(over(2))[0].elements == []
    outputs.idle()
    outputs.watermark(70)
    assert outputs.barrier(over(3))[0].elements == [Watermark(70)]


def test_an_older_stuck_barrier_does_not_stop_a_newer_one() -> None:
    """It stays in the queue and is stale when it arrives."""
    one, (lane,) = edge(0, Forward(), 1, credit=1)
    outputs = subtask(one)
    fill(one.channels[0], 1, 2)
    outputs.barrier(timed(1))
    fill(one.channels[0], 3)
    outputs.barrier(timed(2))
    (released,) = outputs.release_barrier(2)
    assert told(released.elements) == [2, SIGN, 3]
    consume(one.channels[0], 2)
    assert lane.story == [1, timed(2).as_unaligned(), 2, SIGN, timed(1), 3]


def test_a_pause_holds_the_subtask_although_there_is_credit() -> None:
    """Until the reason is gone, or taken back."""
    one, _ = edge(0, Forward(), 1, credit=1)
    outputs = subtask(one)
    reasons = [True]
    outputs.pause_while(lambda: reasons[0])
    assert not outputs.available
    reasons[0] = False
    assert outputs.available
    reasons[0] = True
    outputs.pause_while(None)
    assert outputs.available


Action = tuple[str, int]
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.integers(0, 1)),
        st.tuples(st.just("add"), st.integers(0, 1)),
        st.tuples(st.just("grant"), st.integers(0, 1)),
    ),
    max_size=25,
)


@given(ACTIONS, ACTIONS, st.booleans())
def test_every_record_is_on_one_side_of_the_cut(
    before: list[Action], after: list[Action], late: bool
) -> None:
    """Arrived before the barrier, or taken along, or emitted behind it: each exactly once, and in order."""
    one, lanes = edge(0, Rebalance(), 2, credit=1)
    outputs = subtask(one)
    emitted: list[list[int]] = [[], []]
    owed = [0, 0]
    number = 0

    def act(name: str, receiver: int) -> None:
        nonlocal number
        channel = one.channels[receiver]
        if name == "grant":
            consumed = sum(isinstance(e, RowBatch) for e in lanes[receiver].elements)
            if consumed > owed[receiver]:
                owed[receiver] += 1
                channel.grant(1)
            return
        number += 1
        emitted[receiver].append(number)
        channel.add(rows([number]))
        if name == "emit":
            channel.flush()

    for action in before:
        act(*action)
    cut = [list(records) for records in emitted]
    barrier = timed(1) if late else over(1)
    overtaken = outputs.barrier(barrier)
    for action in after:
        act(*action)
    if late:
        overtaken += outputs.release_barrier(1)
    for receiver, lane in enumerate(lanes):
        place = next(i for i, e in enumerate(lane.story) if isinstance(e, Barrier))
        arrived = [e for e in lane.story[:place] if isinstance(e, int)]
        taken = [
            record
            for each in overtaken
            if each.receiver == receiver
            for record in told(each.elements)
            if isinstance(record, int)
        ]
        assert arrived + taken == cut[receiver]
        for _ in emitted[receiver]:
            one.channels[receiver].flush()
            if one.channels[receiver].credit.credit == 0:
                one.channels[receiver].grant(1)
        assert [e for e in lane.story if isinstance(e, int)] == emitted[receiver]
        assert sum(isinstance(e, Barrier) for e in lane.story) == 1
