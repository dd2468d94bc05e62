"""At-least-once: the scenarios sT* by id, the cancellation table, and the rows C* one by one."""

from __future__ import annotations

import pytest
from barrier_scenes import Scene

from headgate.core.alignment.at_least_once_handler import MAX_CHECKPOINTS_TO_TRACK, CheckpointBarrierTracker
from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.handler_contract import ON_CANCELLATION_BARRIER


def scene_of(channels: int) -> tuple[Scene, CheckpointBarrierTracker]:
    """A scene and its tracker."""
    tracker = CheckpointBarrierTracker(channels)
    return Scene(tracker, channels), tracker


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b0 b0 b0 B1@0 b0 b0 b0 b0 B2@0 B3@0 b0 b0 B4@0 B5@0 B6@0 b0", [1, 2, 3, 4, 5, 6]),
        ("B1@0 b0 B3@0 b0 B4@0 b0 B6@0 b0 B7@0 b0 B10@0 b0", [1, 3, 4, 6, 7, 10]),
    ],
)
def test_st1_single_channel(text: str, expected: list[int]) -> None:
    """sT1: on one channel each barrier triggers when it is read, with no alignment; ids may be skipped."""
    scene, _ = scene_of(1)
    for word in text.split():
        before = len(scene.triggered)
        scene.play(f"+1 {word}")
        assert len(scene.triggered) - before == (word[0] == "B"), "each at its barrier"
    assert scene.triggered == expected
    assert {effect.alignment_ms for effect in scene.triggers} == {0.0}
    assert [word for word in text.split() if word[0] != "+"] == scene.out


def test_st2_multi_channel() -> None:
    """sT2: each checkpoint triggers on its third barrier, and no channel ever waits."""
    scene, tracker = scene_of(3)
    text = "B1@1 B1@2 b0 b1 B1@0 B2@0 B2@1 B2@2 B3@2 b2 b2 B3@0 B3@1 B4@1 B4@2 B4@0"
    thirds = {"B1@0": 1, "B2@2": 2, "B3@1": 3, "B4@0": 4}
    for word in text.split():
        before = scene.triggered
        scene.play(word)
        assert scene.triggered[len(before) :] == ([thirds[word]] if word in thirds else [])
        assert tracker.blocked == frozenset()
    assert scene.out == text.split()


def test_st2_start_delay_and_alignment() -> None:
    """sT2: the start delay ends when the first barrier arrives; alignment is from first read to last."""
    scene, _ = scene_of(2)
    scene.queue("b0 B1@0 +4")
    scene.read_all()
    scene.play("+3 B1@1")
    (effect,) = scene.triggers
    assert (effect.start_delay_ms, effect.alignment_ms) == (0.0, 3.0)
    scene.created[2] = scene.created[1]
    scene.play("B2@0 B2@1")
    assert scene.triggers[1].start_delay_ms == 7.0


def test_st3_skipped_checkpoint() -> None:
    """sT3: a checkpoint that misses barriers vanishes without an abort when a newer one completes."""
    scene, tracker = scene_of(3)
    scene.play("B1@1 B1@2 B1@0 B2@0 B2@1 B2@2 B3@2 B4@0 B4@1 B4@2")
    assert (scene.triggered, scene.aborted, tracker.pending) == ([1, 2, 4], [], False)


def test_st5_single_channel_abort() -> None:
    """sT5: on one channel a marker aborts at once."""
    scene, _ = scene_of(1)
    scene.play("B1@0 B2@0 C4@0 B5@0 C6@0")
    assert scene.mixed == [1, 2, -4, 5, -6]
    assert set(scene.reasons) == {ON_CANCELLATION_BARRIER}


def test_st6_multi_channel_abort() -> None:
    """sT6: a marker aborts its checkpoint once, whether barriers or markers come first."""
    scene, tracker = scene_of(3)
    scene.play("B1@1 B1@2 B1@0 B2@0 B2@2 C2@1 B3@1 B3@2 B3@0")
    scene.play("C4@1 B4@2 B4@0 B5@2 B5@1 B5@0 C6@1 C6@2 B6@0")
    assert scene.mixed == [1, -2, 3, -4, 5, -6]
    assert not tracker.pending


def test_st8_end_of_partition() -> None:
    """sT8: an ended channel counts as a barrier of each; the newest complete one drops the older silently."""
    scene, tracker = scene_of(3)
    scene.play("B1@0 B2@0 B2@1 B3@0 B4@0 B4@1 B5@1 E2")
    assert (scene.triggered, scene.aborted) == ([4], [])
    assert tracker.pending_ids == (5,)
    scene.play("B5@0")
    assert scene.triggered == [4, 5]


def test_c6_the_oldest_beyond_fifty_is_dropped() -> None:
    """C6: the 51st pending checkpoint drops the oldest, whose later barriers are ignored."""
    scene, tracker = scene_of(2)
    for checkpoint in range(1, MAX_CHECKPOINTS_TO_TRACK + 1):
        scene.play(f"B{checkpoint}@0")
    assert tracker.pending_ids[0] == 1
    scene.play("B51@0")
    assert (tracker.pending_ids[0], len(tracker.pending_ids)) == (2, MAX_CHECKPOINTS_TO_TRACK)
    scene.play("B1@1")
    assert scene.effects == []
    scene.play("B2@1")
    assert (scene.triggered, scene.aborted) == ([2], [])


def test_c7_a_repeated_barrier_does_not_count_twice() -> None:
    """C7 as of today: channels are kept as a set, so one that repeats itself triggers nothing early."""
    scene, _ = scene_of(2)
    scene.play("B1@0 B1@0")
    assert scene.effects == []
    assert scene.play("B1@1 B1@1 B1@0").triggered == [1]


def test_c8_late_barriers() -> None:
    """C8: an older checkpoint completes after a newer one began, and not after a newer one completed."""
    scene, _ = scene_of(2)
    assert scene.play("B1@0 B2@0 B1@1").triggered == [1]
    assert scene.play("B2@1").triggered == [1, 2]
    assert scene.play("B3@0 B4@0 B4@1 B3@1").triggered == [1, 2, 4]


def test_c5_unknown_older_ids_are_ignored() -> None:
    """C5: an id that is not above the newest and not pending is ignored."""
    scene, tracker = scene_of(2)
    scene.play("B5@0 B3@1 B3@0")
    assert (scene.effects, tracker.pending_ids, tracker.current) == ([], (5,), 5)


@pytest.mark.parametrize(
    ("channels", "before", "cancel", "aborted", "left"),
    [
        pytest.param(3, "", "C1@0", [1], (), id="above the newest, nothing pending"),
        pytest.param(3, "B1@0 B2@0", "C3@0", [1, 2, 3], (), id="above the newest, older pending"),
        pytest.param(3, "B1@0 B2@0", "C2@1", [1, 2], (), id="pending, older pending"),
        pytest.param(3, "B1@0 B2@0", "C1@1", [1], (2,), id="pending, newer stays"),
        pytest.param(3, "B1@0 B2@0 B4@0", "C3@1", [1, 2], (4,), id="unknown between: only the older"),
        pytest.param(3, "B1@0 C1@1", "C1@2", [], (), id="aborted already"),
        pytest.param(3, "C2@0 B2@1", "C2@2", [], (), id="aborted already, before its barriers"),
        pytest.param(3, "B2@0 B2@1 B2@2", "C2@0", [], (), id="completed"),
        pytest.param(3, "B2@0 B2@1 B2@2", "C1@0", [], (), id="older than completed"),
        pytest.param(1, "B1@0", "C2@0", [2], (), id="one channel, newer"),
        pytest.param(1, "B1@0", "C1@0", [], (), id="one channel, completed"),
        pytest.param(1, "C2@0", "C2@0", [], (), id="one channel, aborted already"),
        pytest.param(1, "B2@0", "C1@0", [], (), id="one channel, older"),
    ],
)
def test_c9_cancellation_table(
    channels: int, before: str, cancel: str, aborted: list[int], left: tuple[int, ...]
) -> None:
    """C9 and C2: what a marker aborts in each situation, and what stays pending."""
    scene, tracker = scene_of(channels)
    scene.play(before)
    scene.effects.clear()
    scene.play(cancel)
    assert (scene.mixed, tracker.pending_ids) == ([-checkpoint for checkpoint in aborted], left)
    scene.effects.clear()
    for channel in range(channels):
        scene.play(" ".join(f"B{checkpoint}@{channel}" for checkpoint in aborted))
    assert scene.effects == [], "the barriers of aborted checkpoints are stale"


def test_the_job_masters_word_takes_only_its_checkpoint() -> None:
    """An aborted checkpoint is dropped without effects; others go on; its late barriers are stale."""
    scene, tracker = scene_of(2)
    scene.play("B1@0 B2@0 B3@0")
    tracker.abort(2)
    assert (tracker.pending_ids, tracker.current) == ((1, 3), 3)
    assert scene.play("B1@1 B2@1 B3@1").mixed == [1, 3]
    tracker.abort(7)
    assert (scene.play("B7@0 B7@1").mixed, tracker.current) == ([1, 3], 3)
    assert scene.play("B6@0 B6@1 C7@0 B8@0 B8@1").mixed == [1, 3, 6, 8], (
        "an older one may still be on its way"
    )


def test_announcements_are_forgotten() -> None:
    """No start delay is kept of a checkpoint that began, was passed by, or was aborted."""
    tracker = CheckpointBarrierTracker(2)
    for checkpoint in (1, 2, 3, 4):
        assert tracker.announce(0, Barrier(checkpoint, 0), 7, 0) == []
    assert (tracker.current, tracker.pending) == (0, False)
    tracker.barrier(0, Barrier(3, 0), 9, 0)
    assert tracker._start_delays_ms == {4: 7}
    tracker.abort(4)
    assert tracker._start_delays_ms == {}
    assert tracker.announce(0, Barrier(4, 0), 7, 0) == []
    assert tracker._start_delays_ms == {}
    assert (tracker.timeout(1e9), tracker.next_timeout()) == ([], None)
