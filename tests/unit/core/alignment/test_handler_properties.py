"""The invariants of all handlers under random streams, interleavings, clocks, markers and ends."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import pytest
from barrier_scenes import Scene, UnalignedBarrierHandler
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.alignment.at_least_once_handler import CheckpointBarrierTracker
from headgate.core.alignment.factory import AlignedBarrierHandler, AlternatingBarrierHandler
from headgate.core.alignment.handler_contract import AbortSnapshot, CompleteCapture, Effect, TriggerSnapshot

CHANNELS, CHECKPOINTS = 3, 4
FORCED = frozenset({0})
HANDLERS = {
    "tracker": (lambda: CheckpointBarrierTracker(CHANNELS), "B", frozenset()),
    "aligned": (lambda: AlignedBarrierHandler(CHANNELS), "BS", frozenset()),
    "unaligned": (lambda: UnalignedBarrierHandler(CHANNELS), "BU", frozenset()),
    "alternating": (lambda: AlternatingBarrierHandler(CHANNELS), "BSTU", frozenset()),
    "forced": (lambda: AlternatingBarrierHandler(CHANNELS, forced=FORCED), "BSTU", FORCED),
    "awaited": (
        lambda: AlternatingBarrierHandler(CHANNELS, forced=FORCED, awaited=frozenset({1})),
        "BSTU",
        FORCED,
    ),
}


@dataclass
class Plan:
    """A word list per channel, and the order in which things happen."""

    words: list[list[str]]
    steps: list[tuple[str, int]]
    ends: set[int] = field(default_factory=set)


@st.composite
def plans(draw: st.DrawFn, letters: str, forced: frozenset[int]) -> Plan:
    """Ascending checkpoints on each channel, some barriers missing, cancelled, or switched upstream."""
    kinds = [draw(st.sampled_from(letters)) for _ in range(CHECKPOINTS)]
    plan = Plan([[] for _ in range(CHANNELS)], [])
    for channel, words in enumerate(plan.words):
        for checkpoint, kind in enumerate(kinds, 1):
            words += [f"b{channel}-{checkpoint}{n}" for n in range(draw(st.integers(0, 2)))]
            fate = draw(st.sampled_from("...........CM"))
            if fate == "M":
                continue
            if fate == "." and kind == "T" and draw(st.booleans()):
                kind = "U"  # it was too old on the way
            if kind in "TU" and channel in forced:
                kind = "F"
            words.append(f"{kind if fate == '.' else fate}{checkpoint}@{channel}")
        words.append(f"b{channel}-last")
        if draw(st.integers(0, 3)) == 0:
            del words[draw(st.integers(0, len(words))) :]
            words.append(f"E{channel}")
            plan.ends.add(channel)
    step = st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, CHANNELS - 1)),
        st.tuples(st.just("read"), st.just(0)),
        st.tuples(st.just("pass"), st.integers(1, 8)),
        st.tuples(st.just("abort"), st.integers(1, CHECKPOINTS)),
    )
    plan.steps = draw(st.lists(step, max_size=70))
    return plan


def barrier_words(checkpoint: int, channel: int) -> set[str]:
    """How the barrier of a checkpoint may be written on a channel."""
    return {f"{letter}{checkpoint}@{channel}" for letter in "BTUFS"}


def channel_of(word: str) -> int:
    """Where a word was read."""
    return int(word.partition("@")[2] or word[1])


class Check:
    """A scene that is checked after every step."""

    def __init__(self, name: str, plan: Plan) -> None:
        make, _, self.forced = HANDLERS[name]
        self.blocks = name != "tracker"
        self.plan = plan
        self.scene = Scene(make(), CHANNELS)
        self.left = [list(words) for words in plan.words]
        self.checked = 0
        self.given_up: set[int] = set()
        self.read_at_trigger: dict[int, list[str]] = {}
        self.outcome: dict[int, list[Effect]] = {}

    def step(self, what: str, value: int) -> None:
        """Do one thing, and look."""
        if what == "arrive" and self.left[value]:
            self.scene.arrive(self.left[value].pop(0))
        elif what == "read":
            self.scene.read()
        elif what == "pass":
            self.scene.arrive(f"+{value}")
        elif what == "abort":
            self.scene.handler.abort(value)
            if self.scene.capture == value:
                self.scene.capture, self.scene.captured_from = None, set()
            self.given_up.add(value)
        self.look()

    def ahead(self, checkpoint: int, channel: int) -> list[str] | None:
        """The records ahead of a barrier; all, when the channel ended without; None when it is missing."""
        records = []
        for word in self.plan.words[channel]:
            if word in barrier_words(checkpoint, channel):
                return records
            if word[0] == "b":
                records.append(word)
        return records if channel in self.plan.ends else None

    def look(self) -> None:
        """What must hold at any time."""
        scene = self.scene
        for effect in scene.effects[self.checked :]:
            self.judge(effect)
        self.checked = len(scene.effects)
        assert scene.triggered == sorted(set(scene.triggered)), "triggered ids strictly increase"
        assert len(scene.aborted) == len(set(scene.aborted)), "aborted at most once"
        if not self.blocks or not scene.handler.pending:
            assert not scene.handler.blocked, "nothing is blocked when nothing is pending"
        for channel in scene.handler.blocked:
            last = next(word for word in reversed(scene.out) if channel_of(word) == channel)
            assert last in barrier_words(scene.handler.current, channel), "blocked right behind the barrier"
        self.look_at_the_clock()

    def look_at_the_clock(self) -> None:
        """The announced deadline is the true one: nothing happens at it, and an overtaking just after."""
        deadline = self.scene.handler.next_timeout()
        if deadline is None:
            assert self.scene.handler.timeout(self.scene.now_ms) == []
            return
        handler = copy.deepcopy(self.scene.handler)
        assert handler.pending
        assert handler.timeout(deadline) == []
        effect = handler.timeout(deadline + 0.5)[0]
        assert isinstance(effect, TriggerSnapshot)
        assert effect.barrier.overtakes
        assert handler.next_timeout() is None
        assert not handler.blocked

    def judge(self, effect: Effect) -> None:
        """One effect, against what came before it."""
        if isinstance(effect, TriggerSnapshot):
            checkpoint = effect.barrier.checkpoint
            assert self.outcome.setdefault(checkpoint, []) == [], "triggered once, and not after an abort"
            assert effect.start_delay_ms >= 0
            self.read_at_trigger[checkpoint] = [word for word in self.scene.out if word[0] == "b"]
            self.judge_cut(effect)
        elif isinstance(effect, CompleteCapture):
            checkpoint = effect.checkpoint
            (trigger,) = self.outcome[checkpoint]
            assert isinstance(trigger, TriggerSnapshot)
            assert trigger.barrier.overtakes
            assert effect.alignment_ms >= trigger.alignment_ms >= 0
            self.judge_capture(checkpoint)
        else:
            checkpoint = effect.checkpoint
            before = self.outcome.setdefault(checkpoint, [])
            assert not any(isinstance(e, (CompleteCapture, AbortSnapshot)) for e in before)
            assert not before or before[0].barrier.overtakes, "a completed one cannot be aborted"
        assert checkpoint not in self.given_up, "nothing of what the job master gave up"
        self.outcome[checkpoint].append(effect)

    def judge_cut(self, effect: TriggerSnapshot) -> None:
        """Aligned: exactly the records ahead of the barriers; at-least-once: at least those."""
        checkpoint, scene = effect.barrier.checkpoint, self.scene
        for channel in range(CHANNELS):
            read = [word for word in self.read_at_trigger[checkpoint] if word[1] == str(channel)]
            ahead = self.ahead(checkpoint, channel)
            if not self.blocks:
                assert ahead is not None
                assert read[: len(ahead)] == ahead
            elif not effect.barrier.overtakes:
                assert read == ahead
            elif channel in self.forced and f"E{channel}" not in scene.out:
                assert barrier_words(checkpoint, channel) & set(scene.out), "forced ones are read in order"
                assert read == ahead

    def judge_capture(self, checkpoint: int) -> None:
        """Unaligned: what was read and what was taken along are all records ahead of the barriers."""
        for channel in range(CHANNELS):
            read = {word for word in self.read_at_trigger[checkpoint] if word[1] == str(channel)}
            taken = {word for word in self.scene.taken[checkpoint] if word[1] == str(channel)}
            ahead = self.ahead(checkpoint, channel)
            assert ahead is not None
            assert read | taken == set(ahead)
            assert not read & taken
            assert channel not in self.forced or not taken, "records of forced channels cannot be stored"

    def finish(self) -> None:
        """Everything arrives and is read: nothing hangs but a checkpoint that lacks a barrier."""
        for channel in range(CHANNELS):
            while self.left[channel]:
                self.step("arrive", channel)
        while self.scene.order and (self.scene.order[0] not in self.scene.handler.blocked or self.readable()):
            self.step("read", 0)
        handler = self.scene.handler
        if handler.pending:
            lacking = [c for c in range(CHANNELS) if self.ahead(handler.current, c) is None]
            assert lacking, "a checkpoint whose barriers all came is not pending"
        else:
            assert self.scene.order == [], "everything is read"

    def readable(self) -> bool:
        """Whether some element is on a channel that is not blocked."""
        return any(channel not in self.scene.handler.blocked for channel in self.scene.order)


@pytest.mark.parametrize("name", HANDLERS)
def test_invariants_hold_in_any_order(name: str) -> None:
    """Once triggered, once aborted, ids increasing, cuts consistent, nothing blocked for nothing."""
    _, letters, forced = HANDLERS[name]
    seen: set[str] = set()

    @settings(max_examples=120)
    @given(plan=plans(letters, forced))
    def run(plan: Plan) -> None:
        check = Check(name, plan)
        for what, value in plan.steps:
            check.step(what, value)
        check.finish()
        seen.update(check.scene.kinds)

    run()
    expected = {"TriggerSnapshot", "AbortSnapshot"}
    assert seen == (expected if name in ("tracker", "aligned") else expected | {"CompleteCapture"})
