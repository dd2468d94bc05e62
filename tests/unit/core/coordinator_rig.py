"""A coordinator with short names: what happened in one line, the whole list of effects back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.coordinator import CheckpointCoordinator
from headgate.core.checkpoint.effects import (
    Effect,
    Finalize,
    NotifyComplete,
    RequestFulfilled,
    RequestKind,
    TriggerCheckpoint,
)
from headgate.core.checkpoint.failures import CheckpointFailureReason as Reason
from headgate.core.checkpoint.pending import AckResult
from headgate.core.checkpoint.requests import CheckpointSettings

A, B, C = (0, 0), (0, 1), (1, 0)
PERIODIC, MANUAL, FINAL = RequestKind.PERIODIC, RequestKind.MANUAL, RequestKind.FINAL
SAVEPOINT, STOP = RequestKind.SAVEPOINT, RequestKind.STOP


class Snap(NamedTuple):
    vertex: int
    subtask: int
    attempt: int = 1


class Rig:
    """A coordinator with short names; validates after every call, as the shell would never have to."""

    def __init__(
        self,
        tasks: Iterable[tuple[int, int]] = (A, B),
        hooks: Iterable[str] = (),
        **settings: Any,
    ) -> None:
        self.now = 0
        self.tasks = list(tasks)
        self.core: CheckpointCoordinator[Snap] = CheckpointCoordinator(
            CheckpointSettings(**settings), hooks=hooks
        )
        self.core.start(AttemptId(1), self.tasks, 0)

    def done(self, effects: list[Effect[Snap]]) -> list[Effect[Snap]]:
        self.core.validate()
        return effects

    def at(self, now: int) -> list[Effect[Snap]]:
        self.now = now
        return self.done(self.core.tick(now))

    def ask(
        self, kind: RequestKind = MANUAL, ticket: int | None = None, timeout_ms: int | None = None
    ) -> list[Effect[Snap]]:
        return self.done(self.core.request(kind, self.now, ticket, timeout_ms))

    def hooks_done(self, checkpoint: int, *hooks: str) -> list[Effect[Snap]]:
        return self.done(self.core.hooks_done(CheckpointId(checkpoint), self.now, hooks or None))

    def abort(self, checkpoint: int, reason: Reason, detail: str = "") -> list[Effect[Snap]]:
        return self.done(self.core.abort(CheckpointId(checkpoint), reason, self.now, detail))

    def ack(self, checkpoint: int, task: tuple[int, int], attempt: int = 1) -> list[Effect[Snap]]:
        return self.ack_result(checkpoint, task, attempt)[1]

    def ack_result(
        self, checkpoint: int, task: tuple[int, int], attempt: int = 1
    ) -> tuple[AckResult, list[Effect[Snap]]]:
        answer = self.core.acknowledge(
            AttemptId(attempt), CheckpointId(checkpoint), Snap(*task, attempt), self.now
        )
        self.core.validate()
        return answer

    def decline(
        self, checkpoint: int, task: tuple[int, int], reason: Reason = Reason.CHECKPOINT_DECLINED
    ) -> list[Effect[Snap]]:
        return self.done(self.core.decline(AttemptId(1), CheckpointId(checkpoint), task, reason, self.now))

    def fill(self, checkpoint: int) -> list[Effect[Snap]]:
        """Acknowledgements of all tasks."""
        effects: list[Effect[Snap]] = []
        for task in self.tasks:
            effects += self.ack(checkpoint, task)
        return effects

    def stored(self, checkpoint: int) -> list[Effect[Snap]]:
        return self.done(self.core.stored(CheckpointId(checkpoint), self.now))

    def store_failed(self, checkpoint: int, maybe_published: bool) -> list[Effect[Snap]]:
        effects = self.core.store_failed(CheckpointId(checkpoint), "disk full", maybe_published, self.now)
        return self.done(effects)

    def committed(self, checkpoint: int) -> list[Effect[Snap]]:
        return self.done(self.core.committed(CheckpointId(checkpoint), self.now))

    def complete(self, checkpoint: int) -> list[Effect[Snap]]:
        """Acknowledge, store and commit; all effects."""
        return self.fill(checkpoint) + self.stored(checkpoint) + self.committed(checkpoint)


def trigger(
    checkpoint: int, kind: RequestKind = MANUAL, attempt: int = 1, ticket: int | None = None
) -> TriggerCheckpoint:
    """The effect that starts a checkpoint."""
    return TriggerCheckpoint(CheckpointId(checkpoint), AttemptId(attempt), kind, ticket)


def finalize(
    checkpoint: int, *tasks: tuple[int, int], kind: RequestKind = MANUAL, ticket: int | None = None
) -> Finalize[Snap]:
    """The effect that has a checkpoint stored."""
    snapshots = tuple(Snap(*task) for task in tasks)
    return Finalize(CheckpointId(checkpoint), AttemptId(1), kind, snapshots, ticket)


def complete(checkpoint: int, kind: RequestKind = MANUAL, ticket: int | None = None) -> list[Effect[Snap]]:
    """What the tasks, and whoever asked, are told of a committed checkpoint."""
    done = NotifyComplete(CheckpointId(checkpoint), kind, ticket)
    return [done] if ticket is None else [done, RequestFulfilled(ticket, CheckpointId(checkpoint))]


def kinds(effects: Iterable[object]) -> list[str]:
    """The names of effects, in order."""
    return [type(effect).__name__ for effect in effects]
