"""Plays scenarios in the notation of the conformance page against a handler and a small model of queues.

The model knows what a handler cannot: what lies in the queues, and so what an unaligned checkpoint
takes along. It reads in order of arrival whatever is not blocked.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from headgate.core.alignment.barriers import Alignment, Barrier, SavepointOrder
from headgate.core.alignment.exactly_once_handler import SingleCheckpointBarrierHandler
from headgate.core.alignment.handler_contract import AbortSnapshot, BarrierHandler, Effect, TriggerSnapshot

WALL_MS = 1_000_000
"""The wall clock when the monotonic clock is 0."""

ORDER = SavepointOrder("file:///savepoints/savepoint-0a1b2c")
"""What the barriers of savepoints carry."""

Entry = tuple[str, Any]
"""A word of the scenario, and the barrier or the number it stands for."""


class UnalignedBarrierHandler(SingleCheckpointBarrierHandler):
    """Triggers at the first barrier that arrives, whatever its options: only forced channels align."""

    def _wants_to_overtake(self, barrier: Barrier) -> bool:
        return True


class Scene:
    """One handler, its channels, and what came out of them.

    Words: `b0` data on channel 0 (with any ending, as a name); `C1@0` cancel marker; `E0` end of
    partition; `+6` so many ms pass. Barriers: `B1@0` aligned, `T1@0` aligned until older than
    `timeout_ms`, `U1@0` unaligned, `F1@0` forced aligned, `S1@0` of a savepoint.
    """

    def __init__(self, handler: BarrierHandler, channels: int, timeout_ms: int = 10) -> None:
        self.handler, self.timeout_ms = handler, timeout_ms
        self.now_ms = 0.0
        self.created: dict[int, int] = {}
        self.queues: list[deque[Entry]] = [deque() for _ in range(channels)]
        self.order: list[int] = []
        self.out: list[str] = []
        self._read: set[str] = set()
        self.effects: list[Effect] = []
        self.taken: dict[int, set[str]] = {}
        self.capture: int | None = None
        self.captured_from: set[int] = set()
        self._resumed: set[int] = set()

    # -- what happened --------------------------------------------------------------------------

    @property
    def triggers(self) -> list[TriggerSnapshot]:
        """What was triggered, with its metrics."""
        return [effect for effect in self.effects if isinstance(effect, TriggerSnapshot)]

    @property
    def triggered(self) -> list[int]:
        """T."""
        return [effect.barrier.checkpoint for effect in self.triggers]

    @property
    def aborted(self) -> list[int]:
        """A."""
        return [effect.checkpoint for effect in self.effects if isinstance(effect, AbortSnapshot)]

    @property
    def reasons(self) -> list[str]:
        """Why, of each abort."""
        return [effect.reason for effect in self.effects if isinstance(effect, AbortSnapshot)]

    @property
    def mixed(self) -> list[int]:
        """T and A in one list, aborts negative."""
        return [
            effect.barrier.checkpoint if isinstance(effect, TriggerSnapshot) else -effect.checkpoint
            for effect in self.effects
            if isinstance(effect, (TriggerSnapshot, AbortSnapshot))
        ]

    @property
    def in_flight(self) -> set[str]:
        """IF: records that some checkpoint took along."""
        return set().union(*self.taken.values())

    @property
    def kinds(self) -> list[str]:
        """The effects' names, in order."""
        return [type(effect).__name__ for effect in self.effects]

    def resumed(self) -> set[int]:
        """U: channels resumed since the last look."""
        resumed, self._resumed = self._resumed, set()
        return resumed

    # -- what happens ---------------------------------------------------------------------------

    def play(self, text: str) -> Scene:
        """Let the elements arrive one by one; each is read as soon as it may be."""
        for word in text.split():
            self.arrive(word)
            self.read_all()
        return self

    def queue(self, text: str) -> Scene:
        """Let the elements arrive; the subtask is busy and reads none."""
        for word in text.split():
            self.arrive(word)
        return self

    def arrive(self, word: str) -> None:
        """One word of a scenario."""
        if word[0] == "+":
            self.now_ms += float(word[1:])
            self._perform(self.handler.timeout(self.now_ms))
            return
        number, _, channel = word[1:].partition("@")
        at = int(channel or word[1])
        value: Any = None if word[0] in "bE" else int(number)
        if word[0] in "BTUFS":
            value = self.make(word[0], int(number))
        self.queues[at].append((word, value))
        self.order.append(at)
        if isinstance(value, Barrier):
            self._perform(self.handler.announce(at, value, self.age_ms(value), self.now_ms))
            if value.checkpoint == self.capture:
                self.captured_from.discard(at)
        elif word[0] == "b" and at in self.captured_from:
            assert self.capture is not None
            self.taken[self.capture].add(word)

    def make(self, letter: str, checkpoint: int) -> Barrier:
        """A barrier; its checkpoint was triggered now unless `created` says when."""
        trigger_ms = self.created.setdefault(checkpoint, int(WALL_MS + self.now_ms))
        alignment = {"U": Alignment.UNALIGNED, "F": Alignment.FORCED_ALIGNED}.get(letter, Alignment.ALIGNED)
        timeout_ms = self.timeout_ms if letter == "T" else None
        return Barrier(
            checkpoint, trigger_ms, alignment, timeout_ms, savepoint=ORDER if letter == "S" else None
        )

    def age_ms(self, barrier: Barrier) -> float:
        """Wall clock now, less the trigger's."""
        return WALL_MS + self.now_ms - barrier.trigger_ms

    def read_all(self) -> None:
        """Read while something may be read."""
        while self.read():
            pass

    def read(self) -> bool:
        """Read the oldest element whose channel is not blocked."""
        for position, channel in enumerate(self.order):
            if channel not in self.handler.blocked:
                del self.order[position]
                self._judge(channel, *self.queues[channel].popleft())
                return True
        return False

    def _judge(self, channel: int, word: str, value: Any) -> None:
        self.out.append(word)
        self._read.add(word)
        before: set[int] = set(self.handler.blocked)
        effects: list[Effect] = []
        if isinstance(value, Barrier):
            before.add(channel)
            effects = self.handler.barrier(channel, value, self.age_ms(value), self.now_ms)
        elif word[0] == "C":
            effects = self.handler.cancel(value)
        elif word[0] == "E":
            effects = self.handler.end_of_partition(channel, self.now_ms)
            before.discard(channel)
        self._resumed |= before - self.handler.blocked
        self._perform(effects)

    def _perform(self, effects: list[Effect]) -> None:
        self.effects += effects
        for effect in effects:
            if not isinstance(effect, TriggerSnapshot):
                if effect.checkpoint == self.capture:
                    self.capture, self.captured_from = None, set()
            elif effect.barrier.overtakes:
                self._begin_capture(effect.barrier.checkpoint)

    def was_read(self, checkpoint: int, channel: int) -> bool:
        """Whether a channel's barrier has come out."""
        return any(f"{letter}{checkpoint}@{channel}" in self._read for letter in "BTUFS")

    def _begin_capture(self, checkpoint: int) -> None:
        self.capture, self.captured_from = checkpoint, set()
        taken = self.taken.setdefault(checkpoint, set())
        for channel, queue in enumerate(self.queues):
            ahead = []
            for word, value in queue:
                if isinstance(value, Barrier) and value.checkpoint == checkpoint:
                    break
                ahead.append(word)
            else:
                if self.was_read(checkpoint, channel):
                    continue
                self.captured_from.add(channel)
            taken.update(word for word in ahead if word[0] == "b")
