"""Each checkpoint as its barriers say: the scenarios sX* by id, forced channels, cancellation, E12 to E14.

Where a barrier overtakes, the scenarios of old have it come out before the data. Here it keeps its
place in the queue: the trigger comes before the data, the data are taken along, and the barrier
that is read later does nothing. Bytes (sX5) are counted by the gate and tested there.
"""

from __future__ import annotations

import pytest
from barrier_scenes import ORDER, Scene

from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.core.alignment.factory import AlternatingBarrierHandler
from headgate.core.alignment.handler_contract import (
    ON_CANCELLATION_BARRIER,
    SUBSUMED,
    AbortSnapshot,
    CompleteCapture,
    TriggerSnapshot,
)

NONE: frozenset[int] = frozenset()


def scene_of(
    channels: int, *, timeout_ms: int = 10, forced: frozenset[int] = NONE, awaited: frozenset[int] = NONE
) -> Scene:
    """A scene with an alternating handler."""
    handler = AlternatingBarrierHandler(channels, forced=forced, awaited=awaited)
    return Scene(handler, channels, timeout_ms)


def test_sx1_checkpoint_handling() -> None:
    """sX1: an unaligned checkpoint triggers on its first barrier, and nothing is blocked."""
    scene = scene_of(2).play("U123@0")
    assert (scene.triggered, scene.handler.blocked) == ([123], set())


def test_sx1_savepoint_handling() -> None:
    """sX1, B12: a savepoint's first barrier blocks its channel only; the second triggers and resumes both."""
    scene = scene_of(2).play("S123@0")
    assert (scene.triggered, scene.handler.blocked) == ([], {0})
    scene.play("S123@1")
    assert (scene.triggered, scene.handler.blocked, scene.resumed()) == ([123], set(), {0, 1})
    assert not scene.triggers[0].barrier.overtakes


def test_sx2_alternation() -> None:
    """sX2: checkpoints and savepoints in turn over 123 channels, all triggered, none aborted."""
    scene = scene_of(123)
    for checkpoint in range(123):
        for channel in range(123):
            scene.play(f"{'US'[checkpoint % 2]}{checkpoint}@{channel}")
    assert (scene.triggered, scene.aborted) == (list(range(123)), [])
    assert [effect.barrier.overtakes for effect in scene.triggers] == [c % 2 == 0 for c in range(123)]


def test_sx5_metrics_alternation() -> None:
    """sX5: durations and start delays of an aligned checkpoint, a savepoint and an unaligned checkpoint."""
    scene = scene_of(2)
    scene.created = {1: 999_990, 2: 1_000_001, 3: 1_000_004}
    scene.play("B1@0 b0 b1 +6 B1@1")
    assert scene.effects[-1] == TriggerSnapshot(Barrier(1, 999_990), 10.0, 6.0)
    scene.play("S2@0 b1 +5 S2@1")
    assert scene.effects[-1] == TriggerSnapshot(Barrier(2, 1_000_001, savepoint=ORDER), 5.0, 5.0)
    unaligned = Barrier(3, 1_000_004, Alignment.UNALIGNED)
    scene.play("U3@0 b0 b1x")
    assert scene.effects[2:] == [TriggerSnapshot(unaligned, 7.0, 0.0)]
    scene.play("+10 U3@1")
    assert scene.effects[3:] == [CompleteCapture(3, 10.0)]
    assert scene.in_flight == {"b1x"}


def test_sx6_active_timeout_on_announcement() -> None:
    """sX6: both barriers lie behind data; the deadline passes; one trigger, unaligned, before the data."""
    scene = scene_of(2).queue("b0a b0b T1@0 b1 T1@1")
    assert (scene.effects, scene.handler.next_timeout()) == ([], 10.0)
    scene.queue("+10")
    assert scene.effects == [], "the comparison is strict"
    scene.queue("+0.1")
    barrier = Barrier(1, 1_000_000, Alignment.UNALIGNED)
    assert scene.effects == [TriggerSnapshot(barrier, 0.0, 0.0), CompleteCapture(1, 0.0)]
    assert (scene.out, scene.in_flight) == ([], {"b0a", "b0b", "b1"})
    scene.read_all()
    assert [word for word in scene.out if word[0] == "b"] == ["b0a", "b0b", "b1"]
    assert (len(scene.effects), scene.handler.blocked, scene.handler.next_timeout()) == (2, set(), None)


def test_sx6_timeout_alignment() -> None:
    """sX6 with one barrier read: its block ends, the other's records are taken along, later ones count."""
    scene = scene_of(3).play("T1@0 b0")
    assert scene.handler.blocked == {0}
    scene.queue("b1 T1@1 +4").play("+7")
    assert (scene.triggered, scene.handler.blocked) == ([1], set())
    assert (scene.triggers[0].alignment_ms, scene.in_flight) == (11.0, {"b1"})
    assert scene.out == ["T1@0", "b0", "b1", "T1@1"]
    scene.play("b2 +1 T1@2")
    assert (scene.effects[1:], scene.in_flight) == ([CompleteCapture(1, 12.0)], {"b1", "b2"})


def test_the_deadline_follows_the_global_age() -> None:
    """The deadline counts from the trigger, not from the arrival, and later arrivals do not move it."""
    handler, barrier = AlternatingBarrierHandler(2), Barrier(1, 0, timeout_ms=100)
    assert handler.announce(0, barrier, 30, 1000.0) == []
    assert handler.next_timeout() == 1070.0
    assert handler.announce(1, barrier, 60, 1030.0) == []
    assert (handler.next_timeout(), handler.timeout(1070.0)) == (1070.0, [])
    assert handler.timeout(1070.5) == [
        TriggerSnapshot(barrier.as_unaligned(), 30, 0.0),
        CompleteCapture(1, 0.0),
    ]


@pytest.mark.parametrize(("age_ms", "switches"), [(99, False), (100, False), (101, True)])
def test_too_old_on_arrival(age_ms: int, switches: bool) -> None:
    """A barrier that is older than its timeout when it arrives overtakes at once; just as old it does not."""
    handler = AlternatingBarrierHandler(2)
    effects = handler.announce(0, Barrier(1, 0, timeout_ms=100), age_ms, 50.0)
    assert [type(effect) for effect in effects] == ([TriggerSnapshot] if switches else [])


def test_too_old_at_a_later_barrier_without_a_timer() -> None:
    """Nobody called `timeout`, but another barrier shows that the deadline is over: that switches too."""
    handler, barrier = AlternatingBarrierHandler(3), Barrier(1, 0, timeout_ms=100)
    handler.announce(0, barrier, 0, 0.0)
    assert handler.announce(1, barrier, 101, 90.0) == [TriggerSnapshot(barrier.as_unaligned(), 0, 0.0)]
    handler = AlternatingBarrierHandler(3)
    handler.announce(0, barrier, 0, 0.0)
    assert handler.end_of_partition(2, 100.5) == [TriggerSnapshot(barrier.as_unaligned(), 0, 0.0)]


def test_sx7_aligned_after_timed_out() -> None:
    """sX7: the switch is per checkpoint: the next one, fresh, aligns and keeps its timeout."""
    handler, first = AlternatingBarrierHandler(1), Barrier(1, 0, timeout_ms=100)
    assert handler.announce(0, first, 0, 0.0) == []
    assert handler.barrier(0, first, 101, 101.0) == [
        TriggerSnapshot(first.as_unaligned(), 0, 0.0),
        CompleteCapture(1, 0.0),
    ]
    second = Barrier(2, 101, timeout_ms=100)
    effects = handler.announce(0, second, 0, 101.0) + handler.barrier(0, second, 0, 101.0)
    assert effects == [TriggerSnapshot(second, 0, 0.0)]


def test_sx8_never_timeoutable() -> None:
    """sX8: a timeout of the greatest int waits for both barriers."""
    scene = scene_of(2, timeout_ms=2**31 - 1).play("T1@0 +100000")
    assert (scene.effects, scene.handler.blocked) == ([], {0})
    scene.play("T1@1")
    assert scene.effects == [TriggerSnapshot(Barrier(1, 1_000_000, timeout_ms=2**31 - 1), 0.0, 100_000.0)]


def test_sx8_savepoints_and_plain_barriers_never_time_out() -> None:
    """sX8: without a timeout, or for a savepoint, no clock runs."""
    for barrier in (Barrier(1, 0), Barrier(1, 0, timeout_ms=5, savepoint=ORDER)):
        handler = AlternatingBarrierHandler(2)
        assert handler.announce(0, barrier, 50, 0.0) + handler.barrier(0, barrier, 50, 0.0) == []
        assert (handler.next_timeout(), handler.timeout(1e9)) == (None, [])
        assert handler.barrier(1, barrier, 90, 40.0) == [TriggerSnapshot(barrier, 50, 40.0)]


def test_sx8_no_timeout_after_the_last_barrier() -> None:
    """sX8: a checkpoint that completed in time stays aligned, and its timer does nothing."""
    scene = scene_of(2).play("T1@0 T1@1")
    assert scene.handler.next_timeout() is None
    scene.play("+11")
    assert scene.effects == [TriggerSnapshot(Barrier(1, 1_000_000, timeout_ms=10), 0.0, 0.0)]


def test_sx8_no_timeout_after_abort() -> None:
    """sX8: after the markers nothing is triggered, whatever time it is."""
    scene = scene_of(2).play("T1@0 C1@1")
    assert scene.handler.next_timeout() is None
    assert scene.play("+11").effects == [AbortSnapshot(1, ON_CANCELLATION_BARRIER)]


def test_sx8_no_timeout_after_close() -> None:
    """sX8: a gate that is closed ends what is pending; a timer that fires all the same triggers nothing."""
    scene = scene_of(2).play("T1@0")
    scene.handler.abort(scene.handler.current)
    assert scene.handler.next_timeout() is None
    assert scene.play("+11").effects == []


def test_sx11_timeout_alignment_on_unaligned_checkpoint() -> None:
    """sX11: an aligned barrier, then an unaligned one behind two buffers: one trigger, two buffers stored."""
    scene = scene_of(3).play("T1@0")
    assert scene.handler.blocked == {0}
    scene.queue("b1a b1b U1@1")
    assert (scene.triggered, scene.in_flight) == ([1], {"b1a", "b1b"})
    assert (scene.triggers[0].barrier.overtakes, scene.handler.blocked) == (True, set())
    scene.play("U1@2")
    assert (scene.triggered, scene.kinds[-1]) == ([1], "CompleteCapture")


def test_sx11_switch_to_unaligned_by_upstream() -> None:
    """sX11: only announced on one channel, unaligned on the other: one trigger, and both count."""
    scene = scene_of(2).queue("b0 T1@0")
    assert scene.effects == []
    scene.queue("U1@1")
    assert scene.kinds == ["TriggerSnapshot", "CompleteCapture"]
    assert (scene.triggered, scene.in_flight) == ([1], {"b0"})
    scene.read_all()
    assert scene.kinds == ["TriggerSnapshot", "CompleteCapture"]


def test_sx11_channel_reset_on_new_barrier() -> None:
    """sX11: a buffer behind a savepoint's barrier is in flight for the checkpoint that subsumes it."""
    scene = scene_of(2).play("S0@0 b0")
    assert (scene.handler.blocked, scene.out) == ({0}, ["S0@0"])
    scene.queue("U1@1")
    assert (scene.mixed, scene.reasons, scene.in_flight) == ([0, 1], [SUBSUMED], {"b0"})
    scene.read_all()
    assert scene.out == ["S0@0", "b0", "U1@1"]


def test_e12_older_barriers_are_ignored() -> None:
    """E12: barriers below the last seen id do nothing, of whatever kind."""
    scene = scene_of(2).play("U5@0 U5@1 S3@0 U4@1 T2@0 B1@1")
    assert (scene.triggered, scene.aborted, scene.handler.pending) == ([5], [], False)


@pytest.mark.parametrize(
    ("text", "mixed"),
    [("S1@0 U2@1", [-1, 2]), ("U1@0 S2@1 S2@0", [1, -1, 2]), ("T1@0 S2@1 S2@0", [-1, 2])],
)
def test_e13_a_change_of_kind_subsumes(text: str, mixed: list[int]) -> None:
    """E13: a newer checkpoint of the other kind aborts the pending one as subsumed."""
    scene = scene_of(2).play(text)
    assert (scene.mixed, scene.reasons) == (mixed, [SUBSUMED])


def test_a_timeoutable_announcement_subsumes_at_once() -> None:
    """A newer checkpoint that may overtake does not wait until it is read to subsume a pending one."""
    scene = scene_of(2).play("T1@0").queue("b1 T2@1")
    assert (scene.mixed, scene.handler.current, scene.handler.blocked) == ([-1], 2, set())


def test_e14_end_of_partition_counts_for_both_kinds() -> None:
    """E14: a channel that ended is missing neither to an unaligned checkpoint nor to a savepoint."""
    scene = scene_of(3).play("E2 S1@0 S1@1 U2@0 U2@1")
    assert scene.kinds == ["TriggerSnapshot", "TriggerSnapshot", "CompleteCapture"]
    scene = scene_of(2).play("T1@0 E1")
    assert scene.effects == [TriggerSnapshot(Barrier(1, 1_000_000, timeout_ms=10), 0.0, 0.0)]


@pytest.mark.parametrize(
    ("before", "cancel", "expected"),
    [
        pytest.param("", "C2@0", [(2, ON_CANCELLATION_BARRIER)], id="D12 first sign"),
        pytest.param("S1@0", "C1@1", [(1, ON_CANCELLATION_BARRIER)], id="D10 aligning, same"),
        pytest.param("T1@0", "C1@1", [(1, ON_CANCELLATION_BARRIER)], id="D10 timeoutable, same"),
        pytest.param("S1@0", "C2@1", [(2, ON_CANCELLATION_BARRIER)], id="D11 aligning, greater"),
        pytest.param("S2@0", "C1@1", [], id="D13 aligning, smaller"),
        pytest.param("U1@0", "C1@1", [(1, ON_CANCELLATION_BARRIER)], id="E7 capturing, same"),
        pytest.param(
            "U1@0", "C2@1", [(1, SUBSUMED), (2, ON_CANCELLATION_BARRIER)], id="E7 capturing, greater"
        ),
        pytest.param("U2@0", "C1@1", [], id="E7 capturing, smaller"),
        pytest.param("T1@0 +11", "C1@1", [(1, ON_CANCELLATION_BARRIER)], id="E7 switched, same"),
        pytest.param("S1@0 S1@1", "C1@1", [], id="D13 savepoint completed"),
        pytest.param("U1@0 U1@1", "C1@1", [], id="E8 unaligned completed"),
        pytest.param("T1@0 +11 T1@1", "C1@1", [], id="E8 switched and completed"),
        pytest.param("C2@0", "C2@1", [], id="cancelled already"),
    ],
)
def test_cancellation_table(before: str, cancel: str, expected: list[tuple[int, str]]) -> None:
    """What a marker aborts in each phase; what it does not abort goes on; what it does comes no more."""
    scene = scene_of(2).play(before)
    state = (scene.handler.current, scene.handler.pending, set(scene.handler.blocked))
    scene.effects.clear()
    scene.play(cancel)
    assert scene.effects == [AbortSnapshot(*abort) for abort in expected]
    after = (scene.handler.current, scene.handler.pending, set(scene.handler.blocked))
    assert after == ((expected[-1][0], False, set()) if expected else state)
    scene.effects.clear()
    scene.play("+50")
    for channel in (0, 1):
        scene.play(" ".join(f"T{checkpoint}@{channel}" for checkpoint, _ in expected))
    assert scene.effects == []


def test_a_barrier_read_while_its_announcement_is_all_there_is() -> None:
    """A marker cancels a checkpoint that was announced only."""
    scene = scene_of(2).queue("b0 T1@0")
    assert scene.handler.cancel(1) == [AbortSnapshot(1, ON_CANCELLATION_BARRIER)]
    scene.read_all()
    assert (scene.effects, scene.handler.blocked) == ([], set())


# -- forced channels ------------------------------------------------------------------------------


def test_forced_the_switch_waits_for_the_forced_channel() -> None:
    """Overdue or unaligned, a checkpoint aligns until the forced barrier is read, then it switches."""
    scene = scene_of(3, forced=frozenset({0})).queue("b1 U1@1 b0 F1@0")
    assert scene.effects == []
    assert scene.read()
    assert scene.read()
    assert (scene.out, scene.handler.blocked) == (["b1", "U1@1"], {1})
    scene.queue("b2")
    scene.read_all()
    assert (scene.triggered, scene.handler.blocked) == ([1], set())
    assert scene.out == ["b1", "U1@1", "b0", "F1@0", "b2"]
    assert scene.in_flight == {"b2"}
    assert scene.play("b2x U1@2").kinds == ["TriggerSnapshot", "CompleteCapture"]
    assert scene.in_flight == {"b2", "b2x"}


def test_forced_no_timer_while_a_forced_barrier_is_awaited() -> None:
    """No deadline is announced that could do nothing; once the forced barrier is read, a past one counts."""
    scene = scene_of(3, forced=frozenset({0})).play("T1@1")
    assert scene.handler.next_timeout() is None
    scene.play("+11")
    assert (scene.effects, scene.handler.blocked) == ([], {1})
    scene.play("F1@0")
    assert (scene.triggered, scene.triggers[0].barrier.overtakes) == ([1], True)


def test_forced_the_deadline_stands_when_the_forced_barrier_is_in_time() -> None:
    """After the forced barrier was read, the others' timeout runs as ever."""
    scene = scene_of(3, forced=frozenset({0})).play("T1@1 F1@0")
    assert (scene.effects, scene.handler.next_timeout()) == ([], 10.0)
    scene.play("+11")
    assert scene.triggered == [1]


def test_forced_all_read_in_order_completes_as_aligned() -> None:
    """All barriers read in time: the aligned barrier goes on with its timeout."""
    scene = scene_of(2, forced=frozenset({0})).play("T1@1 F1@0")
    assert scene.effects == [TriggerSnapshot(Barrier(1, 1_000_000, timeout_ms=10), 0.0, 0.0)]


def test_forced_all_read_in_order_with_an_unaligned_one_overtakes_downstream() -> None:
    """All read in order, one of them unaligned: forwarded as unaligned, with nothing to take along."""
    scene = scene_of(2, forced=frozenset({0})).play("U1@1 +3 F1@0")
    barrier = Barrier(1, 1_000_000, Alignment.UNALIGNED)
    assert scene.effects == [TriggerSnapshot(barrier, 0.0, 3.0), CompleteCapture(1, 3.0)]
    assert (scene.in_flight, scene.handler.blocked) == (set(), set())


@pytest.mark.parametrize("forced", [frozenset({0, 1}), frozenset()])
def test_forced_first_barrier_means_an_unaligned_checkpoint(forced: frozenset[int]) -> None:
    """A forced barrier as the first belongs to an unaligned checkpoint, named as forced or not."""
    scene = scene_of(2, forced=forced).queue("b0 F1@0 b1 F1@1")
    assert scene.effects == []
    scene.read_all()
    assert scene.effects[0] == TriggerSnapshot(Barrier(1, 1_000_000, Alignment.UNALIGNED), 0.0, 0.0)
    assert scene.kinds == ["TriggerSnapshot", "CompleteCapture"]
    assert scene.in_flight == set()


def test_forced_channel_that_ends_is_awaited_no_more() -> None:
    """The end of the last forced channel lets the checkpoint switch."""
    scene = scene_of(3, forced=frozenset({0})).queue("b1 U1@1")
    assert scene.effects == []
    scene.play("E0")
    assert (scene.triggered, scene.in_flight) == ([1], set())
    assert scene.play("b2 U1@2").kinds == ["TriggerSnapshot", "CompleteCapture"]
    assert scene.in_flight == {"b2"}


# -- awaited channels -----------------------------------------------------------------------------


def test_awaited_nothing_overtakes_before_the_barrier_has_arrived() -> None:
    """Until then the checkpoint aligns; the arrival is enough, the records ahead of it are taken along."""
    scene = scene_of(3, awaited=frozenset({0})).queue("b1 U1@1")
    scene.read_all()
    assert (scene.effects, scene.handler.blocked) == ([], {1})
    scene.play("b0").queue("b0x U1@0")
    assert (scene.triggered, scene.handler.blocked) == ([1], set())
    assert (scene.out, scene.in_flight) == (["b1", "U1@1", "b0"], {"b0x"})
    assert scene.play("U1@2").kinds == ["TriggerSnapshot", "CompleteCapture"]


def test_awaited_no_timer_before_the_barrier_has_arrived() -> None:
    """No deadline is announced that could do nothing; with the last arrival a past one counts."""
    scene = scene_of(3, awaited=frozenset({0})).play("T1@1")
    assert scene.handler.next_timeout() is None
    scene.play("+11")
    assert (scene.effects, scene.handler.blocked) == ([], {1})
    scene.queue("b0 T1@0")
    assert (scene.triggered, scene.triggers[0].barrier.overtakes) == ([1], True)


def test_awaited_channel_that_ends_is_awaited_no_more() -> None:
    """Its end lets the checkpoint overtake."""
    scene = scene_of(3, awaited=frozenset({0})).queue("b1 U1@1")
    assert scene.effects == []
    assert scene.play("E0").triggered == [1]


def test_a_savepoint_aligns_whatever_its_barrier_says() -> None:
    """A savepoint's barrier that may overtake downstream aligns here, and has nothing to take along."""
    handler, barrier = (
        AlternatingBarrierHandler(2),
        Barrier(1, 0, Alignment.UNALIGNED, savepoint=ORDER),
    )
    assert handler.announce(0, barrier, 0, 0.0) + handler.barrier(0, barrier, 0, 0.0) == []
    assert handler.blocked == {0}
    effects = handler.announce(1, barrier, 0, 4.0) + handler.barrier(1, barrier, 0, 4.0)
    assert effects == [TriggerSnapshot(barrier, 0, 4.0), CompleteCapture(1, 4.0)]
    assert (handler.blocked, handler.pending) == (set(), False)
