"""Every interleaving of arrivals and polls at a gate with three channels and two checkpoints, for each handler.

Covered: data before, between and after barriers; an event among the data; a cancel marker in place of
a barrier; the end of a channel in place of its second barrier; barriers announced on arrival, or any
time later; the passing of time in any state; the job master's word in any state; polls for control
events only in any state. Not covered: three checkpoints, more than two data elements between barriers.

The invariants are in `gate_search`: `check` has the name of each. The planted bugs below show that the
search can fail: one for each name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gate_search import END, Build, Cancel, Case, Script, Violated, explore, kind_of

from headgate.core.alignment.aligned import AlignedBarrierHandler
from headgate.core.alignment.alternating import AlternatingBarrierHandler
from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.core.alignment.gate import CheckpointedInputGate
from headgate.core.alignment.handler import (
    ON_CANCELLATION_BARRIER,
    AbortSnapshot,
    CompleteCapture,
    Effect,
    TriggerSnapshot,
)
from headgate.core.alignment.tracker import CheckpointBarrierTracker
from headgate.core.alignment.unaligned import UnalignedBarrierHandler

TIMEOUT_MS = 10


def barriers(alignment: Alignment, timeout_ms: int | None = None) -> tuple[Barrier, Barrier]:
    """The barriers of the two checkpoints; the second is triggered when the first may be too old."""
    first = Barrier(1, 0, alignment, timeout_ms)
    return first, replace(first, checkpoint=2, trigger_ms=2 * TIMEOUT_MS)


def full(b1: Barrier, b2: Barrier) -> Script:
    """Both barriers on all channels."""
    return ((1, b1, 2, b2), (11, b1, b2), ("watermark", b1, b2, 21))


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
FORCED = frozenset({0})


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


SEARCHES = {
    "tracker": (tracker(full(*AT_LEAST_ONCE)), 1),
    "tracker-broken": (tracker(broken(*AT_LEAST_ONCE)), 1),
    "tracker-ended": (tracker(ended(*AT_LEAST_ONCE)), 1),
    "tracker-lazy": (tracker(two(*AT_LEAST_ONCE), lazy=True), 1),
    "aligned": (aligned(full(*ALIGNED)), 1),
    "aligned-broken": (aligned(broken(*ALIGNED)), 1),
    "aligned-ended": (aligned(ended(*ALIGNED)), 1),
    "aligned-lazy": (aligned(two(*ALIGNED), lazy=True), 1),
    "aligned-given-up": (aligned(two(*ALIGNED), give_up=(1, 2)), 1),
    "unaligned": (unaligned(full(*UNALIGNED)), 1),
    "unaligned-broken": (unaligned(broken(*UNALIGNED)), 1),
    "unaligned-ended": (unaligned(ended(*UNALIGNED)), 1),
    "unaligned-lazy": (unaligned(two(*UNALIGNED), lazy=True), 1),
    "unaligned-given-up": (unaligned(two(*UNALIGNED), give_up=(1, 2)), 1),
    "alternating-timeout": (alternating(full(*TIMED), time=True), 1),
    "alternating-timeout-broken": (alternating(broken(*TIMED), time=True), 1),
    "alternating-timeout-lazy": (alternating(two(*TIMED), time=True, lazy=True), 1),
    "alternating-timeout-given-up": (alternating(two(*TIMED), time=True, give_up=(1,)), 1),
    "alternating-savepoint": (alternating(full(ALIGNED[0], UNALIGNED[1])), 1),
    "forced": (with_forced(full(*UNALIGNED)), 1),
    "forced-broken": (with_forced(broken(*UNALIGNED)), 1),
    "forced-ended": (with_forced(ended(*UNALIGNED)), 1),
    "forced-timeout": (with_forced(two(*TIMED), time=True), 1),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_all_invariants_hold_in_every_state(name: str) -> None:
    """No move in any reachable state violates an invariant; the number of states says that they were met."""
    case, floor = SEARCHES[name]
    assert explore(case).states > floor
