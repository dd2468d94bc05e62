"""Exactly-once without waiting: the scenarios sU* by id, the cancellation table, and the rows E1 to E11."""

from __future__ import annotations

import pytest
from barrier_scenes import Scene, UnalignedBarrierHandler

from headgate.common.errors import InternalError
from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.core.alignment.handler_contract import (
    ON_CANCELLATION_BARRIER,
    SUBSUMED,
    AbortSnapshot,
    CompleteCapture,
    TriggerSnapshot,
)


def scene_of(channels: int, *, forced: frozenset[int] = frozenset()) -> Scene:
    """A scene with an unaligned handler."""
    return Scene(UnalignedBarrierHandler(channels, forced=forced), channels)


def test_su5_single_channel_abort() -> None:
    """sU5: on one channel a barrier starts and completes its checkpoint, a marker cancels a newer one."""
    scene = scene_of(1).play("U1@0 b0 U2@0 C4@0")
    assert scene.mixed == [1, 2, -4]
    scene.play("U5@0 b0 C6@0")
    assert scene.mixed == [1, 2, -4, 5, -6]
    assert set(scene.reasons) == {ON_CANCELLATION_BARRIER}


@pytest.mark.parametrize(("text", "cancelled"), [("C4@1 U4@2 b0 U4@0", 4), ("C6@1 C6@2 U6@0", 6)])
def test_su5_multi_channel_abort(text: str, cancelled: int) -> None:
    """sU5: a checkpoint cancelled before its first barrier never starts."""
    scene = scene_of(3).play(text)
    assert scene.effects == [AbortSnapshot(cancelled, ON_CANCELLATION_BARRIER)]
    assert scene.in_flight == set()


def test_su7_a_late_report_of_an_older_barrier() -> None:
    """sU7, E6: barrier 0 is reported only after barrier 1 was processed: just checkpoint 1 is triggered."""
    handler = UnalignedBarrierHandler(2)
    first, second = (Barrier(checkpoint, 0, Alignment.UNALIGNED) for checkpoint in (0, 1))
    effects = handler.announce(0, second, 5, 10.0) + handler.barrier(0, second, 5, 10.0)
    assert effects == [TriggerSnapshot(second, 5, 0.0)]
    assert handler.announce(1, first, 9, 11.0) + handler.barrier(1, first, 9, 11.0) == []
    assert (handler.current, handler.pending) == (1, True)


def test_su9_end_of_stream_with_pending_checkpoint_today() -> None:
    """sU9 today: an end counts as a barrier; what came before it is taken along."""
    scene = scene_of(3).play("U1@1 b0* U1@0 b1 E2 E0 E1")
    assert (scene.triggered, scene.aborted, scene.in_flight) == ([1], [], {"b0*"})
    assert scene.kinds == ["TriggerSnapshot", "CompleteCapture"]
    scene = scene_of(3).play("E0 U3@1 b1 b2* E1 U3@2")
    assert (scene.triggered, scene.aborted, scene.in_flight) == ([3], [], {"b2*"})
    assert scene.play("b2 U4@2 E2").triggered == [3, 4]
    assert scene.aborted == []


def test_e1_e4_the_first_barrier_triggers_and_the_missing_channels_are_taken_along() -> None:
    """E1, E4: queued and later records ahead of the missing barriers are in flight, none behind a barrier."""
    scene = scene_of(3).queue("b0a b1a b1b U1@1 b1c")
    assert (scene.triggered, scene.in_flight) == ([1], {"b0a", "b1a", "b1b"})
    scene.queue("b0b U1@0 b0c b2a").read_all()
    assert scene.in_flight == {"b0a", "b1a", "b1b", "b0b", "b2a"}
    scene.play("+7 U1@2 b2b")
    assert scene.effects[1:] == [CompleteCapture(1, 7.0)]
    assert (scene.in_flight, scene.handler.blocked) == ({"b0a", "b1a", "b1b", "b0b", "b2a"}, set())


def test_e3_a_newer_barrier_subsumes() -> None:
    """E3: the pending checkpoint is aborted as subsumed and completes no more; the newer one triggers."""
    scene = scene_of(2).play("U1@0 U2@1 U1@1 U2@0")
    assert scene.kinds == ["TriggerSnapshot", "AbortSnapshot", "TriggerSnapshot", "CompleteCapture"]
    assert (scene.mixed, scene.reasons) == ([1, -1, 2], [SUBSUMED])


def test_e5_reading_a_barrier_that_counted_on_arrival_does_nothing() -> None:
    """E5: what counts is the arrival; the barrier that is read later is stale, and nothing is blocked."""
    handler, barrier = UnalignedBarrierHandler(2), Barrier(1, 0, Alignment.UNALIGNED)
    assert handler.announce(0, barrier, 3, 10.0) == [TriggerSnapshot(barrier, 3, 0.0)]
    assert (handler.barrier(0, barrier, 9, 16.0), handler.blocked) == ([], set())
    assert handler.announce(1, barrier, 12, 19.0) == [CompleteCapture(1, 9.0)]
    assert handler.barrier(1, barrier, 15, 22.0) == []


def test_every_ordinary_barrier_overtakes_here() -> None:
    """Aligned options are read as unaligned, and forwarded so."""
    handler = UnalignedBarrierHandler(1)
    effects = handler.announce(0, Barrier(1, 0, timeout_ms=50), 3, 10.0)
    assert effects == [
        TriggerSnapshot(Barrier(1, 0, Alignment.UNALIGNED), 3, 0.0),
        CompleteCapture(1, 0.0),
    ]


@pytest.mark.parametrize(
    ("channels", "before", "cancel", "expected"),
    [
        pytest.param(3, "", "C2@0", [(2, ON_CANCELLATION_BARRIER)], id="first sign"),
        pytest.param(3, "U1@0", "C1@1", [(1, ON_CANCELLATION_BARRIER)], id="capturing, same"),
        pytest.param(
            3, "U1@0", "C2@1", [(1, SUBSUMED), (2, ON_CANCELLATION_BARRIER)], id="capturing, greater"
        ),
        pytest.param(3, "U2@0", "C1@1", [], id="capturing, smaller"),
        pytest.param(3, "U1@0 U1@1 U1@2", "C1@1", [], id="completed"),
        pytest.param(3, "U2@0 U2@1 U2@2", "C1@1", [], id="older than completed"),
        pytest.param(3, "U1@0 U1@1 U1@2", "C2@1", [(2, ON_CANCELLATION_BARRIER)], id="idle, greater"),
        pytest.param(3, "C2@0", "C2@1", [], id="cancelled already"),
        pytest.param(3, "C2@0", "C1@1", [], id="older than cancelled"),
        pytest.param(1, "U1@0", "C1@0", [], id="E8 one channel, same: completed, so ignored"),
        pytest.param(1, "U1@0", "C2@0", [(2, ON_CANCELLATION_BARRIER)], id="one channel, greater"),
        pytest.param(1, "U2@0", "C1@0", [], id="one channel, smaller"),
    ],
)
def test_e7_e8_cancellation_table(
    channels: int, before: str, cancel: str, expected: list[tuple[int, str]]
) -> None:
    """E7, E8: what a marker aborts; a running capture ends with it, and nothing of it comes later."""
    scene = scene_of(channels).play(before)
    pending = scene.handler.pending
    scene.effects.clear()
    scene.play(cancel)
    assert scene.effects == [AbortSnapshot(*abort) for abort in expected]
    assert scene.handler.pending is (pending and not expected)
    scene.effects.clear()
    for channel in range(channels):
        scene.play(" ".join(f"U{checkpoint}@{channel}" for checkpoint, _ in expected))
    assert (scene.effects, scene.in_flight) == ([], set())


def test_the_job_masters_word_ends_a_capture() -> None:
    """An abort ends a running capture silently; its missing barriers complete nothing."""
    scene = scene_of(2).play("U1@0")
    scene.handler.abort(1)
    assert (scene.handler.pending, scene.handler.current) == (False, 1)
    assert scene.play("U1@1").kinds == ["TriggerSnapshot"]


def test_a_forced_channel_is_read_up_to_its_barrier() -> None:
    """A checkpoint overtakes only when every forced channel's barrier was read in order."""
    scene = scene_of(3, forced=frozenset({0})).queue("b0 F1@0 b1 U1@1")
    assert (scene.effects, scene.handler.pending) == ([], True)
    scene.read_all()
    assert (scene.triggered, scene.in_flight, scene.handler.blocked) == ([1], {"b1"}, set())
    assert scene.play("b2 U1@2").kinds == ["TriggerSnapshot", "CompleteCapture"]
    assert scene.in_flight == {"b1", "b2"}


def test_a_forced_barrier_that_nobody_named_is_refused_when_it_is_too_late() -> None:
    """Records that cannot be stored were taken along already: that is a fault of ours, and it is said."""
    handler = UnalignedBarrierHandler(2)
    handler.announce(0, Barrier(1, 0, Alignment.UNALIGNED), 0, 0.0)
    with pytest.raises(InternalError, match="channel 1 brought a forced barrier of checkpoint 1"):
        handler.announce(1, Barrier(1, 0, Alignment.FORCED_ALIGNED), 0, 0.0)
