"""The barrier handler of at-least-once checkpoints: it counts barriers and never blocks a channel.

Several checkpoints may be pending, in ascending order of ids. "Newest" is the greatest id that
was ever pending, triggered or cancelled.

    event               guard                      action
    barrier(id, ch)     id pending                 add ch; decide
    barrier(id, ch)     id > newest, not given up  append id with ch, drop the oldest beyond 50; decide
    barrier(id, ch)     otherwise                  nothing: stale
    cancel(id)          always, first              abort every pending one below id
    cancel(id)          id pending, or as above    abort id; its barriers are stale from now on
    abort(id)           any                        id is given up: not pending, and stale
    end(ch)             any                        ch is closed; decide

Decide: of the pending checkpoints that have the barriers of all open channels, the newest is triggered;
it and all older ones are no longer pending, and no effect reports the older ones.

Invariants: nothing is ever blocked; a checkpoint is triggered or aborted at most once, and never
both; triggered ids strictly increase.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Final

from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.handler_contract import (
    ON_CANCELLATION_BARRIER,
    AbortSnapshot,
    Effect,
    TriggerSnapshot,
)

MAX_CHECKPOINTS_TO_TRACK: Final = 50  # a sender that dies between barriers must not fill the memory


@dataclass(slots=True)
class _Pending:
    barrier: Barrier
    start_delay_ms: float
    began_ms: float
    channels: set[int] = field(default_factory=set)


class CheckpointBarrierTracker:
    """The barrier handler of at-least-once mode: triggers a snapshot once a barrier came on all open
    channels.

    It never blocks a channel: records behind a barrier are processed before the snapshot, and again after a
    restore. One is made per input gate of `channels` channels. A cancelled checkpoint is forgotten at once:
    its id is not above the newest id seen, which is enough to ignore its later barriers.

    Example:
        >>> tracker = CheckpointBarrierTracker(2)
        >>> tracker.barrier(0, Barrier(1, trigger_ms=0), 5, 100.0), tracker.blocked
        ([], frozenset())
        >>> [effect.alignment_ms for effect in tracker.barrier(1, Barrier(1, trigger_ms=0), 8, 103.0)]
        [3.0]
    """

    def __init__(self, channels: int) -> None:
        self._open = set(range(channels))
        self._newest = -1
        self._pending: dict[int, _Pending] = {}  # ascending: ids are appended only when they are the newest
        self._given_up: set[int] = set()  # above the newest: stale although they were not passed
        self._start_delays_ms: dict[int, float] = {}  # of announced ones that no barrier was read of yet

    @property
    def current(self) -> int:
        return max(0, self._newest)

    @property
    def pending(self) -> bool:
        return bool(self._pending)

    @property
    def pending_ids(self) -> tuple[int, ...]:
        return tuple(self._pending)

    @property
    def blocked(self) -> Set[int]:
        return frozenset()

    def announce(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        if self._is_new(barrier.checkpoint):
            self._start_delays_ms.setdefault(barrier.checkpoint, max(0.0, age_ms))
        return []

    def barrier(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        if self._is_new(barrier.checkpoint):
            self.announce(channel, barrier, age_ms, now_ms)
            start_delay_ms = self._start_delays_ms[barrier.checkpoint]
            self._pending[barrier.checkpoint] = _Pending(barrier, start_delay_ms, now_ms)
            self._seen(barrier.checkpoint)
            if len(self._pending) > MAX_CHECKPOINTS_TO_TRACK:
                del self._pending[self.pending_ids[0]]
        pending = self._pending.get(barrier.checkpoint)
        if pending is None:
            return []
        pending.channels.add(channel)
        return self._decide(now_ms)

    def cancel(self, checkpoint: int) -> list[Effect]:
        aborted = [pending for pending in self._pending if pending <= checkpoint]
        if self._is_new(checkpoint):
            aborted.append(checkpoint)
            self._seen(checkpoint)
        for each in aborted:
            self._pending.pop(each, None)
        return [AbortSnapshot(each, ON_CANCELLATION_BARRIER) for each in aborted]

    def abort(self, checkpoint: int) -> None:
        self._pending.pop(checkpoint, None)
        if checkpoint > self._newest:
            # Not the newest seen: the barriers of an older one may still be on their way.
            self._given_up.add(checkpoint)
            self._start_delays_ms.pop(checkpoint, None)

    def end_of_partition(self, channel: int, now_ms: float) -> list[Effect]:
        self._open.discard(channel)
        return self._decide(now_ms)

    def timeout(self, now_ms: float) -> list[Effect]:
        return []

    def next_timeout(self) -> float | None:
        return None

    def _is_new(self, checkpoint: int) -> bool:
        return checkpoint > self._newest and checkpoint not in self._given_up

    def _decide(self, now_ms: float) -> list[Effect]:
        complete = [
            checkpoint for checkpoint, pending in self._pending.items() if self._open <= pending.channels
        ]
        if not complete:
            return []
        chosen = self._pending[complete[-1]]
        self._pending = {known: value for known, value in self._pending.items() if known > complete[-1]}
        return [TriggerSnapshot(chosen.barrier, chosen.start_delay_ms, max(0.0, now_ms - chosen.began_ms))]

    def _seen(self, newest: int) -> None:
        self._newest = newest
        self._given_up = {each for each in self._given_up if each > newest}
        self._start_delays_ms = {known: v for known, v in self._start_delays_ms.items() if known > newest}
