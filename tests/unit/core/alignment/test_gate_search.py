"""Every interleaving of arrivals and polls at a gate with three channels and two checkpoints.

Each handler is searched with several scripts.

Covered: data before, between and after barriers; an event among the data; a cancel marker in place of
a barrier; the end of a channel in place of its second barrier; barriers announced on arrival, or any
time later; the passing of time in any state; the job master's word in any state; polls for control
events only in any state. Not covered: three checkpoints, more than two data elements between barriers.

The invariants are in `gate_search`: `check` has the name of each. The planted bugs below show that the
search can fail: one for each name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gate_search
import pytest
from barrier_scenes import UnalignedBarrierHandler
from gate_search import END, Build, Cancel, Case, Script, Violated, explore, kind_of

from headgate.core.alignment.at_least_once_handler import CheckpointBarrierTracker
from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.core.alignment.checkpointed_gate import CheckpointedInputGate, Clocks
from headgate.core.alignment.factory import AlignedBarrierHandler, AlternatingBarrierHandler
from headgate.core.alignment.handler_contract import (
    ON_CANCELLATION_BARRIER,
    AbortSnapshot,
    CompleteCapture,
    Effect,
    TriggerSnapshot,
)

TIMEOUT_MS = 10


def barriers(alignment: Alignment, timeout_ms: int | None = None) -> tuple[Barrier, Barrier]:
    """The barriers of the two checkpoints; the second is triggered when the first may be too old."""
    first = Barrier(1, 0, alignment, timeout_ms)
    return first, replace(first, checkpoint=2, trigger_ms=2 * TIMEOUT_MS)


def full(b1: Barrier, b2: Barrier) -> Script:
    """Both barriers on all channels."""
    return ((1, b1, 2, b2), (11, b1, b2, 12), ("watermark", b1, 21, b2))


def broken(b1: Barrier, b2: Barrier) -> Script:
    """A cancel marker instead of a barrier, and the end of a channel instead of another."""
    return ((1, b1, b2), (11, Cancel(1), 12, b2), (b1, 21, END))


def ended(b1: Barrier, b2: Barrier) -> Script:
    """One channel ends before the first barrier, one before the second."""
    return ((1, b1, b2), (11, END), (b1, 21, END))


def two(b1: Barrier, b2: Barrier) -> Script:
    """Two channels, for what makes many states."""
    return ((1, b1, 2, b2), (11, b1, b2, 12))


def forced(script: Script, channel: int = 0) -> Script:
    """The same, with one channel on which barriers cannot overtake."""
    own = tuple(e.as_forced() if isinstance(e, Barrier) else e for e in script[channel])
    return (*script[:channel], own, *script[channel + 1 :])


ALIGNED = barriers(Alignment.ALIGNED)
UNALIGNED = barriers(Alignment.UNALIGNED)
TIMED = barriers(Alignment.ALIGNED, TIMEOUT_MS)
AT_LEAST_ONCE = barriers(Alignment.AT_LEAST_ONCE)
FORCED, AWAITED = frozenset({0}), frozenset({1})


def built(kind: type[CheckpointedInputGate]) -> Build:
    """Makes gates of a kind."""
    return lambda channels, handler: kind(channels, handler, kind_of, lambda _: 1000)


def tracker(script: Script, **more: Any) -> Case:
    """A search with the at-least-once handler."""
    return Case(script, lambda: CheckpointBarrierTracker(len(script)), exactly_once=False, **more)


def aligned(script: Script, **more: Any) -> Case:
    """A search with the aligned handler."""
    return Case(script, lambda: AlignedBarrierHandler(len(script)), **more)


def unaligned(script: Script, **more: Any) -> Case:
    """A search with the unaligned handler."""
    return Case(script, lambda: UnalignedBarrierHandler(len(script)), **more)


def alternating(script: Script, **more: Any) -> Case:
    """A search with the alternating handler."""
    return Case(script, lambda: AlternatingBarrierHandler(len(script)), **more)


def with_forced(script: Script, **more: Any) -> Case:
    """A search with the alternating handler and a channel that forces barriers to align."""
    return Case(
        forced(script),
        lambda: AlternatingBarrierHandler(len(script), forced=FORCED),
        forced=FORCED,
        **more,
    )


def with_awaited(script: Script, **more: Any) -> Case:
    """A search with the alternating handler, a forced channel and one that is awaited."""
    return Case(
        forced(script),
        lambda: AlternatingBarrierHandler(len(script), forced=FORCED, awaited=AWAITED),
        forced=FORCED,
        awaited=AWAITED,
        **more,
    )


# Name: what, a floor of states, the endings.
SEARCHES = {
    "tracker": (tracker(full(*AT_LEAST_ONCE)), 3_250, "12-"),
    "tracker-broken": (tracker(broken(*AT_LEAST_ONCE)), 1_050, "2-1"),
    "tracker-ended": (tracker(ended(*AT_LEAST_ONCE)), 300, "12- 2-"),
    "tracker-lazy": (tracker(two(*AT_LEAST_ONCE), lazy=True), 950, "12-"),
    "aligned": (aligned(full(*ALIGNED)), 2_100, "12-"),
    "aligned-broken": (aligned(broken(*ALIGNED)), 900, "2-1"),
    "aligned-ended": (aligned(ended(*ALIGNED)), 250, "12-"),
    "aligned-lazy": (aligned(two(*ALIGNED), lazy=True), 850, "12-"),
    "aligned-given-up": (aligned(two(*ALIGNED), give_up=(1, 2)), 650, "1- 12- 2-"),
    "unaligned": (unaligned(full(*UNALIGNED)), 16_750, "12- 12-1"),
    "unaligned-broken": (unaligned(broken(*UNALIGNED)), 3_250, "12-1 2-"),
    "unaligned-ended": (unaligned(ended(*UNALIGNED)), 650, "12- 12-1"),
    "unaligned-lazy": (unaligned(two(*UNALIGNED), lazy=True), 2_450, "12- 12-1"),
    "unaligned-given-up": (unaligned(two(*UNALIGNED), give_up=(1, 2)), 2_650, "1- 12- 12-1 2-"),
    "alternating-timeout": (alternating(full(*TIMED), time=True), 12_400, "12- 12-1 2-1"),
    "alternating-timeout-broken": (alternating(broken(*TIMED), time=True), 4_700, "12-1 2- 2-1"),
    "alternating-timeout-lazy": (alternating(two(*TIMED), time=True, lazy=True), 4_150, "12- 12-1 2-1"),
    "alternating-timeout-given-up": (
        alternating(two(*TIMED), time=True, give_up=(1,)),
        2_000,
        "12- 12-1 2- 2-1",
    ),
    "alternating-savepoint": (alternating(full(ALIGNED[0], UNALIGNED[1])), 11_300, "12- 2-1"),
    "forced": (with_forced(full(*UNALIGNED)), 4_850, "12- 12-1 2-1"),
    "forced-broken": (with_forced(broken(*UNALIGNED)), 1_950, "12-1 2- 2-1"),
    "forced-ended": (with_forced(ended(*UNALIGNED)), 400, "12- 12-1 2-1"),
    "forced-timeout": (with_forced(two(*TIMED), time=True), 600, "12- 12-1 2-1"),
    "awaited": (with_awaited(full(*UNALIGNED)), 5_000, "12- 12-1 2-1"),
    "awaited-broken": (with_awaited(broken(*UNALIGNED)), 1_600, "2- 2-1"),
    "awaited-ended": (with_awaited(ended(*UNALIGNED)), 300, "12- 2-1"),
    "awaited-lazy": (with_awaited(two(*UNALIGNED), lazy=True), 1_100, "12- 2-1"),
    "awaited-timeout": (with_awaited(broken(*TIMED), time=True), 3_400, "2- 2-1"),
}


LONG = {"unaligned", "alternating-timeout", "alternating-savepoint"}
"""Searches of many seconds."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.ci) if name in LONG else name for name in SEARCHES],
)
def test_all_invariants_hold_in_every_state(name: str) -> None:
    """No move in any reachable state violates an invariant, and the states were met.

    Each search has a floor of states and its endings: checkpoints triggered, a dash, those aborted.
    """
    case, floor, endings = SEARCHES[name]
    explored = explore(case)
    assert explored.states > floor
    met = {"".join(map(str, done)) + "-" + "".join(map(str, aborted)) for done, aborted in explored.endings}
    assert met == set(endings.split())


def twisted(base: type[Any], twist: Callable[[list[Effect]], list[Effect]]) -> Callable[[], Any]:
    """Makes handlers that are right apart from what they say."""

    class Twisted(base):  # type: ignore[misc]
        def announce(self, *told: Any) -> list[Effect]:
            return twist(super().announce(*told))

        def barrier(self, *told: Any) -> list[Effect]:
            return twist(super().barrier(*told))

        def cancel(self, *told: Any) -> list[Effect]:
            return twist(super().cancel(*told))

    return lambda: Twisted(3)


def without(kind: type[Effect]) -> Callable[[list[Effect]], list[Effect]]:
    """Says everything but one kind of effect."""
    return lambda effects: [effect for effect in effects if not isinstance(effect, kind)]


def abort_of_first(effects: list[Effect]) -> list[Effect]:
    """An abort beside each trigger of the first checkpoint."""
    triggers = any(isinstance(e, TriggerSnapshot) and e.barrier.checkpoint == 1 for e in effects)
    return [AbortSnapshot(1, ON_CANCELLATION_BARRIER)] if triggers else []


class ForgetsABlock(AlignedBarrierHandler):
    """Channel 0 does not wait behind its barrier."""

    def barrier(self, channel: int, *told: Any) -> list[Effect]:
        effects = super().barrier(channel, *told)
        self.blocked.discard(0)
        return effects


class KeepsABlock(AlignedBarrierHandler):
    """The channel of the last barrier waits on."""

    def barrier(self, channel: int, *told: Any) -> list[Effect]:
        effects = super().barrier(channel, *told)
        if effects:
            self.blocked.add(channel)
        return effects


class TrackerThatBlocks(CheckpointBarrierTracker):
    """Channel 2 waits for ever after its first barrier."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self._late: set[int] = set()

    @property
    def blocked(self) -> frozenset[int]:
        return frozenset(self._late)

    def barrier(self, channel: int, *told: Any) -> list[Effect]:
        self._late |= {channel} & {2}
        return super().barrier(channel, *told)


class Deaf(UnalignedBarrierHandler):
    """Hears no barrier of channel 2."""

    def announce(self, channel: int, *told: Any) -> list[Effect]:
        return [] if channel == 2 else super().announce(channel, *told)

    def barrier(self, channel: int, *told: Any) -> list[Effect]:
        return [] if channel == 2 else super().barrier(channel, *told)


class LateTrigger(AlignedBarrierHandler):
    """Says the first trigger behind the second."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self._held: list[Effect] = []

    def barrier(self, *told: Any) -> list[Effect]:
        effects = super().barrier(*told)
        if effects and not self._held:
            self._held = effects
            return []
        return effects + self._held if effects else []


class CapturesOneTooFew(CheckpointedInputGate):
    """Forgets the last of what is queued."""

    def _begin_capture(self, checkpoint: int) -> None:
        super()._begin_capture(checkpoint)
        del self._captured[-1:]


class MissesArrivals(CheckpointedInputGate):
    """Captures nothing that arrives later."""

    def put(self, channel: int, element: Any) -> None:
        super().put(channel, element)
        self._captured.clear()


class CapturesBehindBarriers(CheckpointedInputGate):
    """Takes everything that is queued."""

    def _capture_queued(self, channel: int, checkpoint: int) -> None:
        super()._capture_queued(channel, 1_000)


class CapturesWithoutNeed(CheckpointedInputGate):
    """Takes whatever arrives."""

    def put(self, channel: int, element: Any) -> None:
        super().put(channel, element)
        self._captured = [(channel, element)]


class NeverEndsCapture(CheckpointedInputGate):
    """Goes on when the handler has all barriers."""

    def _perform(self, effects: list[Effect], channel: int | None) -> list[Effect]:
        capturing = self._capturing
        super()._perform(effects, channel)
        if any(isinstance(effect, CompleteCapture) for effect in effects):
            self._capturing = capturing
        return effects


class Doubles(CheckpointedInputGate):
    """Keeps each of its records twice."""

    def put(self, channel: int, element: Any) -> None:
        super().put(channel, element)
        if isinstance(element, int):
            super().put(channel, element)


class LastFirst(CheckpointedInputGate):
    """What came last is read first."""

    def put(self, channel: int, element: Any) -> None:
        super().put(channel, element)
        self._queues._queues[channel].rotate(1)


class AlwaysReady(CheckpointedInputGate):
    """Invites the subtask to wait busily while only blocked channels have data."""

    @property
    def available(self) -> bool:
        return any(map(self.queued, range(3)))


class GivesNothing(CheckpointedInputGate):
    """Has something and does not hand it out."""

    def poll(self, clocks: Clocks, only_control: bool = False) -> None:
        return None


class IgnoresOnlyControl(CheckpointedInputGate):
    """Hands out records while the subtask is not ready for them."""

    def poll(self, clocks: Clocks, only_control: bool = False) -> tuple[int, Any, list[Effect]] | None:
        return super().poll(clocks)


class KeepsTheWordToItself(CheckpointedInputGate):
    """Does not tell the handler what the job master gave up."""

    def abort(self, checkpoint: int) -> None:
        return None


FULL = aligned(full(*ALIGNED))
OVERTAKING = unaligned(full(*UNALIGNED))
COUNTING = tracker(full(*AT_LEAST_ONCE))


def saying(case: Case, base: type[Any], twist: Callable[[list[Effect]], list[Effect]]) -> Case:
    """A search whose handler says the wrong thing."""
    return replace(case, handler=twisted(base, twist))


BUGS = {
    "forgets a block": ("aligned cut", replace(FULL, handler=lambda: ForgetsABlock(3))),
    "keeps a block": ("nothing blocked without need", replace(FULL, handler=lambda: KeepsABlock(3))),
    "blocks for ever": ("nothing stays blocked", replace(COUNTING, handler=lambda: TrackerThatBlocks(3))),
    "triggers twice": ("triggered at most once", saying(FULL, AlignedBarrierHandler, lambda es: es * 2)),
    "aborts twice": (
        "aborted at most once",
        saying(aligned(broken(*ALIGNED)), AlignedBarrierHandler, lambda es: es * 2),
    ),
    "completes twice": (
        "completes what runs",
        saying(
            OVERTAKING, UnalignedBarrierHandler, lambda es: es + [e for e in es if type(e) is CompleteCapture]
        ),
    ),
    "aborts and triggers": (
        "not triggered after the abort",
        saying(FULL, AlignedBarrierHandler, lambda es: abort_of_first(es) + es),
    ),
    "triggers and aborts": (
        "never complete and aborted",
        saying(FULL, AlignedBarrierHandler, lambda es: es + abort_of_first(es)),
    ),
    "says nothing": ("every checkpoint ends", saying(FULL, AlignedBarrierHandler, without(TriggerSnapshot))),
    "says triggers late": ("ids increase", replace(FULL, handler=lambda: LateTrigger(3))),
    "counts one too few": ("at least all", replace(COUNTING, handler=lambda: CheckpointBarrierTracker(2))),
    "waits for nobody": ("captures end", replace(OVERTAKING, handler=lambda: Deaf(3))),
    "does not know of forced channels": (
        "forced channels are not captured",
        replace(OVERTAKING, forced=FORCED),
    ),
    "does not know of awaited channels": (
        "awaited barriers have come",
        replace(OVERTAKING, awaited=AWAITED),
    ),
    "captures one too few": ("unaligned cut", replace(OVERTAKING, build=built(CapturesOneTooFew))),
    "misses what arrives": ("unaligned cut", replace(OVERTAKING, build=built(MissesArrivals))),
    "captures behind barriers": (
        "unaligned cut",
        replace(alternating(two(*TIMED), time=True), build=built(CapturesBehindBarriers)),
    ),
    "captures without need": ("captured for something", replace(FULL, build=built(CapturesWithoutNeed))),
    "captures for ever": (
        "capture follows the checkpoint",
        replace(OVERTAKING, build=built(NeverEndsCapture)),
    ),
    "doubles a record": ("exactly once, in order", replace(FULL, build=built(Doubles))),
    "reads the last first": ("exactly once, in order", replace(FULL, build=built(LastFirst))),
    "waits busily": ("available when readable", replace(FULL, build=built(AlwaysReady))),
    "gives nothing": ("poll gives what is available", replace(FULL, build=built(GivesNothing))),
    "ignores only_control": ("only control", replace(FULL, build=built(IgnoresOnlyControl))),
    "ignores the job master": (
        "not triggered after it was given up",
        replace(aligned(two(*ALIGNED), give_up=(1,)), build=built(KeepsTheWordToItself)),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds(bug: str) -> None:
    """Each planted bug violates the invariant that is there for it, and the moves towards it are told."""
    invariant, case = BUGS[bug]
    with pytest.raises(Violated, match=f"^{invariant}: (.|\\n)*after: "):
        explore(case)


def test_every_invariant_has_a_bug_that_it_finds() -> None:
    """No check of the search is there in vain."""
    checked = set(re.findall(r'check\("([^"]+)"', Path(gate_search.__file__).read_text()))
    assert checked == {invariant for invariant, _ in BUGS.values()} | {"small enough to search"}
    with pytest.raises(Violated, match="small enough to search"):
        explore(FULL, states_max=100)
