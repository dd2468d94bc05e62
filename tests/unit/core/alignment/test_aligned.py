"""Exactly-once by waiting: the scenarios sL* by id, the cancellation table, and the rows D*."""

from __future__ import annotations

import pytest
from barrier_scenes import Scene

from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.core.alignment.factory import AlignedBarrierHandler
from headgate.core.alignment.handler_contract import (
    ON_CANCELLATION_BARRIER,
    SUBSUMED,
    AbortSnapshot,
    CompleteCapture,
    TriggerSnapshot,
)


def scene_of(channels: int) -> Scene:
    """A scene with an aligned handler."""
    return Scene(AlignedBarrierHandler(channels), channels)


def test_sl1_single_channel_with_barriers() -> None:
    """sL1, D1: each barrier triggers at once, with no alignment, and nothing stays blocked."""
    scene = scene_of(1)
    text = "b0 b0 b0 B1@0 b0 b0 b0 b0 B2@0 B3@0 b0 b0 B4@0 B5@0 B6@0 b0 E0"
    for word in text.split():
        scene.play(f"+1 {word}")
        assert scene.handler.blocked == set()
    assert (scene.triggered, scene.aborted) == ([1, 2, 3, 4, 5, 6], [])
    assert {effect.alignment_ms for effect in scene.triggers} == {0.0}


def test_sl2_multi_channel_with_barriers() -> None:
    """sL2: a checkpoint triggers with its third barrier, and all channels are resumed with it."""
    scene = scene_of(3).play("b0 b2 b0 B1@1 B1@2 b0 B1@0")
    assert (scene.triggered, scene.resumed()) == ([1], {0, 1, 2})
    scene.play("b0 b0 b1 b1 b2 B2@0 B2@1 B2@2")
    assert (scene.triggered, scene.resumed()) == ([1, 2], {0, 1, 2})
    assert scene.play("b2 b2 B3@2 b0 b0 B3@0 B3@1").triggered == [1, 2, 3]
    assert scene.play("B4@1 B4@2 B4@0").triggered == [1, 2, 3, 4]
    length = len(scene.out)
    scene.play("b0 E0 E1 E2")
    assert scene.out[length:] == ["b0", "E0", "E1", "E2"]
    assert scene.aborted == []


def test_a9_data_behind_a_barrier_waits() -> None:
    """A9: records behind a barrier stay in the gate until the checkpoint is drawn, and then come out."""
    scene = scene_of(2).play("B1@0 +1 b0x +1 b0y +1 b1 +1 B1@1")
    assert scene.out == ["B1@0", "b1", "B1@1", "b0x", "b0y"]
    assert scene.effects == [TriggerSnapshot(scene.triggers[0].barrier, 0.0, 4.0)]


def test_sl4_missing_cancellation_barriers() -> None:
    """sL4: only checkpoint 3 is reported as aborted; late markers of 2 and 3 are ignored."""
    scene = scene_of(2).play("B1@0 C3@1 C2@0 C3@0 b0")
    assert (scene.resumed(), scene.triggered) == ({0}, [])
    assert scene.effects == [AbortSnapshot(3, ON_CANCELLATION_BARRIER)]
    assert scene.out == ["B1@0", "C3@1", "C2@0", "C3@0", "b0"]


def test_sl6_end_of_stream_while_checkpoint_today() -> None:
    """sL6 today: an ended channel completes a pending checkpoint instead of aborting it."""
    scene = scene_of(3).play("B1@0 B1@1 B1@2")
    assert scene.resumed() == {0, 1, 2}
    scene.play("b0 b0 b2 B2@2 B2@0 b1 E1")
    assert (scene.triggered, scene.aborted, scene.resumed()) == ([1, 2], [], {0, 2})
    assert scene.play("E2 b0 E0").out[-3:] == ["E2", "b0", "E0"]


def test_sl7_single_channel_abort() -> None:
    """sL7: a marker aborts its checkpoint; its id counts as seen, and the channel goes on each time."""
    scene = scene_of(1)
    for part, resumed in (("b0 B1@0", {0}), ("b0 B2@0", {0}), ("b0 C4@0", set()), ("B5@0 b0", {0})):
        scene.play(part)
        assert scene.resumed() == resumed
    scene.play("C6@0 b0")
    assert (scene.triggered, scene.aborted) == ([1, 2, 5], [4, 6])
    assert set(scene.reasons) == {ON_CANCELLATION_BARRIER}
    assert scene.handler.current == 6
    assert {effect.alignment_ms for effect in scene.triggers} == {0.0}


def test_sl8_multi_channel_abort() -> None:
    """sL8: a marker releases what its checkpoint blocked; barriers of an aborted checkpoint are stale."""
    scene = scene_of(3).play("B1@1 B1@2 b0 B1@0")
    assert (scene.triggered, scene.resumed()) == ([1], {0, 1, 2})
    scene.play("b0 b2 B2@0 B2@2 b1 C2@1")
    assert (scene.aborted, scene.resumed()) == ([2], {0, 2})
    scene.play("b2 b1 B3@1 B3@2 B3@0")
    assert (scene.triggered, scene.resumed()) == ([1, 3], {0, 1, 2})
    assert scene.play("b0 b1 C4@1 +5 B4@2").resumed() == {2}
    assert not scene.handler.pending, "4 has no alignment, so no duration"
    assert scene.play("b2 B4@0").resumed() == {0}
    scene.play("b0 b1 b2 B5@2 B5@1 B5@0")
    assert (scene.triggered, scene.resumed()) == ([1, 3, 5], {0, 1, 2})
    assert scene.triggers[-1].alignment_ms == 0.0, "nothing of 4 is left in the duration of 5"
    scene.play("b0 b1 C6@1 C6@2 B6@0")
    assert (scene.resumed(), scene.handler.pending) == ({0}, False)
    scene.play("b0")
    assert (scene.triggered, scene.aborted, scene.handler.blocked) == ([1, 3, 5], [2, 4, 6], set())


def test_sl11_a_repeated_barrier_changes_nothing_today() -> None:
    """sL11, D3 today: no error, and the checkpoint still waits for the other channel."""
    scene = scene_of(2).play("B1@0 B1@0")
    assert scene.handler.barrier(0, Barrier(1, 0), 0, 0) == []
    assert (scene.effects, scene.handler.blocked, scene.handler.pending) == ([], {0}, True)
    scene.play("B1@1")
    assert (scene.triggered, scene.aborted, scene.handler.blocked) == ([1], [], set())


def test_sl11_end_of_partition_trio() -> None:
    """sL11, D15: an end may complete a checkpoint, comes twice to no effect, and shrinks later alignments."""
    scene = scene_of(3).play("B1@0 B1@1 E2")
    assert (scene.triggered, scene.aborted, scene.handler.pending) == ([1], [], False)
    scene = scene_of(3).play("B2@0 B2@1 E1")
    assert scene.effects == []
    assert scene.play("B2@2").triggered == [2]
    scene = scene_of(3).play("E2 B6@0 B6@1 E1 B7@0")
    assert (scene.triggered, scene.aborted) == ([6, 7], [])


def test_a_blocked_channel_that_ends_is_blocked_no_more() -> None:
    """A connection may break behind a barrier: its end releases it, and its barrier still counts."""
    handler = AlignedBarrierHandler(3)
    handler.barrier(0, Barrier(1, 0), 0, 0.0)
    assert (handler.end_of_partition(0, 1.0), handler.blocked, handler.pending) == ([], set(), True)
    assert handler.barrier(1, Barrier(1, 0), 0, 2.0) == []
    assert handler.barrier(2, Barrier(1, 0), 0, 3.0) == [TriggerSnapshot(Barrier(1, 0), 0, 3.0)]


def test_d4_a_newer_barrier_subsumes_the_pending_checkpoint() -> None:
    """D4: the pending checkpoint is aborted as subsumed, and its blocks end before the new begins."""
    scene = scene_of(3).play("B1@0 b0 B2@1")
    assert scene.effects == [AbortSnapshot(1, SUBSUMED)]
    assert (scene.handler.blocked, scene.out[-1]) == ({1}, "b0")
    assert scene.play("B2@0 B1@2 b2 B2@2").triggered == [2]


def test_d5_d7_stale_barriers_block_nothing() -> None:
    """D5, D7: a barrier of an older, completed or cancelled checkpoint leaves its channel open."""
    scene = scene_of(2).play("B5@0 B3@1")
    assert scene.handler.blocked == {0}
    scene.play("B5@1 B5@1 C7@0 B7@1 B7@0")
    assert (scene.triggered, scene.aborted, scene.handler.blocked) == ([5], [7], set())


def test_d8_blocks_end_before_the_trigger() -> None:
    """D8: when a checkpoint is triggered the gate may read on at once, and alignment is what it lasted."""
    handler = AlignedBarrierHandler(2)
    handler.barrier(0, Barrier(1, 0), 20, 100.0)
    assert handler.barrier(1, Barrier(1, 0), 25, 105.5) == [TriggerSnapshot(Barrier(1, 0), 20, 5.5)]
    assert (handler.blocked, handler.pending) == (set(), False)


@pytest.mark.parametrize(
    ("channels", "before", "cancel", "aborted", "current"),
    [
        pytest.param(1, "B1@0", "C2@0", [2], 2, id="D9 single, newer"),
        pytest.param(1, "B2@0", "C2@0", [], 2, id="D9 single, completed"),
        pytest.param(1, "B2@0", "C1@0", [], 2, id="D9 single, older"),
        pytest.param(1, "C2@0", "C2@0", [], 2, id="D9 single, cancelled already"),
        pytest.param(3, "B1@0", "C1@1", [1], 1, id="D10 pending, same"),
        pytest.param(3, "B1@0 B1@2", "C3@1", [3], 3, id="D11 pending, greater: only the new id"),
        pytest.param(3, "", "C3@1", [3], 3, id="D12 nothing pending, first sign"),
        pytest.param(3, "B1@0 B1@1 B1@2", "C2@1", [2], 2, id="D12 nothing pending, greater"),
        pytest.param(3, "B2@0", "C1@1", [], 2, id="D13 pending, smaller"),
        pytest.param(3, "B2@0 B2@1 B2@2", "C2@1", [], 2, id="D13 completed"),
        pytest.param(3, "C2@0", "C2@1", [], 2, id="D13 cancelled already"),
        pytest.param(3, "C2@0", "C1@1", [], 2, id="D13 older than cancelled"),
    ],
)
def test_d9_to_d13_cancellation_table(
    channels: int, before: str, cancel: str, aborted: list[int], current: int
) -> None:
    """D9 to D13: what a marker aborts; what it aborts releases all blocks and can not begin again."""
    scene = scene_of(channels).play(before)
    blocked = set(scene.handler.blocked)
    scene.effects.clear()
    scene.play(cancel)
    assert scene.effects == [AbortSnapshot(checkpoint, ON_CANCELLATION_BARRIER) for checkpoint in aborted]
    assert scene.handler.current == current
    assert scene.handler.blocked == (set() if aborted else blocked)
    scene.effects.clear()
    for channel in range(channels):
        scene.play(" ".join(f"B{checkpoint}@{channel}" for checkpoint in aborted))
    assert scene.effects == []


def test_d16_the_job_masters_word() -> None:
    """D16: an aborted pending checkpoint releases its blocks without effects, and its barriers are stale."""
    scene = scene_of(2).play("B4@0")
    scene.handler.abort(3)
    assert (scene.handler.pending, scene.handler.blocked) == (True, {0})
    scene.handler.abort(4)
    assert (scene.handler.pending, scene.handler.blocked, scene.handler.current) == (False, set(), 4)
    assert scene.play("B4@1 B5@0").effects == []
    scene.handler.abort(9)
    assert (scene.handler.pending, scene.handler.blocked, scene.handler.current) == (True, {0}, 5)
    assert scene.play("B5@1 B9@0 B9@1 B10@0 B10@1").mixed == [5, 10]


def test_a5_announcements_leave_several_checkpoints_in_flight() -> None:
    """A5: a barrier waiting behind another's block, or behind records, subsumes nothing before it is read."""
    scene = scene_of(2).queue("b0 B1@0 b0 B2@0 b1 B1@1 b1 B2@1")
    assert (scene.effects, scene.handler.pending) == ([], False)
    scene.read_all()
    assert scene.mixed == [1, 2]


def test_a5_a_checkpoint_that_is_passed_by_is_declined() -> None:
    """A checkpoint that was announced, but is overtaken by a newer one, is aborted when that begins."""
    scene = scene_of(2).queue("b0 B1@0")
    scene.queues[0].clear()
    scene.order.clear()
    assert scene.play("B2@1").effects == [AbortSnapshot(1, SUBSUMED)]
    assert scene.play("B1@1 B2@0").triggered == [2]


def test_start_delay_ends_where_alignment_begins() -> None:
    """With the first barrier that is read, not where it waits behind records; a skewed clock gives 0."""
    handler, barrier = AlignedBarrierHandler(2), Barrier(1, 0)
    handler.announce(1, barrier, 12, 100.0)
    handler.announce(0, barrier, 30, 118.0)
    handler.barrier(0, barrier, 40, 128.0)
    assert handler.barrier(1, barrier, 45, 133.0) == [TriggerSnapshot(barrier, 40, 5.0)]
    handler.barrier(0, Barrier(2, 900), -900, 140.0)
    assert handler.barrier(1, Barrier(2, 900), -890, 150.0) == [TriggerSnapshot(Barrier(2, 900), 0, 10.0)]


def test_no_clock_runs() -> None:
    """A timeout on a barrier means nothing here: it is aligned at any age and forwarded as it came."""
    handler, barrier = AlignedBarrierHandler(2), Barrier(1, 0, timeout_ms=10)
    handler.announce(0, barrier, 50, 0.0)
    handler.barrier(0, barrier, 50, 0.0)
    assert (handler.next_timeout(), handler.timeout(1e9)) == (None, [])
    assert handler.barrier(1, barrier, 99, 49.0) == [TriggerSnapshot(barrier, 50, 49.0)]


@pytest.mark.parametrize("alignment", [Alignment.UNALIGNED, Alignment.FORCED_ALIGNED])
def test_a_barrier_that_overtakes_elsewhere_may_do_so_downstream(alignment: Alignment) -> None:
    """Aligned here, but of an unaligned checkpoint: forwarded as unaligned, with nothing to take along."""
    handler, barrier = AlignedBarrierHandler(2), Barrier(1, 0, alignment)
    assert handler.announce(0, barrier, 0, 0.0) + handler.barrier(0, barrier, 0, 0.0) == []
    assert handler.blocked == {0}
    effects = handler.announce(1, barrier, 0, 0.0) + handler.barrier(1, barrier, 0, 2.0)
    assert effects == [TriggerSnapshot(barrier.as_unaligned(), 0, 2.0), CompleteCapture(1, 2.0)]
