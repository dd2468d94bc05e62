"""The gate with its barriers: what is told to the handler, what comes out, what is captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from barrier_scenes import ORDER, UnalignedBarrierHandler

from headgate.common.errors import InternalError
from headgate.core.alignment.at_least_once_handler import CheckpointBarrierTracker
from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.core.alignment.checkpointed_gate import CheckpointedInputGate, Clocks, Kind
from headgate.core.alignment.factory import AlignedBarrierHandler, AlternatingBarrierHandler
from headgate.core.alignment.handler_contract import (
    AbortSnapshot,
    BarrierHandler,
    CompleteCapture,
    Effect,
    TriggerSnapshot,
)

HANDLERS: list[Callable[[int], BarrierHandler]] = [
    CheckpointBarrierTracker,
    AlignedBarrierHandler,
    UnalignedBarrierHandler,
    AlternatingBarrierHandler,
]
BUFFER_BYTES = 1000


class Data(NamedTuple):
    """A buffer, by name."""

    name: str


class Cancel(NamedTuple):
    """A cancel marker."""

    checkpoint: int


class Event(NamedTuple):
    """Something that is nobody's business here."""

    name: str


class End(NamedTuple):
    """The end of a channel."""

    channel: int


KINDS = {Data: Kind.RECORDS, Barrier: Kind.BARRIER, Cancel: Kind.CANCEL, End: Kind.END_OF_PARTITION}


class Player:
    """Plays the scenarios of the conformance list: `b0` data, `B1@0` barrier, `C1@0` cancel marker, `E0` end.

    Attributes:
        out: names of all that came out, in order.
        triggered: checkpoints triggered, in order.
        aborted: checkpoints aborted, in order.
        captured: names of the data in flight of each checkpoint.
        effects: all of them.
    """

    def __init__(self, channels: int, handler: BarrierHandler, **options: Any) -> None:
        self.gate = CheckpointedInputGate(
            channels, handler, lambda e: KINDS.get(type(e), Kind.OTHER), lambda _: BUFFER_BYTES
        )
        self.now = 1000
        self.options: dict[str, Any] = {"alignment": Alignment.ALIGNED, "trigger_ms": 1000} | options
        self.out: list[str] = []
        self.effects: list[Effect] = []
        self.captured: dict[int, list[str]] = {}
        for channel in range(channels):
            self.gate.put(channel, Event("hello"))
        self.drain()
        self.out.clear()

    def put(self, text: str, **options: Any) -> None:
        """Elements arrive."""
        for word in text.split():
            verb, of, channel = word[0], *word[1:].rstrip("*").partition("@")[::2]
            if verb == "b":
                self.gate.put(int(of), Data(word))
            elif verb == "E":
                self.gate.put(int(of), End(int(of)))
            elif verb == "C":
                self.gate.put(int(channel), Cancel(int(of)))
            else:
                self.gate.put(int(channel), Barrier(checkpoint=int(of), **self.options | options))
            self._take([])

    def announce(self) -> None:
        """The handler hears of what arrived, and of the time."""
        self._take(self.gate.announce(self.clocks))
        while self.gate.urgent:
            self._take(self.gate.announce(self.clocks))

    def drain(self) -> None:
        """Everything that may be read is read."""
        while self.gate.available:
            polled = self.gate.poll(self.clocks)
            assert polled is not None
            self.out.append(getattr(polled[1], "name", str(polled[1])))
            self._take(polled[2])

    def play(self, text: str, **options: Any) -> Player:
        """Elements arrive one by one, and are read as soon as they may be."""
        for word in text.split():
            self.put(word, **options)
            self.announce()
            self.drain()
        return self

    def _take(self, effects: list[Effect]) -> None:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, TriggerSnapshot) and effect.barrier.overtakes:
                self.captured[effect.barrier.checkpoint] = []
        for _, element in self.gate.take_captured():
            self.captured[max(self.captured)].append(element.name)

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.now, float(self.now))

    @property
    def data(self) -> list[str]:
        return [name for name in self.out if name[0] == "b"]

    @property
    def triggered(self) -> list[int]:
        return [e.barrier.checkpoint for e in self.effects if isinstance(e, TriggerSnapshot)]

    @property
    def aborted(self) -> list[int]:
        return [e.checkpoint for e in self.effects if isinstance(e, AbortSnapshot)]

    @property
    def completed(self) -> list[int]:
        return [e.checkpoint for e in self.effects if isinstance(e, CompleteCapture)]

    @property
    def blocked(self) -> set[int]:
        return set(self.gate.handler.blocked)


def unaligned(channels: int) -> Player:
    """Barriers that overtake."""
    return Player(channels, UnalignedBarrierHandler(channels), alignment=Alignment.UNALIGNED)


def aligned(channels: int) -> Player:
    """Barriers that align."""
    return Player(channels, AlignedBarrierHandler(channels))


@pytest.mark.parametrize("handler", HANDLERS)
def test_b1_b3_everything_that_is_read_comes_out(handler: Callable[[int], BarrierHandler]) -> None:
    """Buffers, barriers, cancel markers, ends and other events come out in order, whatever the handler."""
    player = Player(1, handler(1))
    elements = [Data("b0"), Barrier(1, 1000), Event("w"), Cancel(2), Data("b0"), End(0)]
    for element in elements:
        player.gate.put(0, element)
    player.announce()
    read = [player.gate.poll(player.clocks) for _ in elements]
    assert [polled[:2] for polled in read if polled] == [(0, element) for element in elements]
    assert player.gate.poll(player.clocks) is None


def test_b2_reading_a_channel_that_the_handler_blocks_is_an_internal_error() -> None:
    """The gate does not go on when its handler blocked a channel behind its back."""
    player = aligned(2)
    handler = player.gate.handler
    player.put("b0 b1")
    handler.barrier(0, Barrier(1, 1000), 0.0, 1000.0)
    with pytest.raises(InternalError, match="read from channel 0, which checkpoint 1 blocks"):
        player.drain()


@pytest.mark.parametrize("handler", HANDLERS)
def test_b4_b5_a_gate_without_barriers(handler: Callable[[int], BarrierHandler]) -> None:
    """With each handler: nothing blocked, captured, urgent or due; an abort of what never was is harmless."""
    player = Player(2, handler(2))
    gate = player.gate
    gate.abort(7)
    assert not gate.handler.blocked
    assert gate.capturing is None
    assert gate.take_captured() == []
    assert not gate.urgent
    assert gate.next_timeout() is None
    assert gate.last_channel is None
    assert gate.bytes_processed == 0
    assert player.play("b0 b1 b0").data == ["b0", "b1", "b0"]


def test_nothing_is_available_while_only_blocked_channels_hold_data() -> None:
    """Nobody needs to look again until something arrives."""
    player = aligned(2)
    player.play("B1@0 b0 b0")
    assert not player.gate.available
    assert player.gate.poll(player.clocks) is None
    assert player.gate.queued(0) == 2
    player.play("B1@1")
    assert player.triggered == [1]
    assert player.data == ["b0", "b0"]


def test_sl2_multi_channel_with_barriers() -> None:
    """sL2: data behind a barrier waits until the barriers of all channels are read; then all go on."""
    player = aligned(3).play("b0 b2 b0 B1@1 B1@2 b0")
    assert player.blocked == {1, 2}
    assert player.play("B1@0").triggered == [1]
    assert player.blocked == set()
    player.play("b0 b0 b1 b1 b2 B2@0 B2@1 B2@2")
    assert (player.triggered, player.blocked) == ([1, 2], set())
    player.play("b2 b2 B3@2 b2 b0 b0")
    assert player.data[-3:] == ["b2", "b0", "b0"]
    assert player.gate.queued(2) == 1
    player.play("B3@0 B3@1")
    assert (player.triggered, player.data[-1]) == ([1, 2, 3], "b2")
    player.play("B4@1 B4@2 B4@0")
    assert (player.triggered, player.blocked) == ([1, 2, 3, 4], set())
    assert player.play("b0 E0 E1 E2").out[-4:] == ["b0", "End(channel=0)", "End(channel=1)", "End(channel=2)"]


def test_sl4_missing_cancellation_barriers() -> None:
    """sL4: a newer cancel marker ends the alignment; older and repeated ones are ignored and come out."""
    player = aligned(2).play("B1@0")
    assert player.blocked == {0}
    player.play("C3@1")
    assert player.blocked == set()
    player.play("C2@0 C3@0 b0")
    assert (player.triggered, player.aborted, player.out[-1]) == ([], [3], "b0")
    assert [name for name in player.out if "Cancel" in name] == [f"Cancel(checkpoint={n})" for n in (3, 2, 3)]


def test_sl8_multi_channel_abort() -> None:
    """sL8: three checkpoints complete, two are cancelled; what waited behind the cancelled ones is read."""
    player = aligned(3).play("B1@1 B1@2 b0 B1@0 b0 b2 B2@0 B2@2 b0 b2 b1")
    assert player.blocked == {0, 2}
    player.play("C2@1")
    assert player.blocked == set()
    assert player.data[-2:] == ["b0", "b2"]
    player.play("b2 b1 B3@1 B3@2 B3@0 b0 b1 C4@1 B4@2")
    assert player.blocked == set()
    player.play("b2 B4@0 b0 b1 b2 B5@2 B5@1 B5@0 b0 b1 C6@1 C6@2 B6@0 b0")
    assert (player.triggered, player.aborted) == ([1, 3, 5], [2, 4, 6])
    assert (player.blocked, player.gate.available) == (set(), False)
    assert [player.data.count(name) for name in ("b0", "b1", "b2")] == [7, 5, 5]


def test_su4_end_of_stream_while_a_checkpoint_runs() -> None:
    """sU4: what arrived ahead of a barrier is in flight; the end of its channel counts as the barrier."""
    player = unaligned(3).play("B1@0 B1@1 B1@2")
    assert (player.triggered, player.captured[1], player.aborted) == ([1], [], [])
    player.play("b0 b0 b2 B2@2 B2@0 b0 b2 b1*")
    assert (player.triggered, player.captured[2], player.gate.capturing) == ([1, 2], ["b1*"], 2)
    player.play("E2")
    assert player.gate.capturing == 2
    player.play("E1 b0 E0")
    assert (player.captured[2], player.completed, player.aborted) == (["b1*"], [1, 2], [])
    assert player.gate.capturing is None
    assert len(player.data) == 7


def test_su5_abort_on_one_channel_and_on_several() -> None:
    """sU5: a cancelled checkpoint that began captures nothing more; one that did not never begins."""
    player = unaligned(1).play("B1@0 b0 B2@0 C4@0 B5@0 b0 C6@0")
    assert (player.triggered, player.aborted) == ([1, 2, 5], [4, 6])
    player = unaligned(3).play("C4@1 B4@2 b0 B4@0 C6@1 C6@2 B6@0 b1")
    assert (player.triggered, player.aborted, player.captured) == ([], [4, 6], {})
    assert player.data == ["b0", "b1"]


def test_su9_ends_of_partition_with_a_pending_checkpoint() -> None:
    """sU9: an end counts as the barrier of its channel, and what came before it is in flight."""
    player = unaligned(2).play("B1@0 E1")
    assert (player.triggered, player.completed, player.gate.handler.pending) == ([1], [1], False)
    player = unaligned(3).play("B1@1 b0* B1@0 b1 E2 E0 E1")
    assert (player.triggered, player.aborted, player.captured) == ([1], [], {1: ["b0*"]})
    assert player.completed == [1]
    player = unaligned(3).play("E0 B3@1 b1 b2* E1 B3@2")
    assert (player.triggered, player.captured, player.completed) == ([3], {3: ["b2*"]}, [3])
    player.play("b2 B4@2 E2")
    assert (player.triggered, player.completed, player.captured[4]) == ([3, 4], [3, 4], [])


def test_sx5_metrics() -> None:
    """sX5: bytes are what is read while a checkpoint is pending; data behind a barrier does not count."""
    player = Player(2, AlternatingBarrierHandler(2))
    player.play("b0 B1@0 b0 b1 b1", trigger_ms=player.now - 10)
    player.now += 6
    player.play("B1@1", trigger_ms=player.now - 16)
    first = player.effects[-1]
    assert isinstance(first, TriggerSnapshot)
    assert (first.alignment_ms, first.start_delay_ms) == (6.0, 10.0)
    assert (player.gate.bytes_processed, player.gate.last_channel) == (2000, 1)
    player.play("B2@0", trigger_ms=player.now - 5, savepoint=ORDER)
    assert (player.gate.bytes_processed, player.gate.last_channel) == (0, 1)
    player.play("b1")
    player.now += 5
    player.play("B2@1 b0 b1", trigger_ms=player.now - 10, savepoint=ORDER)
    assert player.gate.bytes_processed == 1000
    player.play("B3@0 b0 b1", alignment=Alignment.UNALIGNED)
    player.now += 10
    player.play("B3@1 b1", alignment=Alignment.UNALIGNED)
    assert (player.gate.bytes_processed, player.captured[3]) == (2000, ["b1"])
    assert player.effects[-1] == CompleteCapture(3, 10.0)


def test_sx6_timeout_while_nothing_is_read() -> None:
    """sX6: announced barriers overtake when the checkpoint is too old: once, and before the data."""
    player = Player(2, AlternatingBarrierHandler(2), timeout_ms=10)
    player.put("b0 b0 B1@0 b1 B1@1")
    player.announce()
    assert (player.triggered, player.gate.next_timeout()) == ([], 1010.0)
    player.now += 11
    player.announce()
    assert [type(effect) for effect in player.effects] == [TriggerSnapshot, CompleteCapture]
    assert player.effects[0].barrier.overtakes  # type: ignore[union-attr]
    assert (player.data, player.captured) == ([], {1: ["b0", "b0", "b1"]})
    player.drain()
    assert (sorted(player.data), player.triggered) == (["b0", "b0", "b1"], [1])


def test_sx11_unaligned_barriers_from_upstream() -> None:
    """sX11: one channel's barrier that overtakes makes the checkpoint unaligned; so does a newer one's."""
    player = Player(3, AlternatingBarrierHandler(3), timeout_ms=100_000).play("B1@0 b0")
    player.put("b1 b1 B1@1", alignment=Alignment.UNALIGNED, timeout_ms=None)
    player.announce()
    assert (player.triggered, player.captured) == ([1], {1: ["b1", "b1"]})
    assert player.play("B1@2").completed == [1]
    assert player.captured == {1: ["b1", "b1"]}

    player = Player(2, AlternatingBarrierHandler(2), timeout_ms=100_000)
    player.put("b0 B1@0")
    player.announce()
    player.put("B1@1", alignment=Alignment.UNALIGNED, timeout_ms=None)
    player.announce()
    player.drain()
    assert (player.triggered, player.captured, player.completed) == ([1], {1: ["b0"]}, [1])

    player = Player(2, AlternatingBarrierHandler(2)).play("B1@0 b0", savepoint=ORDER)
    assert player.blocked == {0}
    player.play("B2@1", alignment=Alignment.UNALIGNED)
    assert (player.aborted, player.triggered, player.captured) == ([1], [2], {2: ["b0"]})
    assert (player.blocked, player.data) == (set(), ["b0"])


def test_capture_goes_by_position_and_takes_events_along() -> None:
    """The same object may be queued twice, on both sides of a barrier; barriers and ends are not captured."""
    player = unaligned(2)
    same, event = Data("same"), Event("w")
    older, newer = (Barrier(n, 1000, Alignment.UNALIGNED) for n in (1, 2))
    for element in (same, event, same, newer, same):
        player.gate.put(0, element)
    player.gate.put(1, older)
    player.gate.put(1, same)
    player.announce()
    assert (player.triggered, player.captured[2]) == ([2], ["same", "w", "same", "same"])
    player.gate.put(1, event)
    player.gate.put(1, newer)
    player.gate.put(1, same)
    player.announce()
    assert player.captured[2] == ["same", "w", "same", "same", "w"]
    assert player.completed == [2]


def test_a_barrier_that_was_not_announced_is_announced_when_it_is_read() -> None:
    """Together with those that arrived before it, in their order."""
    player = unaligned(3)
    player.put("b2 B1@2 B1@0 B1@1")
    player.gate.poll(player.clocks)
    polled = player.gate.poll(player.clocks)
    assert polled is not None
    assert polled[0] == 0
    assert [type(effect) for effect in polled[2]] == [TriggerSnapshot]
    assert player.gate.urgent
    assert player.gate.take_captured() == []


def test_announcing_stops_behind_a_completed_checkpoint() -> None:
    """So that what was captured for it can be told from what is captured for the next."""
    player = unaligned(2)
    player.put("b0 B1@0 b0 B2@0 B1@1 B2@1")
    gate = player.gate
    first = gate.announce(player.clocks)
    assert [type(effect) for effect in first] == [
        TriggerSnapshot,
        AbortSnapshot,
        TriggerSnapshot,
        CompleteCapture,
    ]
    player = unaligned(2)
    player.put("b0 B1@0 B1@1 b1 B2@1 B2@0")
    gate = player.gate
    gate.announce(player.clocks)
    assert (gate.take_captured(), gate.urgent) == ([(0, Data("b0"))], True)
    gate.announce(player.clocks)
    # Nothing was read meanwhile: what was in flight for the first is in flight for the second, too.
    assert (gate.take_captured(), gate.urgent) == ([(0, Data("b0")), (1, Data("b1"))], False)


def test_captures_are_not_mixed() -> None:
    """A caller that does not take what was captured is told so before it could be misattributed."""
    player = unaligned(2)
    player.put("b0 B1@0 B1@1 B2@0")
    player.gate.announce(player.clocks)
    with pytest.raises(InternalError, match="captured before checkpoint 2 was not taken"):
        player.gate.announce(player.clocks)


def test_the_job_masters_word_ends_a_capture_and_a_wait() -> None:
    """Nothing is captured for it any more, and blocked channels are read again."""
    player = unaligned(2).play("B1@0 b1")
    assert (player.gate.capturing, player.captured[1]) == (1, ["b1"])
    player.gate.abort(1)
    assert player.gate.capturing is None
    player.play("b1 B1@1")
    assert (player.captured[1], player.completed, player.aborted) == (["b1"], [], [])
    player = aligned(2).play("B1@0 b0")
    assert not player.gate.available
    player.gate.abort(1)
    player.drain()
    assert (player.data, player.play("B1@1").triggered) == (["b0"], [])


def test_only_control_reads_barriers_and_cancel_markers_only() -> None:
    """Where data is next nothing is read, and channels keep their places in line."""
    player = Player(3, AlignedBarrierHandler(3))
    gate = player.gate
    player.put("b0 b1 b2")
    assert gate.poll(player.clocks, only_control=True) is None
    player.put("B1@0 B1@2 C1@1")
    assert gate.poll(player.clocks, only_control=True) is None
    for expected in (0, 1):
        polled = gate.poll(player.clocks)
        assert polled is not None
        assert polled[0] == expected
    polled = gate.poll(player.clocks, only_control=True)
    assert polled is not None
    assert polled[:2] == (0, Barrier(1, 1000))
    polled = gate.poll(player.clocks, only_control=True)
    assert polled is not None
    assert polled[:2] == (1, Cancel(1))
    assert [type(effect) for effect in polled[2]] == [AbortSnapshot]
    assert gate.poll(player.clocks, only_control=True) is None
    player.drain()
    assert player.out == ["b2", str(Barrier(1, 1000))]


def test_a_barrier_can_be_the_first_sign_of_a_channel() -> None:
    """It opens the gate like anything else, and counts before that when it overtakes."""
    handler = UnalignedBarrierHandler(2)
    gate = CheckpointedInputGate(2, handler, lambda e: KINDS.get(type(e), Kind.OTHER), lambda _: 1)
    gate.put(0, Data("b0"))
    gate.put(0, Barrier(1, 0, Alignment.UNALIGNED))
    assert [type(effect) for effect in gate.announce(Clocks(0, 0.0))] == [TriggerSnapshot]
    assert gate.take_captured() == [(0, Data("b0"))]
    assert not gate.available
    gate.put(1, Barrier(1, 0, Alignment.UNALIGNED))
    polled = gate.poll(Clocks(0, 0.0))
    assert polled is not None
    assert (polled[0], [type(effect) for effect in polled[2]]) == (1, [CompleteCapture])


def test_the_last_channel_is_the_one_that_is_waited_for() -> None:
    """While several are missing nobody is the last; then the one missing; then the one that completed."""
    player = aligned(3).play("B1@0")
    assert player.gate.last_channel is None
    player.play("B1@2")
    assert player.gate.last_channel == 1
    player.play("B1@1")
    assert (player.gate.last_channel, player.triggered) == (1, [1])
    player.play("B2@0 C2@1")
    assert player.gate.last_channel is None


class Recorder(UnalignedBarrierHandler):
    """Notes what it is told of barriers."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.told: list[tuple[str, int]] = []

    def announce(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        self.told.append(("announce", channel))
        return super().announce(channel, barrier, age_ms, now_ms)

    def barrier(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        self.told.append(("barrier", channel))
        return super().barrier(channel, barrier, age_ms, now_ms)


def test_a_handler_hears_of_a_barrier_once_on_arrival_and_then_when_it_is_read() -> None:
    """Also of one that is read before anybody announced it, and never of its arrival afterwards."""
    handler = Recorder(2)
    player = Player(2, handler, alignment=Alignment.UNALIGNED)
    player.put("B1@1 B1@0")
    player.drain()
    player.announce()
    assert handler.told == [("announce", 1), ("barrier", 1), ("announce", 0), ("barrier", 0)]


class Forgetful(UnalignedBarrierHandler):
    """Ends the checkpoint at a cancel marker and says nothing of it."""

    def cancel(self, checkpoint: int) -> list[Effect]:
        super().cancel(checkpoint)
        return []


def test_a_capture_ends_when_the_handler_waits_no_longer_even_where_no_effect_says_so() -> None:
    """Otherwise everything that arrives would be kept for a checkpoint that nobody completes."""
    player = Player(2, Forgetful(2), alignment=Alignment.UNALIGNED).play("B1@0 b1")
    assert player.gate.capturing == 1
    player.play("C1@1 b1")
    assert (player.gate.capturing, player.captured) == (None, {1: ["b1"]})
