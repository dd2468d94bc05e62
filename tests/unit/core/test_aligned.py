"""Exactly-once alignment: the scenarios by id, and every interleaving of three channels and two checkpoints.

The scenarios sL* are rows of `reference/conformance.md`, sL6 with the end of a partition as today's rules
have it: it counts as aligned and aborts nothing.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest

from headgate.common.errors import InternalError
from headgate.core.alignment.aligned import (
    ON_CANCELLATION_BARRIER,
    SUBSUMED,
    AbortSnapshot,
    AlignedBarrierHandler,
    Effect,
    TriggerSnapshot,
)
from headgate.core.input_gate import InputGate

Element = tuple[str, int]
"""("b", n) data, ("B", id) barrier, ("C", id) cancel marker, ("E", 0) end of partition."""


@dataclass
class Reader:
    """Gate and handler wired as a subtask wires them, with a log of what came out."""

    gate: InputGate
    handler: AlignedBarrierHandler
    now_ms: float = 0.0
    triggered: tuple[int, ...] = ()
    aborted: tuple[tuple[int, str], ...] = ()
    resumed: set[int] = field(default_factory=set)
    out: tuple[tuple[int, Element], ...] = ()
    alignments: tuple[float, ...] = ()

    def read(self) -> tuple[int, Element, list[Effect]] | None:
        """Poll one element and let the handler judge it."""
        polled = self.gate.poll()
        if polled is None:
            return None
        channel, element = polled
        kind, number = element
        self.out += ((channel, element),)
        before, effects = set(self.handler.blocked), []
        if kind == "B":
            before.add(channel)
            effects = self.handler.barrier(channel, number, self.now_ms)
        elif kind == "C":
            effects = self.handler.cancel(number)
        elif kind == "E":
            effects = self.handler.end_of_partition(channel, self.now_ms)
        self.gate.set_blocked(self.handler.blocked)
        self.resumed |= before - self.handler.blocked
        for effect in effects:
            if isinstance(effect, TriggerSnapshot):
                self.triggered += (effect.checkpoint,)
                self.alignments += (effect.alignment_ms,)
            else:
                self.aborted += ((effect.checkpoint, effect.reason),)
        return channel, element, effects


def spoken_gate(channels: int) -> InputGate:
    """A gate whose channels have all given their first sign."""
    gate = InputGate(channels, lambda _: True)
    for channel in range(channels):
        gate.put(channel, None)
    while gate.poll() is not None:
        pass
    return gate


class Scene:
    """Plays scenarios in the notation of the conformance page, one element a millisecond."""

    def __init__(self, channels: int) -> None:
        self.reader = Reader(spoken_gate(channels), AlignedBarrierHandler(channels))

    def play(self, text: str) -> Scene:
        """Let the elements arrive one by one; each is read as soon as it may be."""
        for word in text.split():
            kind = word[0]
            number, _, channel = word[1:].partition("@")
            if kind in "bE":
                channel, number = number, "0"
            self.reader.gate.put(int(channel), (kind, int(number)))
            self.reader.now_ms += 1
            while self.reader.read() is not None:
                pass
        return self

    def resumed(self) -> set[int]:
        """U: channels resumed since the last look."""
        resumed, self.reader.resumed = self.reader.resumed, set()
        return resumed

    @property
    def triggered(self) -> list[int]:
        """T."""
        return list(self.reader.triggered)

    @property
    def aborted(self) -> list[int]:
        """A."""
        return [checkpoint for checkpoint, _ in self.reader.aborted]


def test_sl1_single_channel_with_barriers() -> None:
    """sL1: each barrier triggers at once, with no alignment; the end of the partition changes nothing."""
    scene = Scene(1).play("b0 b0 b0 B1@0 b0 b0 b0 b0 B2@0 B3@0 b0 b0 B4@0 B5@0 B6@0 b0 E0")
    assert scene.triggered == [1, 2, 3, 4, 5, 6]
    assert scene.aborted == []
    assert set(scene.reader.alignments) == {0.0}


def test_sl2_multi_channel_with_barriers() -> None:
    """sL2: a checkpoint triggers with its third barrier, and all channels are resumed with it."""
    scene = Scene(3)
    scene.play("b0 b2 b0 B1@1 B1@2 b0 B1@0")
    assert (scene.triggered, scene.resumed()) == ([1], {0, 1, 2})
    scene.play("b0 b0 b1 b1 b2 B2@0 B2@1 B2@2")
    assert (scene.triggered, scene.resumed()) == ([1, 2], {0, 1, 2})
    scene.play("b2 b2 B3@2 b0 b0 B3@0 B3@1")
    assert scene.triggered == [1, 2, 3]
    scene.play("B4@1 B4@2 B4@0")
    assert scene.triggered == [1, 2, 3, 4]
    length = len(scene.reader.out)
    scene.play("b0 E0 E1 E2")
    assert len(scene.reader.out) == length + 4
    assert scene.aborted == []


def test_sl2_data_behind_a_barrier_waits() -> None:
    """Row A9: records behind a barrier stay in the gate until the checkpoint is drawn, and then come out."""
    scene = Scene(2).play("B1@0 b0 b0 b1 B1@1")
    kinds = [(channel, kind) for channel, (kind, _) in scene.reader.out]
    assert kinds == [(0, "B"), (1, "b"), (1, "B"), (0, "b"), (0, "b")]
    assert scene.reader.alignments == (4.0,)


def test_sl4_missing_cancellation_barriers() -> None:
    """sL4: only checkpoint 3 is reported as aborted; late markers of 2 and 3 are ignored."""
    scene = Scene(2).play("B1@0 C3@1 C2@0 C3@0 b0")
    assert (scene.resumed(), scene.triggered) == ({0}, [])
    assert scene.reader.aborted == ((3, ON_CANCELLATION_BARRIER),)
    assert scene.reader.out[-1] == (0, ("b", 0))


def test_sl6_the_end_of_a_partition_counts_as_aligned() -> None:
    """sL6 today: an ended channel completes a pending checkpoint instead of aborting it."""
    scene = Scene(3).play("B1@0 B1@1 B1@2")
    assert scene.resumed() == {0, 1, 2}
    scene.play("b0 b0 b2 B2@2 B2@0 b1 E1")
    assert (scene.triggered, scene.aborted, scene.resumed()) == ([1, 2], [], {0, 2})
    scene.play("E2 b0 E0")
    assert [element for _, element in scene.reader.out[-3:]] == [("E", 0), ("b", 0), ("E", 0)]


def test_sl7_single_channel_abort() -> None:
    """sL7: a marker aborts its checkpoint; its id counts as seen, and the channel goes on each time."""
    scene = Scene(1)
    for part, resumed in (("b0 B1@0", {0}), ("b0 B2@0", {0}), ("b0 C4@0", set()), ("B5@0 b0", {0})):
        scene.play(part)
        assert scene.resumed() == resumed
    scene.play("C6@0 b0")
    assert scene.triggered == [1, 2, 5]
    assert scene.reader.aborted == ((4, ON_CANCELLATION_BARRIER), (6, ON_CANCELLATION_BARRIER))
    assert scene.reader.handler.current == 6
    assert set(scene.reader.alignments) == {0.0}


def test_sl8_multi_channel_abort() -> None:
    """sL8: a marker releases what its checkpoint blocked; barriers of an aborted checkpoint are stale."""
    scene = Scene(3)
    scene.play("B1@1 B1@2 b0 B1@0")
    assert (scene.triggered, scene.resumed()) == ([1], {0, 1, 2})
    scene.play("b0 b2 B2@0 B2@2 b1 C2@1")
    assert (scene.aborted, scene.resumed()) == ([2], {0, 2})
    scene.play("b2 b1 B3@1 B3@2 B3@0")
    assert (scene.triggered, scene.resumed()) == ([1, 3], {0, 1, 2})
    scene.play("b0 b1 C4@1 B4@2")
    assert scene.resumed() == {2}
    scene.play("b2 B4@0")
    assert scene.resumed() == {0}
    scene.play("b0 b1 b2 B5@2 B5@1 B5@0")
    assert (scene.triggered, scene.resumed()) == ([1, 3, 5], {0, 1, 2})
    scene.play("b0 b1 C6@1 C6@2 B6@0")
    assert scene.resumed() == {0}
    scene.play("b0")
    assert (scene.triggered, scene.aborted) == ([1, 3, 5], [2, 4, 6])
    assert scene.reader.handler.blocked == set()


def test_sl11_a_repeated_barrier_changes_nothing() -> None:
    """sL11: a second barrier of one id waits behind the block, and is stale when it is read."""
    scene = Scene(2).play("B1@0 B1@0")
    assert scene.triggered == []
    assert scene.reader.handler.blocked == {0}
    scene.play("B1@1")
    assert (scene.triggered, scene.aborted) == ([1], [])
    assert scene.reader.handler.blocked == set()


def test_b2_reading_from_a_blocked_channel_is_a_programming_error() -> None:
    """Row B2: a barrier polled from a channel that is reported as blocked is refused, naming the channel."""
    handler = AlignedBarrierHandler(2)
    handler.barrier(0, 1, 0.0)
    with pytest.raises(InternalError, match="channel 0, which is blocked by checkpoint 1"):
        handler.barrier(0, 1, 0.0)


def test_sl11_end_of_partition_trio() -> None:
    """sL11: an end may complete a checkpoint, comes twice to no effect, and shrinks later alignments."""
    scene = Scene(3).play("B1@0 B1@1 E2")
    assert (scene.triggered, scene.aborted, scene.reader.handler.pending) == ([1], [], False)
    scene = Scene(3).play("B2@0 B2@1 E1")
    assert scene.triggered == []
    assert scene.play("B2@2").triggered == [2]
    scene = Scene(3).play("E2 B6@0 B6@1 E1 B7@0")
    assert (scene.triggered, scene.aborted) == ([6, 7], [])


def test_d4_a_newer_barrier_subsumes_the_pending_checkpoint() -> None:
    """Row D4: the pending checkpoint is aborted as subsumed, and its blocks end before the new begins."""
    scene = Scene(3).play("B1@0 b0 B2@1")
    assert scene.reader.aborted == ((1, SUBSUMED),)
    assert scene.reader.handler.blocked == {1}
    assert scene.reader.out[-1] == (0, ("b", 0))
    scene.play("B2@0 B1@2 b2 B2@2")
    assert scene.triggered == [2]


def test_d5_d7_stale_barriers_block_nothing() -> None:
    """Rows D5 and D7: a barrier of an older, completed or cancelled checkpoint leaves its channel open."""
    scene = Scene(2).play("B5@0 B3@1")
    assert scene.reader.handler.blocked == {0}
    scene.play("B5@1 B5@1 C7@0 B7@1 B7@0")
    assert (scene.triggered, scene.aborted, scene.reader.handler.blocked) == ([5], [7], set())


# -- every interleaving ---------------------------------------------------------------------------

SCRIPTS: dict[str, list[Element]] = {
    "whole": [("b", 0), ("B", 1), ("b", 1), ("B", 2), ("b", 2)],
    "first cancelled": [("b", 0), ("C", 1), ("b", 1), ("B", 2), ("b", 2)],
    "first missing": [("b", 0), ("B", 2), ("b", 2)],
    "ends early": [("B", 1), ("b", 1), ("E", 0)],
}


def copy_of(reader: Reader) -> Reader:
    """An independent copy, much faster than `copy.deepcopy`."""
    gate, handler = InputGate(0, reader.gate._is_records), AlignedBarrierHandler(0)
    gate._queues = [queue.copy() for queue in reader.gate._queues]
    gate._ready, gate._blocked, gate._silent = reader.gate._ready.copy(), set(reader.gate._blocked), set()
    for name, value in vars(reader.handler).items():
        setattr(handler, name, value.copy() if isinstance(value, set) else value)
    return Reader(gate, handler, 0.0, reader.triggered, reader.aborted, set(), reader.out)


def identity(position: tuple[int, ...], reader: Reader) -> Any:
    """Everything that the future depends on, and everything that was promised so far."""
    handler, gate = reader.handler, reader.gate
    read = tuple(sum(1 for channel, _ in reader.out if channel == c) for c in range(3))
    return (
        position,
        read,
        tuple(gate._ready),
        tuple(sorted(handler.blocked)),
        (handler.current, handler.pending, tuple(sorted(handler._arrived)), tuple(sorted(handler._open))),
        (reader.triggered, reader.aborted),
    )


def check(scripts: tuple[str, ...], reader: Reader, step: tuple[int, Element, list[Effect]]) -> None:
    """The invariants of the handler's docstring, and the cut itself."""
    handler, (_, _, effects) = reader.handler, step
    read = [[element for channel, element in reader.out if channel == c] for c in range(3)]
    for channel in handler.blocked:
        assert read[channel][-1] == ("B", handler.current), "a blocked channel's last word is the barrier"
    assert handler.pending or not handler.blocked, "nothing stays blocked when nothing is pending"
    assert list(reader.triggered) == sorted(set(reader.triggered)), "triggered ids strictly increase"
    outcomes = [*reader.triggered, *(checkpoint for checkpoint, _ in reader.aborted)]
    assert len(outcomes) == len(set(outcomes)), "triggered or aborted, and once"
    for effect in effects:
        if isinstance(effect, TriggerSnapshot):
            barrier = ("B", effect.checkpoint)
            for channel, name in enumerate(scripts):
                before = itertools.takewhile(lambda e, b=barrier: e != b, SCRIPTS[name])
                assert [e for e in read[channel] if e[0] == "b"] == [e for e in before if e[0] == "b"], (
                    "the snapshot sees exactly the records before its barrier"
                )
        else:
            assert isinstance(effect, AbortSnapshot)
            assert effect.reason == (SUBSUMED if step[1][0] == "B" else ON_CANCELLATION_BARRIER)


def explore(scripts: tuple[str, ...]) -> set[tuple[tuple[int, ...], tuple[tuple[int, str], ...]]]:
    """All outcomes (triggered, aborted) over every order of arrivals and reads."""
    start = Reader(spoken_gate(3), AlignedBarrierHandler(3))
    lengths = [len(SCRIPTS[name]) for name in scripts]
    ahead: list[tuple[tuple[int, ...], Reader]] = [((0, 0, 0), start)]
    seen, outcomes = {identity((0, 0, 0), start)}, set()
    while ahead:
        position, reader = ahead.pop()
        following = []
        for channel in range(3):
            if position[channel] < lengths[channel]:
                moved = copy_of(reader)
                moved.gate.put(channel, SCRIPTS[scripts[channel]][position[channel]])
                following.append((tuple(p + (c == channel) for c, p in enumerate(position)), moved))
        if reader.gate.available:
            moved = copy_of(reader)
            step = moved.read()
            assert step is not None
            check(scripts, moved, step)
            following.append((position, moved))
        if not following:
            assert len(reader.out) == sum(lengths), "everything is read in the end"
            assert not reader.handler.pending
            outcomes.add((reader.triggered, reader.aborted))
        for there in following:
            mark = identity(*there)
            if mark not in seen:
                seen.add(mark)
                ahead.append(there)
    return outcomes


@pytest.mark.parametrize(
    ("scripts", "expected"),
    [
        (("whole", "whole", "whole"), {((1, 2), ())}),
        (("whole", "whole", "first cancelled"), {((2,), ((1, ON_CANCELLATION_BARRIER),))}),
        (("whole", "first cancelled", "first cancelled"), {((2,), ((1, ON_CANCELLATION_BARRIER),))}),
        (("whole", "ends early", "ends early"), {((1, 2), ())}),
        (("whole", "whole", "ends early"), {((1, 2), ())}),
    ],
)
def test_every_interleaving_has_one_outcome(scripts: tuple[str, ...], expected: set[Any]) -> None:
    """Where each channel speaks of every checkpoint, the outcome does not depend on the interleaving."""
    assert explore(scripts) == expected


@pytest.mark.parametrize(
    "scripts",
    [
        ("whole", "whole", "first missing"),
        ("whole", "first cancelled", "first missing"),
        ("first missing", "first missing", "ends early"),
        ("first cancelled", "first missing", "ends early"),
    ],
)
def test_every_interleaving_with_a_missing_barrier_is_sound(scripts: tuple[str, ...]) -> None:
    """A missing barrier costs its checkpoint and no other, and never a cut, a block or a read."""
    for triggered, aborted in explore(scripts):
        assert triggered == (2,)
        assert {checkpoint for checkpoint, _ in aborted} <= {1}
