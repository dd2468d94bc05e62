"""A subtask when barriers overtake: what it takes along, from where, and what becomes of it afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_samples import finished, rows
from task_samples import Captured, Rig

from headgate.common.time import WATERMARK_MIN
from headgate.core.alignment.barriers import Alignment, Barrier, SavepointOrder
from headgate.core.alignment.handler_contract import SUBSUMED
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.elements import CancelMarker, EndOfData, Watermark

SIGN = Watermark(WATERMARK_MIN)


def over(checkpoint: int) -> Barrier:
    """A barrier that overtakes."""
    return Barrier(checkpoint, 1_000, Alignment.UNALIGNED)


def timed(checkpoint: int, trigger_ms: int = 1_000, timeout_ms: int = 100) -> Barrier:
    """A barrier that overtakes when it is older than its timeout."""
    return Barrier(checkpoint, trigger_ms, timeout_ms=timeout_ms)


def blocked(channels: int, **more: Any) -> Rig:
    """A rig that cannot emit: its one channel has no credit left and a frame waits."""
    rig = Rig(channels, credit=1, unaligned=True, **more)
    rig.deliver(*[(channel, SIGN) for channel in range(channels)])
    for record in ("gone", "first"):
        rig.deliver((0, rows([record])))
        rig.edge.channels[0].flush()
    assert not rig.outputs.available
    return rig


def release(rig: Rig) -> None:
    """Let everything out."""
    channel = rig.edge.channels[0]
    for _ in range(20):
        if channel.credit.credit == 0:
            channel.grant(1)
        rig.run()
        channel.flush()


def values(elements: list[Any]) -> list[Any]:
    """Records one by one, events as they are."""
    flat: list[Any] = []
    for element in elements:
        flat += element.rows() if isinstance(element, RowBatch) else [element]
    return flat


def barriers(rig: Rig) -> list[Any]:
    """The barriers that went out."""
    return [element for element in rig.lane.elements if isinstance(element, Barrier)]


def cut(rig: Rig, at: int = 0) -> Any:
    """What the operator had seen at the snapshot."""
    return finished(rig.taken.drawn[at].pending[0]).list_state["seen"]


def test_a_blocked_subtask_draws_at_once_and_takes_everything_along() -> None:
    """Neither credit nor the records ahead of the barrier hold it up."""
    rig = blocked(2)
    rig.deliver((0, rows([1, 2])), (1, rows([3])), (0, over(1)), (1, rows([4])))
    assert cut(rig) == ["gone", "first"]
    capture = rig.taken.captures[1]
    assert values(capture.of(0)) == [1, 2]
    assert values(capture.of(1)) == [3, 4]
    assert values(capture.of(0, output=True)) == ["first"]
    assert rig.lane.elements[-1] == over(1)
    assert not capture.sealed


def test_what_comes_before_the_last_barrier_is_taken_along_too() -> None:
    """The capture ends with the barrier of the last channel; nothing behind a barrier belongs to it."""
    rig = blocked(2)
    rig.deliver((0, over(1)), (0, rows([9])), (1, rows([5])))
    capture = rig.taken.captures[1]
    assert values(capture.of(1)) == [5]
    rig.deliver((1, rows([6])), (1, over(1)), (1, rows([7])))
    assert values(capture.of(0)) == []
    assert values(capture.of(1)) == [5, 6]
    assert capture.sealed


def test_records_that_were_taken_along_are_processed_all_the_same() -> None:
    """The snapshot is a copy; the job goes on with what it has."""
    rig = blocked(1)
    rig.deliver((0, rows([1])), (0, over(1)), (0, rows([2])))
    release(rig)
    assert rig.records == ["gone", "first", 1, 2]


def test_a_batch_in_the_middle_is_taken_along_from_the_cursor() -> None:
    """The rows that were processed are in the state, the others are in flight; none in both."""
    rig = Rig(1, unaligned=True, cost_ms=10)
    rig.deliver((0, SIGN))
    rig.task.budget.records = 2
    rig.task.deliver(0, rows([1, 2, 3, 4, 5]))
    rig.task.step()
    rig.task.deliver(0, rows([6]))
    rig.task.deliver(0, over(1))
    rig.task.step()
    seen = cut(rig)
    assert seen + values(rig.taken.captures[1].of(0)) == [1, 2, 3, 4, 5, 6]
    assert 0 < len(seen) < 5
    rig.run()
    assert rig.records == [1, 2, 3, 4, 5, 6]


def test_a_watermark_that_was_reached_but_not_told_is_under_way() -> None:
    """Without it the receivers' timers would wait for the next one after a restore."""
    rig = Rig(1, unaligned=True)
    rig.deliver((0, SIGN), (0, Watermark(50)))
    rig.deliver((0, over(1)))
    assert rig.taken.captures[1].of(0, output=True) == [Watermark(50)]


def test_where_each_channel_stands_goes_along() -> None:
    """Event time of the channels, which restored records need."""
    rig = blocked(2)
    release(rig)
    rig.deliver((0, Watermark(70)), (1, Watermark(60)))
    rig.deliver((0, over(1)), (1, over(1)))
    begun = {key.sender_subtask: at for key, at in rig.taken.captures[1].begun.items()}
    assert begun == {0: (70, False), 1: (60, False)}


def test_an_ended_sender_is_not_in_flight() -> None:
    """It says so again after a restore."""
    rig = blocked(2)
    rig.deliver((0, rows([1])), (0, EndOfData()), (0, over(1)), (1, over(1)))
    assert values(rig.taken.captures[1].of(0)) == [1]


def test_rows_that_are_not_stored_yet_are_processed_as_copies() -> None:
    """Row A18: whoever changes a record in place must not change the checkpoint."""
    rig = blocked(1)
    record = {"n": 1}
    rig.deliver((0, rows([record])), (0, over(1)))
    release(rig)
    assert rig.records[-1] == {"n": 1}
    assert rig.records[-1] is not record


def test_an_old_barrier_in_the_outputs_overtakes_there() -> None:
    """An aligned barrier that waits for credit longer than its timeout: records ahead of it go along."""
    rig = blocked(1)
    rig.deliver((0, timed(1)))
    capture = rig.taken.captures[1]
    assert barriers(rig) == []
    assert not capture.sealed
    assert rig.task.next_wakeup() == 1_101
    rig.clock.now = 1_100
    rig.run()
    assert barriers(rig) == []
    rig.clock.now = 1_101
    rig.run()
    assert barriers(rig) == [timed(1).as_unaligned()]
    assert values(capture.of(0, output=True)) == ["first", SIGN]
    assert capture.sealed
    assert rig.taken.drawn[0].metrics.unaligned


def test_a_barrier_that_gets_through_in_time_takes_nothing_along() -> None:
    """The acknowledgement waits for it, and the checkpoint stays aligned."""
    rig = blocked(1)
    rig.deliver((0, timed(1)))
    release(rig)
    capture = rig.taken.captures[1]
    assert capture.sealed
    assert capture.streams == {}
    assert not rig.taken.drawn[0].metrics.unaligned


def test_an_aligned_barrier_overtakes_at_the_inputs_after_its_timeout() -> None:
    """As sX6: announced behind records, it is taken ahead of them when it is too old."""
    rig = blocked(2)
    rig.deliver((0, rows([1])), (0, timed(1)), (1, rows([2])), (1, timed(1)))
    assert rig.taken.drawn == []
    rig.clock.now = 1_101
    rig.run()
    assert cut(rig) == ["gone", "first"]
    capture = rig.taken.captures[1]
    assert (values(capture.of(0)), values(capture.of(1))) == ([1], [2])
    assert capture.sealed


def test_a_newer_barrier_ends_what_was_being_taken_along() -> None:
    """Subsumed: declined, told downstream, its capture is given up."""
    rig = blocked(2)
    rig.deliver((0, over(1)))
    rig.deliver((0, over(2)))
    assert rig.reports.declined == [(1, SUBSUMED)]
    assert rig.taken.captures[1].cancelled
    assert not rig.taken.captures[2].cancelled


def test_an_abort_while_records_are_taken_along_gives_them_up() -> None:
    """sK3: nothing stays behind, and the next checkpoint is drawn as if nothing had been."""
    rig = blocked(2)
    rig.deliver((0, over(42)))
    rig.task.aborted(42)
    assert rig.taken.captures[42].cancelled
    assert rig.taken.given_up == [42]
    rig.deliver((1, over(42)))
    assert len(rig.taken.drawn) == 1
    rig.deliver((0, over(43)), (1, over(43)))
    assert rig.taken.captures[43].sealed


def test_a_checkpoint_told_aborted_before_its_barrier_is_cancelled_downstream() -> None:
    """Row B8: the marker goes on in the barrier's place."""
    rig = Rig(1, unaligned=True)
    rig.deliver((0, SIGN))
    rig.task.snapshots.aborted(1)
    rig.deliver((0, over(1)))
    assert rig.taken.drawn == []
    assert rig.lane.elements[-1] == CancelMarker(1)


def test_savepoints_take_nothing_along() -> None:
    """sK3: a savepoint's barrier waits like any aligned one, and opens no capture."""
    rig = blocked(1)
    savepoint = Barrier(1, 1_000, Alignment.ALIGNED, None, savepoint=SavepointOrder("file:///s"))
    rig.deliver((0, savepoint))
    assert rig.taken.drawn[0].capture is None
    assert rig.taken.captures == {}
    assert barriers(rig) == []
    release(rig)
    assert barriers(rig) == [savepoint]


def test_a_broadcast_channel_is_read_up_to_its_barrier_first() -> None:
    """Its records cannot be stored; until they are processed, the other channel aligns."""
    rig = Rig(2, unaligned=True, forced=frozenset({1}))
    rig.deliver((0, SIGN), (1, SIGN))
    forced = over(1).as_forced()
    rig.task.deliver(1, rows(["b"]))
    rig.task.deliver(0, rows(["a"]))
    rig.task.deliver(0, over(1))
    rig.task.deliver(1, forced)
    rig.run()
    assert "b" in cut(rig)
    taken = rig.taken.captures[1]
    assert values(taken.of(1)) == []
    assert sorted(cut(rig) + values(taken.of(0))) == ["a", "b"]


@pytest.mark.parametrize("blocked_outputs", [False, True])
def test_at_least_once_never_waits(blocked_outputs: bool) -> None:
    """Row A14: a channel whose barrier has come is read on."""
    rig = Rig(2, exactly_once=False)
    rig.deliver((0, SIGN), (1, SIGN))
    loose = Barrier(1, 1_000, Alignment.AT_LEAST_ONCE)
    rig.deliver((0, loose), (0, rows([1])))
    assert rig.records == [1]
    rig.deliver((1, loose))
    assert cut(rig) == [1]


ELEMENTS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["records", "step", "grant"])), max_size=30)


@given(ELEMENTS, st.permutations([0, 1, 2]), st.integers(0, 3))
def test_state_and_records_in_flight_are_everything_before_the_barriers(
    story: list[tuple[int, str]], barriers: list[int], budget: int
) -> None:
    """Whatever is processed, waits or arrives meanwhile: each record ahead of a barrier counts once."""
    rig = Rig(3, credit=1, unaligned=True, cost_ms=1)
    rig.deliver((0, SIGN), (1, SIGN), (2, SIGN))
    before: dict[int, list[int]] = {0: [], 1: [], 2: []}
    number, sent = 0, 0
    places = sorted(barriers[i] * (len(story) // 3 or 1) for i in range(3))
    for index, (channel, what) in enumerate([*story, (0, "step")]):
        while sent < 3 and index >= places[sent]:
            rig.task.deliver(barriers[sent], over(1))
            sent += 1
        rig.task.budget.records = budget + 1
        if what == "records":
            batch = list(range(number, number + 3))
            number += 3
            rig.task.deliver(channel, rows(batch))
            if channel not in barriers[:sent]:
                before[channel] += batch
        elif what == "grant":
            if rig.edge.channels[0].credit.credit == 0:
                rig.edge.channels[0].grant(1)
        else:
            rig.task.step()
    for left in range(sent, 3):
        rig.task.deliver(barriers[left], over(1))
    rig.run()
    capture: Captured = rig.taken.captures[1]
    assert capture.sealed
    found = cut(rig) + [v for c in range(3) for v in values(capture.of(c))]
    assert sorted(found) == sorted(record for records in before.values() for record in records)
    for channel in range(3):
        mine = [record for record in found if record in set(before[channel])]
        assert mine == before[channel]


def test_exchanges_between_the_same_ends_are_kept_apart() -> None:
    """A stream united with itself: what one copy says of time must not make the other's records late."""
    rig = Rig(2, unaligned=True)
    for lane, channel in enumerate(rig.task.channels):
        channel.ends, channel.sender = replace(channel.ends, lineage=lane), 0
    for element in (SIGN, Watermark(100), rows([0])):
        rig.task.deliver(0, element)
    for element in (SIGN, rows([1], [5], [0])):
        rig.task.deliver(1, element)
    rig.task.deliver(0, over(1))
    rig.task.step()
    streams = {key.lineage: elements for key, elements in rig.taken.captures[1].streams.items()}
    assert [len(streams[lane]) for lane in (0, 1)] == [3, 2]


def test_barriers_that_have_piled_up_take_along_each_its_own() -> None:
    """All are announced before any is read: what the third overtook is neither in the second nor lost."""
    rig = blocked(2)
    arrivals = [(0, over(1)), (1, rows([1])), (1, over(1)), (0, over(2)), (1, rows([2])), (1, over(2))]
    for channel, element in [*arrivals, (1, rows([3])), (0, over(3)), (1, over(3))]:
        rig.task.deliver(channel, element)
    rig.run()
    taken = {number: values(capture.of(1)) for number, capture in rig.taken.captures.items()}
    assert taken == {1: [1], 2: [1, 2], 3: [1, 2, 3]}
