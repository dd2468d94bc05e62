"""Which records a worker follows, what it notes of them, and what a barrier does to them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from operator_samples import rows
from task_samples import TASK, ManualClock, Rig, Watching

from headgate.common.ids import EdgeId
from headgate.common.time import WATERMARK_MIN
from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.graph.partitioners import Broadcast, Rebalance
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.elements import Trace, Watermark
from headgate.runtime.protocol.message_codec import decode_from_worker, encode_message
from headgate.runtime.protocol.messages import Traced
from headgate.runtime.protocol.trace_numbers import is_of
from headgate.runtime.protocol.visits import Visit
from headgate.runtime.worker.exchange.output import EdgeEnds, EdgeReceiver, OutputChannel, OutputEdge, Outputs
from headgate.runtime.worker.exchange.record_traces import PAUSE_MS, VISITS_MAX, RecordTraces
from headgate.runtime.worker.task.traced_call import TracedCall

CAME = Trace(7 << 48, 3, 0)


def traces(every: int = 10, number: int = 7) -> tuple[RecordTraces, ManualClock]:
    """One record in `every`."""
    clock = ManualClock(1_000)
    made = RecordTraces(clock, 2)
    made.wanted(number, every)
    return made, clock


def test_one_record_in_so_many_is_followed_and_not_too_often() -> None:
    """Counted over batches, for each subtask apart; and its place is in the batch."""
    made, clock = traces(every=10)
    assert made.begin("a", 9) is None
    assert made.begin("b", 9) is None
    place = made.begin("a", 4)
    assert place is not None
    assert 0 <= place < 4
    assert made.begin("a", 1_000) is None
    clock.now += int(PAUSE_MS)
    assert made.begin("a", 1) == 0


def test_numbers_differ_and_tell_their_tracing() -> None:
    """Of visits over workers and attempts, of ways over tracings."""
    found = set()
    for slot in (0, 1):
        for attempt in (1, 2):
            made = RecordTraces(ManualClock(0), slot)
            made.attempt = attempt
            found |= {made.number() for _ in range(100)}
    assert len(found) == 400
    one, _ = traces(number=7)
    assert is_of(one.trace_number(), 7)
    assert not is_of(one.trace_number(), 8)
    assert one.trace_number() < 1 << 63


def test_only_so_many_visits_wait_for_a_heartbeat() -> None:
    """The oldest are dropped; what was taken is not told again."""
    made, _ = traces()
    for number in range(VISITS_MAX + 3):
        made.ended(Visit(1, number, 0, 0, 0, 0, 0, 0, "", [], []))
    assert [visit.number for visit in made.take()] == list(range(3, VISITS_MAX + 3))
    assert made.take() == []


def followed(rig: Rig) -> list[Visit]:
    """The visits that a rig's task has noted."""
    return rig.task._traces.take()


def test_the_first_record_behind_the_event_is_followed() -> None:
    """By itself; the others come after it, in their order, and one visit is noted."""
    rig = Rig(1)
    rig.deliver((0, Watermark(WATERMARK_MIN)), (0, CAME), (0, rows([1, 2, 3])), (0, rows([4])))
    assert rig.records == [1, 2, 3, 4]
    (visit,) = followed(rig)
    assert (visit.trace, visit.sender, visit.record) == (CAME.number, CAME.sender, "1")
    assert [step.records for step in visit.steps] == [1]
    assert [(exchange.edge, exchange.receiver) for exchange in visit.sent] == [(int(rig.edge.ends.edge), 0)]
    rig.outputs.barrier(Barrier(9, 0))
    events = [each for each in rig.lane.elements if isinstance(each, Trace)]
    assert [(event.number, event.sender) for event in events] == [(CAME.number, visit.number)]
    at = rig.lane.elements.index(events[0])
    after = [each.rows()[0] for each in rig.lane.elements[at:] if isinstance(each, RowBatch)]
    assert after[0] == 1


def test_the_event_is_not_stored_with_records_in_flight() -> None:
    """Neither what waits at the sender nor what waits at the receiver has it; the records are all there."""
    lane: list[Any] = []

    class Lane:
        def deliver(self, element: Any) -> None:
            lane.append(element)

    outputs = Outputs(10)
    edge = OutputEdge(Rebalance(), [OutputChannel(Lane(), 1)], 128, ends=EdgeEnds(EdgeId(0), "a", None, "b"))
    outputs.edges.append(edge)
    channel = edge.channels[0]
    for n in range(3):
        channel.add(rows([n]))
        channel.event(Trace(1, n, 0))
    (overtaken,) = outputs.barrier(Barrier(1, 1_000, Alignment.UNALIGNED))
    assert [each.rows() for each in overtaken.elements] == [[1], [2]]


@pytest.mark.parametrize(("partitioner", "reached"), [(Broadcast(), [0, 1]), (Rebalance(), [0])])
def test_each_subtask_that_gets_a_record_gets_the_event_before_it(
    partitioner: Any, reached: list[int]
) -> None:
    """And turns of an exchange go on as if nothing had been traced."""
    lanes: list[list[Any]] = [[], []]

    class Lane:
        def __init__(self, at: int) -> None:
            self.at = at

        def deliver(self, element: Any) -> None:
            lanes[self.at].append(element)

    outputs = Outputs(10)
    edge = OutputEdge(partitioner, [OutputChannel(Lane(at), 9) for at in (0, 1)], 128)
    outputs.edges.append(edge)
    operator = Watching(ManualClock(0), 0)
    operator.next = before = EdgeReceiver(outputs, [edge], True)
    made, _ = traces()
    call = TracedCall(TASK, [operator], 0, rows(["x"]), None, made)
    assert call.run(operator.process_some) == 1
    call.file()
    assert operator.next is before
    (visit,) = made.take()
    assert [exchange.receiver for exchange in visit.sent] == reached
    assert visit.sender == 0
    for channel in outputs.channels():
        channel.flush()
    for at, lane in enumerate(lanes):
        kinds = [type(each) for each in lane]
        assert kinds == ([Trace, RowBatch] if at in reached else [])
    assert outputs.records_out == 1
    assert edge.turn == (1 if isinstance(partitioner, Rebalance) else 0)


def test_the_chain_is_as_before_where_a_call_raises() -> None:
    """A function that fails on a traced record fails the job as on any other."""
    operator = Watching(ManualClock(0), 0)
    operator.next = before = EdgeReceiver(Outputs(10), [], True)
    made, _ = traces()

    def fails(_: Any) -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        TracedCall(TASK, [operator], 0, rows(["x"]), None, made).run(fails)
    assert operator.next is before
    assert made.take() == []


class Hostile:
    """A record whose text is half a character."""

    def __repr__(self) -> str:
        return "\ud800" + "x" * 1_000


class Text(str):
    """A text that is none for MessagePack."""


class Named:
    def __repr__(self) -> str:
        return Text("named")


class Broken:
    def __repr__(self) -> str:
        raise ValueError("no text")


FAR = pa.record_batch([pa.array([2**60], pa.timestamp("us"))], names=["t"])


@pytest.mark.parametrize(
    "batch",
    [rows([Hostile()]), rows([Named()]), rows([Broken()]), ArrowBatch(FAR)],
    ids=["half a character", "a class of texts", "no text", "a time that Python has not"],
)
def test_any_record_can_be_told(batch: Any) -> None:
    """Whatever its text is, or whether it has one: neither the job nor a heartbeat may fail of it."""
    operator = Watching(ManualClock(0), 0)
    operator.next = EdgeReceiver(Outputs(10), [], True)
    made, _ = traces()
    call = TracedCall(TASK, [operator], 0, batch, None, made)
    call.run(lambda _: 1)
    call.file()
    (visit,) = made.take()
    assert 0 < len(visit.record) <= 220
    assert decode_from_worker(encode_message(Traced(1, [visit]))) == Traced(1, [visit])


class LeavingOut(Watching):
    """Leaves every record out, and passes its event time on."""

    def process(self, batch: Any) -> None:
        self.next.watermark(5)


class AtWatermarks(Watching):
    """Emits when event time moves, such as what was added up before."""

    def watermark(self, timestamp: int) -> None:
        self.next.process(rows(["kept before"]))


def test_what_comes_of_event_time_alone_passes_and_is_not_the_records() -> None:
    """An operator that has not got the record may emit meanwhile, as another has moved event time."""
    first, second = LeavingOut(ManualClock(0), 0), AtWatermarks(ManualClock(0), 0)
    outputs = Outputs(10)
    first.next, second.next = second, EdgeReceiver(outputs, [], True)
    made, _ = traces()
    call = TracedCall(TASK, [first, second], 0, rows(["x"]), None, made)
    call.run(first.process)
    call.file()
    (visit,) = made.take()
    assert outputs.records_out == 1
    assert [step.records for step in visit.steps] == [0]
    assert visit.sent == []
