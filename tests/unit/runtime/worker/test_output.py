"""What a subtask sends: who gets what, when it leaves, what credit holds back, and in which order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_samples import columns, context, rows

from headgate.common.errors import UsageError, UserFunctionError
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.graph.partitioners import Broadcast, ByKeyGroup, Forward, Rebalance
from headgate.records.arrow_batch import ArrowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Barrier, CancelMarker, EndOfData, Idle, Watermark
from headgate.runtime.worker.exchange.output import (
    FRAME_ROWS,
    EdgeReceiver,
    OutputChannel,
    OutputEdge,
    Outputs,
)

TIMEOUT_MS = 10
FIRST = Watermark(WATERMARK_MIN)


class Arrived:
    """A lane whose far end keeps everything."""

    def __init__(self) -> None:
        self.elements: list[Any] = []

    def deliver(self, element: Any) -> None:
        self.elements.append(element)

    @property
    def records(self) -> list[Any]:
        """Records alone, in order."""
        return [record for e in self.elements if hasattr(e, "rows") for record in e.rows()]

    @property
    def story(self) -> list[Any]:
        """Records one by one, and events."""
        return [r for e in self.elements for r in (e.rows() if hasattr(e, "rows") else [e])]


def exchange(
    partitioner: Any, receivers: int = 1, credit: int = 1_000_000, first: int = 0, **more: Any
) -> tuple[OutputEdge, list[Arrived]]:
    """An exchange and what arrives on its channels."""
    lanes = [Arrived() for _ in range(receivers)]
    channels = [OutputChannel(lane, credit) for lane in lanes]
    return OutputEdge(partitioner, channels, 128, first, **more), lanes


def subtask(*edges: OutputEdge) -> tuple[Outputs, EdgeReceiver]:
    """A subtask's outputs and the end of its chain."""
    outputs = Outputs(TIMEOUT_MS)
    outputs.edges += edges
    return outputs, EdgeReceiver(outputs, edges, True)


# -- who gets what


@given(
    st.lists(st.one_of(st.integers(-5, 50), st.text(max_size=3)), min_size=1, max_size=60),
    st.integers(1, 7),
    st.lists(st.integers(1, 20), min_size=1, max_size=3),
)
def test_by_key_a_record_goes_where_its_key_group_is(
    keys: list[Any], receivers: int, sizes: list[int]
) -> None:
    """Equal to the scalar key group, in order, none lost, none twice - for any batch size and parallelism."""
    edge, lanes = exchange(ByKeyGroup("k"), receivers)
    outputs, end = subtask(edge)
    records, at = [{"k": key, "n": n} for n, key in enumerate(keys)], 0
    while at < len(records):
        size = sizes[at % len(sizes)]
        end.process(rows(records[at : at + size], *[range(at, min(at + size, len(records)))] * 2))
        at += size
    outputs.barrier(Barrier(1, 0))
    for index, lane in enumerate(lanes):
        first, last = key_group_range(128, receivers, index)
        assert lane.records == [r for r in records if first <= key_group(r["k"], 128) <= last]
        times = [t for e in lane.elements if hasattr(e, "rows") for t in e.timestamps.tolist()]
        assert times == [r["n"] for r in lane.records]
    assert outputs.records_out == len(records)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=50), st.integers(1, 5))
def test_columns_and_rows_are_shared_out_alike(numbers: list[int], receivers: int) -> None:
    """The vectorised exchange sends each record where the scalar one does, and leaves it in its columns."""
    results = []
    for make in (columns, rows):
        edge, lanes = exchange(ByKeyGroup("k"), receivers)
        outputs, end = subtask(edge)
        end.process(make([{"k": n} for n in numbers]))
        outputs.barrier(Barrier(1, 0))
        results.append([[r["k"] for r in lane.records] for lane in lanes])
        frames = [e for lane in lanes for e in lane.elements if hasattr(e, "rows")]
        assert all(isinstance(frame, ArrowBatch) == (make is columns) for frame in frames)
    assert results[0] == results[1]


def test_a_key_function_that_raises_names_the_keyed_operator_and_the_record() -> None:
    """Keys are read by the sender, but it is the receiving operator's key_by that is wrong."""
    edge, _ = exchange(ByKeyGroup(lambda r: r["k"].lower()), 2, receiver=context("counts"))
    for make in (rows, columns):
        with pytest.raises(UserFunctionError, match="'NoneType' object has no attribute 'lower'") as caught:
            edge.process(make([{"k": "A"}, {"k": None}]))
        assert caught.value.operator == "operator 'the counts' (uid 'counts')"
        assert "None" in caught.value.record
    edge, _ = exchange(ByKeyGroup("k"), 2, receiver=context("counts"))
    with pytest.raises(UsageError, match=r"names 'k', but a record is \{'other': 1\}"):
        edge.process(rows([{"k": "A"}, {"other": 1}]))


def test_broadcast_gives_everything_to_everybody() -> None:
    """In order."""
    edge, lanes = exchange(Broadcast(), 3)
    outputs, end = subtask(edge)
    end.process(rows([1, 2]))
    end.process(rows([3]))
    outputs.barrier(Barrier(1, 0))
    assert [lane.records for lane in lanes] == [[1, 2, 3]] * 3
    assert outputs.records_out == 3


@given(st.integers(1, 6), st.integers(0, 5), st.integers(1, 40))
def test_rebalance_is_even_to_one_batch(receivers: int, first: int, batches: int) -> None:
    """Receivers take turns batch by batch, beginning with the sender's own number."""
    edge, lanes = exchange(Rebalance(), receivers, first=first)
    outputs, end = subtask(edge)
    for n in range(batches):
        end.process(rows([n]))
    outputs.barrier(Barrier(1, 0))
    counts = [len(lane.records) for lane in lanes]
    assert max(counts) - min(counts) <= 1
    assert sorted(r for lane in lanes for r in lane.records) == list(range(batches))
    assert lanes[first % receivers].records[0] == 0


def test_several_exchanges_each_get_everything_and_side_outputs_only_theirs() -> None:
    """Two consumers of one output, and one of a side output; events go to all of them, once."""
    one, (a,) = exchange(Forward())
    two, (b,) = exchange(Forward())
    side, (c,) = exchange(Forward())
    outputs = Outputs(TIMEOUT_MS)
    outputs.edges += [one, two, side]
    main, aside = EdgeReceiver(outputs, [one, two], True), EdgeReceiver(outputs, [side], False)
    main.process(rows([1]))
    aside.process(rows([2]))
    for receiver in (main, aside):
        receiver.watermark(5)
        receiver.end_of_data()
    for lane, record in ((a, 1), (b, 1), (c, 2)):
        assert lane.story == [record, Watermark(5), EndOfData()]


# -- when it leaves


def test_records_wait_for_company_until_the_timeout() -> None:
    """Nothing leaves before the flush timeout, everything after it, once."""
    edge, (lane,) = exchange(Forward())
    outputs, end = subtask(edge)
    end.process(rows([1]))
    outputs.note_step(100)
    end.process(rows([2]))
    outputs.note_step(105)
    assert outputs.next_flush == 110
    outputs.flush_due(109)
    assert lane.elements == []
    outputs.flush_due(110)
    assert lane.story == [1, 2, FIRST]
    assert len(lane.elements) == 2
    assert outputs.next_flush is None
    outputs.note_step(120)
    assert outputs.next_flush is None


def test_a_full_frame_does_not_wait() -> None:
    """Enough rows or enough bytes leave at once."""
    edge, (lane,) = exchange(Forward())
    _, end = subtask(edge)
    end.process(rows(list(range(FRAME_ROWS - 1))))
    assert lane.elements == []
    end.process(rows([0]))
    assert [len(e) for e in lane.elements] == [FRAME_ROWS]
    end.process(columns([{"text": "x" * 600_000}]))
    assert len(lane.elements) == 2


@pytest.mark.parametrize(
    "records",
    [
        ["x" * 20_000 for _ in range(2_000)],
        [{"text": "x" * 20_000, "n": n} for n in range(2_000)],
        [(n, ["x" * 2_000] * 10) for n in range(2_000)],
    ],
    ids=["text", "dict", "nested"],
)
@pytest.mark.parametrize("shape", ["rows", "columns", "views"])
def test_frames_of_large_records_stay_far_below_the_limit(records: list[Any], shape: str) -> None:
    """A frame is cut by bytes, not only by rows: the receiver would refuse tens of megabytes in one."""
    if shape != "rows":
        batch: Any = columns([r if isinstance(r, dict) else {"r": str(r)} for r in records])
        batch = rows(batch.rows()) if shape == "views" else batch
    else:
        batch = rows(records)
    edge, (lane,) = exchange(Forward())
    outputs, end = subtask(edge)
    end.process(batch)
    outputs.barrier(Barrier(1, 0))
    frames = lane.elements[:-2]
    assert lane.records == list(batch.rows())
    assert 10 <= len(frames) <= 60
    codec = ElementCodec()
    for frame in frames:
        assert sum(len(bytes(part)) for part in codec.encode(frame)[1]) < 8_000_000


def test_frames_keep_shapes_schemas_and_times_apart() -> None:
    """Fragments are joined only with their like; the order stays."""
    edge, (lane,) = exchange(Forward())
    outputs, end = subtask(edge)
    timed = rows([3], [1], [0])
    for batch in (
        rows([1]),
        rows([2]),
        timed,
        *(columns([{k: n}]) for n, k in ((4, "a"), (5, "a"), (6, "b"))),
    ):
        end.process(batch)
    outputs.barrier(Barrier(1, 0))
    assert [len(e) for e in lane.elements[:-2]] == [2, 1, 2, 1]
    assert [r if isinstance(r, int) else r[0] for r in lane.records] == [1, 2, 3, 4, 5, 6]


def test_the_first_sign_goes_out_even_if_it_says_nothing() -> None:
    """A subtask without records or time still speaks after the timeout, on every channel; but once."""
    edge, lanes = exchange(Broadcast(), 2)
    outputs, _ = subtask(edge)
    outputs.note_step(0)
    outputs.flush_due(TIMEOUT_MS)
    outputs.note_step(20)
    assert outputs.next_flush is None
    assert [lane.elements for lane in lanes] == [[FIRST]] * 2


def test_time_is_told_once_per_flush_and_only_when_it_moved() -> None:
    """Watermarks are gathered like records; a repeated or older one says nothing."""
    edge, (lane,) = exchange(Forward())
    outputs, _ = subtask(edge)
    for mark in (1, 5, 3):
        outputs.watermark(mark)
    outputs.note_step(0)
    outputs.flush_due(TIMEOUT_MS)
    outputs.watermark(5)
    outputs.note_step(20)
    assert outputs.next_flush is None
    outputs.watermark(6)
    outputs.note_step(30)
    outputs.flush_due(40)
    assert lane.elements == [Watermark(5), Watermark(6)]


@pytest.mark.parametrize("event", ["barrier", "end_of_data", "idle", "cancel"])
def test_control_events_stand_behind_what_came_before(event: str) -> None:
    """An event flushes the records gathered before it, on every channel."""
    edge, lanes = exchange(ByKeyGroup(lambda n: n), 3)
    outputs, end = subtask(edge)
    end.process(rows(list(range(20))))
    said: dict[str, Any] = {"barrier": Barrier(4, 5), "cancel": CancelMarker(4)}
    if event in said:
        getattr(outputs, event)(said[event])
    else:
        getattr(outputs, event)()
    for lane in lanes:
        assert lane.records
        assert lane.elements[-1] == said.get(event, Idle() if event == "idle" else EndOfData())
    assert sorted(r for lane in lanes for r in lane.records) == list(range(20))


def test_idleness_lasts_until_there_is_something_new_to_say() -> None:
    """A flush must not wake the receivers with a watermark that they know; the next one, even equal, does."""
    edge, (lane,) = exchange(Forward())
    outputs, _ = subtask(edge)
    outputs.watermark(50)
    outputs.idle()
    assert lane.elements == [Watermark(50), Idle()]
    outputs.note_step(100)
    outputs.flush_due(200)
    assert lane.elements == [Watermark(50), Idle()]
    outputs.watermark(50)
    outputs.note_step(300)
    outputs.flush_due(400)
    assert lane.elements[2:] == [Watermark(50)]


# -- credit


def test_without_credit_frames_wait_and_events_wait_behind_them() -> None:
    """What finds no credit waits in order; the subtask is told to stop; each grant lets one frame go."""
    edge, (lane,) = exchange(Forward(), credit=1)
    outputs, end = subtask(edge)
    for n in (1, 2):
        end.process(rows([n]))
        outputs.barrier(Barrier(n, 0))
    assert lane.story == [1, FIRST, Barrier(1, 0)]
    assert not outputs.available
    outputs.barrier(Barrier(3, 0))
    edge.channels[0].grant(1)
    assert lane.story == [1, FIRST, Barrier(1, 0), 2, Barrier(2, 0), Barrier(3, 0)]
    assert outputs.available


def test_events_need_no_credit() -> None:
    """Without records before them, barriers pass a channel that has no credit."""
    edge, (lane,) = exchange(Forward(), credit=1)
    outputs, end = subtask(edge)
    end.process(rows([1]))
    outputs.barrier(Barrier(1, 0))
    outputs.barrier(Barrier(2, 0))
    assert lane.elements[-1] == Barrier(2, 0)
    assert outputs.available


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("records"), st.integers(1, 5)),
            st.tuples(st.just("barrier"), st.just(0)),
            st.tuples(st.just("grant"), st.integers(0, 2)),
            st.tuples(st.just("flush"), st.just(0)),
        ),
        max_size=60,
    ),
    st.integers(1, 3),
)
def test_credit_stops_and_resumes_without_loss_or_reordering(
    steps: list[tuple[str, int]], credit: int
) -> None:
    """Per channel: frames in flight never exceed the credit, and in the end everything came, in order."""
    edge, lanes = exchange(ByKeyGroup(lambda n: n), 3, credit)
    outputs, end = subtask(edge)
    expected: list[list[Any]] = [[], [], []]
    number, barriers, in_flight = 0, 0, [0, 0, 0]

    def grant(index: int) -> None:
        frames = [e for e in lanes[index].elements if hasattr(e, "rows")]
        if len(frames) > in_flight[index]:
            in_flight[index] += 1
            edge.channels[index].grant(1)

    for verb, amount in steps:
        if verb == "records" and outputs.available:
            fresh = list(range(number, number + amount))
            number += amount
            for n in fresh:
                expected[key_group(n, 128) * 3 // 128].append(n)
            end.process(rows(fresh))
        elif verb == "barrier":
            barriers += 1
            outputs.barrier(Barrier(barriers, 0))
            for channel in expected:
                channel.append(Barrier(barriers, 0))
        elif verb == "flush":
            outputs.note_step(0)
            outputs.flush_due(TIMEOUT_MS)
        elif verb == "grant":
            grant(amount)
        for index, lane in enumerate(lanes):
            sent = len([e for e in lane.elements if hasattr(e, "rows")])
            assert sent - in_flight[index] <= credit
            assert edge.channels[index].credit.credit == credit - (sent - in_flight[index])
    outputs.watermark(WATERMARK_MAX)
    outputs.end_of_data()
    for _ in range(200):
        for index in range(3):
            grant(index)
    for lane, mine in zip(lanes, expected, strict=True):
        assert [e for e in lane.story if not isinstance(e, (Watermark, EndOfData))] == mine
        assert lane.story[-2:] == [Watermark(WATERMARK_MAX), EndOfData()]
