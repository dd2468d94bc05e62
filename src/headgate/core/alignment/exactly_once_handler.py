"""The exactly-once barrier handler of one input gate: a state machine for one checkpoint at a time.

It only decides: `runtime.worker.task.gate_task` performs its effects, `snapshot_taker` takes the snapshot.

A checkpoint is either aligned (a channel waits once its barrier was read, until all were read) or
overtaking (its barriers count on arrival, and the records ahead of them become part of the checkpoint).
An aligned checkpoint may become overtaking after a timeout.

    event                     guard                            action
    announce(id, ch)          stale                            nothing
    announce(id, ch)          id > current, never overtakes    note it; it takes hold when it is read
    announce(id, ch)          id > current, may overtake       begin id
    announce(id, ch)          id == current                    remember ch; decide
    barrier(id, ch)           stale, or capturing              nothing
    barrier(id, ch)           id > current                     begin id, then as below
    barrier(id, ch)           aligning, id == current          block ch; decide
    cancel(id)                stale                            nothing
    cancel(id)                otherwise                        end the pending one, id is stale, abort id
    abort(id)                 id == current                    end the pending one, id is stale
    abort(id)                 id > current                     id is stale, older ones go on
    end(ch)                   any                              ch is closed; decide when pending
    timeout                   aligning, past the deadline      wants to overtake; decide

Stale: id < current, or id == current and nothing pending, or given up. Begin: a pending one, and
those that were announced and are now passed by, are aborted as SUBSUMED. Decide, over the channels
that are open:

    phase      guard                                                    next       effects
    aligning   wants to overtake, all forced channels' barriers read,
               all awaited channels' barriers announced                 capturing  TriggerSnapshot(unaligned)
    aligning   all barriers read                                        idle       TriggerSnapshot
    capturing  all barriers announced                                   idle       CompleteCapture

Invariants: nothing is blocked unless a checkpoint is aligning, and then only channels whose barrier
was read; a checkpoint is triggered at most once and aborted at most once; triggered ids strictly
increase; nothing follows an abort.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from headgate.common.errors import InternalError
from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.core.alignment.handler_contract import (
    ON_CANCELLATION_BARRIER,
    SUBSUMED,
    AbortSnapshot,
    CompleteCapture,
    Effect,
    TriggerSnapshot,
)


class Phase(Enum):
    """The step that a gate's current checkpoint is in."""

    IDLE = "idle"  # complete, aborted, or none yet
    ALIGNING = "aligning"  # not triggered yet: channels wait behind their barriers
    CAPTURING = "capturing"  # triggered: records ahead of the missing barriers are taken along, nothing waits


@dataclass(slots=True)
class _Checkpoint:
    barrier: Barrier
    start_delay_ms: float
    announced: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)
    overtaking: bool = False  # by its barriers' options, or because it is too old
    deadline_ms: float | None = None  # monotonic; its age is the timeout then: it is too old only after that
    aligned_since_ms: float | None = None  # monotonic; when its first barrier took effect

    def alignment_ms(self, now_ms: float) -> float:
        if self.aligned_since_ms is None:
            self.aligned_since_ms = now_ms
        return max(0.0, now_ms - self.aligned_since_ms)


class SingleCheckpointBarrierHandler:
    """The barrier handler of exactly-once mode: one checkpoint at a time, aligned or unaligned as its
    barriers say.

    One is made per input gate of `channels` channels. Only this class changes its fields: `blocked` are the
    channels that must not be read now, `phase` is the current checkpoint's. Subclasses decide which of a
    barrier's options they use. A repeated barrier changes nothing, and the end of a partition counts as a
    barrier.

    Records of channels in `forced` cannot be part of a checkpoint: no barrier overtakes there. A channel that
    carries a forced barrier is added; InternalError if the barrier's checkpoint overtakes already.

    Senders of channels in `awaited` emit a barrier only after records that wait at a forced channel of
    theirs, or further up. No barrier overtakes here before their barriers have arrived: sent on earlier, it
    would block a channel further down, which would stop this subtask, and with it those senders.
    """

    def __init__(
        self,
        channels: int,
        *,
        forced: frozenset[int] = frozenset(),
        awaited: frozenset[int] = frozenset(),
    ) -> None:
        self.blocked: set[int] = set()  # channels that must not be read now
        self.phase = Phase.IDLE  # of the current checkpoint
        self._open = set(range(channels))
        self._forced, self._awaited = set(forced), awaited
        self._current = -1
        # The current one, unless idle, and later ones that were announced and not begun.
        self._known: dict[int, _Checkpoint] = {}
        # Above the current one: their barriers are stale although they were not passed.
        self._given_up: set[int] = set()

    @property
    def current(self) -> int:
        return max(0, self._current)

    @property
    def pending(self) -> bool:
        return self.phase is not Phase.IDLE

    def announce(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        return self._arrive(channel, barrier, age_ms, now_ms)

    def barrier(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        effects = self._arrive(channel, barrier, age_ms, now_ms)
        if self._is_stale(barrier.checkpoint):
            return effects
        if barrier.checkpoint > self._current:
            effects += self._begin(barrier.checkpoint)
        if self.phase is not Phase.ALIGNING or channel in self.blocked:
            return effects
        checkpoint = self._known[self._current]
        if checkpoint.aligned_since_ms is None:
            checkpoint.start_delay_ms = max(0.0, age_ms)
        checkpoint.read.add(channel)
        checkpoint.alignment_ms(now_ms)
        self.blocked.add(channel)
        return effects + self._decide(now_ms)

    def cancel(self, checkpoint: int) -> list[Effect]:
        if self._is_stale(checkpoint):
            return []
        effects: list[Effect] = []
        if self.phase is Phase.CAPTURING and checkpoint > self._current:
            # An aligning one just vanishes, but this one was taken, and its capture must end.
            effects.append(AbortSnapshot(self._current, SUBSUMED))
        self._end(checkpoint)
        return [*effects, AbortSnapshot(checkpoint, ON_CANCELLATION_BARRIER)]

    def abort(self, checkpoint: int) -> None:
        if checkpoint == self._current:
            self._end(checkpoint)
        elif checkpoint > self._current:
            self._known.pop(checkpoint, None)
            self._given_up.add(checkpoint)

    def end_of_partition(self, channel: int, now_ms: float) -> list[Effect]:
        self._open.discard(channel)
        self.blocked.discard(channel)
        return self._decide(now_ms) if self.pending else []

    def timeout(self, now_ms: float) -> list[Effect]:
        return self._decide(now_ms) if self.phase is Phase.ALIGNING else []

    def next_timeout(self) -> float | None:
        # None also while a barrier is missing that nothing may overtake: until then a timeout has no effect.
        if self.phase is not Phase.ALIGNING or not self._may_trigger():
            return None
        return self._known[self._current].deadline_ms

    # -- what a configuration decides -----------------------------------------------------------

    def _wants_to_overtake(self, barrier: Barrier) -> bool:
        return barrier.overtakes and not barrier.savepoint

    def _timeout_ms(self, barrier: Barrier) -> int | None:
        return None if barrier.savepoint else barrier.timeout_ms

    def _may_overtake(self, barrier: Barrier) -> bool:
        # Then an announcement takes hold at once: the checkpoint may not wait its turn.
        return (
            self._wants_to_overtake(barrier)
            or self._timeout_ms(barrier) is not None
            or barrier.alignment is Alignment.FORCED_ALIGNED
        )

    # -- bookkeeping ----------------------------------------------------------------------------

    def _is_stale(self, checkpoint: int) -> bool:
        passed = checkpoint < self._current or (checkpoint == self._current and not self.pending)
        return passed or checkpoint in self._given_up

    def _may_trigger(self) -> bool:
        checkpoint = self._known[self._current]
        read = self._forced & self._open <= checkpoint.read
        return read and self._awaited & self._open <= checkpoint.announced

    def _arrive(self, channel: int, barrier: Barrier, age_ms: float, now_ms: float) -> list[Effect]:
        if self._is_stale(barrier.checkpoint):
            return []
        self._check_forced(channel, barrier)
        checkpoint = self._known.get(barrier.checkpoint)
        if checkpoint is None:
            checkpoint = self._known[barrier.checkpoint] = self._first_sign(barrier, age_ms, now_ms)
        checkpoint.announced.add(channel)
        timeout_ms = self._timeout_ms(barrier)
        if self._wants_to_overtake(barrier) or (timeout_ms is not None and age_ms > timeout_ms):
            checkpoint.overtaking = True
        if barrier.checkpoint == self._current:
            return self._decide(now_ms)
        if not self._may_overtake(barrier):
            return []
        return self._begin(barrier.checkpoint) + self._decide(now_ms)

    def _check_forced(self, channel: int, barrier: Barrier) -> None:
        if barrier.alignment is not Alignment.FORCED_ALIGNED or channel in self._forced:
            return
        if self.phase is Phase.CAPTURING and barrier.checkpoint == self._current:
            # Too late: records were taken along that cannot be stored.
            raise InternalError(
                f"channel {channel} brought a forced barrier of checkpoint {barrier.checkpoint}, which was "
                f"overtaking already; expected forced channels to be named beforehand: {sorted(self._forced)}"
            )
        self._forced.add(channel)

    def _first_sign(self, barrier: Barrier, age_ms: float, now_ms: float) -> _Checkpoint:
        timeout_ms = self._timeout_ms(barrier)
        sent = barrier.unforced()
        return _Checkpoint(
            sent,
            start_delay_ms=max(0.0, age_ms),
            overtaking=self._wants_to_overtake(sent),
            deadline_ms=None if timeout_ms is None else now_ms + (timeout_ms - age_ms),
        )

    def _begin(self, checkpoint: int) -> list[Effect]:
        passed = sorted(known for known in self._known if known < checkpoint)
        begun = self._known[checkpoint]
        self._end(checkpoint)
        self._known[checkpoint] = begun
        self.phase = Phase.ALIGNING
        return [AbortSnapshot(known, SUBSUMED) for known in passed]

    def _end(self, checkpoint: int) -> None:
        self._current, self.phase = checkpoint, Phase.IDLE
        self.blocked.clear()
        self._known = {known: value for known, value in self._known.items() if known > checkpoint}
        self._given_up = {each for each in self._given_up if each > checkpoint}

    def _decide(self, now_ms: float) -> list[Effect]:
        checkpoint = self._known[self._current]
        effects: list[Effect] = []
        if checkpoint.deadline_ms is not None and now_ms > checkpoint.deadline_ms:
            checkpoint.overtaking = True
        if self.phase is Phase.ALIGNING:
            if checkpoint.overtaking and self._may_trigger():
                effects.append(self._trigger(checkpoint, checkpoint.barrier.as_unaligned(), now_ms))
                self.phase = Phase.CAPTURING
                self.blocked.clear()
            elif self._open <= checkpoint.read:
                effects.append(self._trigger(checkpoint, checkpoint.barrier, now_ms))
                if not checkpoint.barrier.overtakes:
                    self._end(self._current)
                    return effects
                # A savepoint's: aligned here, free to overtake downstream, which waits for the end.
                self.phase = Phase.CAPTURING
                self.blocked.clear()
        if self.phase is Phase.CAPTURING and self._open <= checkpoint.announced:
            effects.append(CompleteCapture(self._current, checkpoint.alignment_ms(now_ms)))
            self._end(self._current)
        return effects

    def _trigger(self, checkpoint: _Checkpoint, barrier: Barrier, now_ms: float) -> TriggerSnapshot:
        return TriggerSnapshot(barrier, checkpoint.start_delay_ms, checkpoint.alignment_ms(now_ms))
