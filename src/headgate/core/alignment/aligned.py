"""Exactly-once alignment: a channel that delivered the barrier waits until all others have.

A pure machine over (channel, checkpoint id). "Pending" means that the current checkpoint has begun
and is neither complete nor cancelled.

    event                      guard                              action
    barrier(id, ch)            id < current, or id == current     nothing: stale
                               and not pending
    barrier(id, ch)            id > current                       abort a pending one as SUBSUMED, begin id
    barrier(id, ch)            pending, id == current             block ch; all there -> unblock, trigger
    cancel(id)                 id > current, or pending           abort id; its barriers are stale from now on
                               with id == current
    end(ch)                    pending                            ch counts as aligned; may complete
    end(ch)                    not pending                        one channel fewer from now on

Invariants: a blocked channel has delivered the current barrier; nothing stays blocked when nothing
is pending; a checkpoint is triggered or aborted at most once; triggered ids strictly increase.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.common.errors import InternalError


@dataclass(frozen=True, slots=True)
class TriggerSnapshot:
    """All barriers of `checkpoint` are here: snapshot now, before the next record."""

    checkpoint: int
    alignment_ms: float


@dataclass(frozen=True, slots=True)
class AbortSnapshot:
    """`checkpoint` will not be drawn here; tell the coordinator and the subtasks downstream."""

    checkpoint: int
    reason: str


Effect = TriggerSnapshot | AbortSnapshot

SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
ON_CANCELLATION_BARRIER = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"


class AlignedBarrierHandler:
    """The alignment of one input gate.

    Attributes:
        blocked: channels that must not be read now.
        current: the latest checkpoint id seen; 0 before the first.
        pending: whether the current checkpoint waits for barriers.
    """

    def __init__(self, channels: int) -> None:
        self.blocked: set[int] = set()
        self.current, self.pending = 0, False
        self._open = set(range(channels))
        self._arrived: set[int] = set()
        self._began_ms = 0.0

    def barrier(self, channel: int, checkpoint: int, now_ms: float) -> list[Effect]:
        """A barrier came in on `channel`."""
        if channel in self.blocked:
            raise InternalError(f"read from channel {channel}, which is blocked by checkpoint {self.current}")
        effects: list[Effect] = []
        if checkpoint < self.current or (checkpoint == self.current and not self.pending):
            return effects
        if checkpoint > self.current:
            if self.pending:
                effects.append(AbortSnapshot(self.current, SUBSUMED))
            self._begin(checkpoint, now_ms)
        self.blocked.add(channel)
        self._arrived.add(channel)
        return effects + self._complete_if_all(now_ms)

    def cancel(self, checkpoint: int) -> list[Effect]:
        """A cancellation marker came in."""
        if checkpoint < self.current or (checkpoint == self.current and not self.pending):
            return []
        self._end(checkpoint)
        return [AbortSnapshot(checkpoint, ON_CANCELLATION_BARRIER)]

    def end_of_partition(self, channel: int, now_ms: float) -> list[Effect]:
        """Nothing more will come on `channel`."""
        self._open.discard(channel)
        self.blocked.discard(channel)
        return self._complete_if_all(now_ms) if self.pending else []

    def _begin(self, checkpoint: int, now_ms: float) -> None:
        self._end(checkpoint)
        self.pending, self._began_ms = True, now_ms

    def _end(self, checkpoint: int) -> None:
        self.current, self.pending = checkpoint, False
        self.blocked.clear()
        self._arrived.clear()

    def _complete_if_all(self, now_ms: float) -> list[Effect]:
        if not self._open <= self._arrived:
            return []
        # Unblock before triggering, so that the gate can go on at once.
        self._end(self.current)
        return [TriggerSnapshot(self.current, max(0.0, now_ms - self._began_ms))]
