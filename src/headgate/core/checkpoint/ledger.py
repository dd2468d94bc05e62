"""The coordinator's record of a job's checkpoints: in progress, complete, and the last ones that ended.

It also has the rules by which a checkpoint is aborted, and by which its files may be deleted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Generic

from headgate.common.errors import InternalError
from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.effects import Discard, Effect, NotifyAbort, S, Unexpected
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.pending import PendingCheckpoint, Phase
from headgate.core.checkpoint.queue import Request, Tickets
from headgate.core.checkpoint.retention import Retention

REMEMBERED_MAX: Final = 16


class RecentCheckpoints:
    """Ids of the checkpoints that ended last, to distinguish normal late messages from unexpected ones.

    Example:
        >>> recent = RecentCheckpoints(capacity=2)
        >>> for n in (1, 2, 3):
        ...     recent.add(CheckpointId(n), savepoint=n == 3)
        >>> [CheckpointId(n) in recent for n in (1, 2, 3)], recent.is_savepoint(CheckpointId(3))
        ([False, True, True], True)
    """

    __slots__ = ("_capacity", "_ids")

    def __init__(self, capacity: int = REMEMBERED_MAX) -> None:
        self._capacity = capacity
        self._ids: dict[CheckpointId, bool] = {}

    def __contains__(self, checkpoint: CheckpointId) -> bool:
        return checkpoint in self._ids

    def add(self, checkpoint: CheckpointId, *, savepoint: bool) -> None:
        """Remember `checkpoint`, which completed or was aborted; forget the oldest if there are too many."""
        self._ids[checkpoint] = savepoint
        if len(self._ids) > self._capacity:
            del self._ids[next(iter(self._ids))]

    def is_savepoint(self, checkpoint: CheckpointId) -> bool:
        return self._ids.get(checkpoint, False)


class Ledger(Generic[S]):
    """The facts of all checkpoints of a job, shared by the parts of its coordinator, which change them.
    `next_id` must be above all ids of the job, else InternalError; `retention` has the completed ones.
    """

    def __init__(self, next_id: CheckpointId, retention: Retention) -> None:
        if retention.latest is not None and next_id <= retention.latest:
            raise InternalError(
                f"next checkpoint id is {next_id} but {retention.latest} completed; ids must grow"
            )
        self.next_id, self.retention = next_id, retention
        self.pending: dict[CheckpointId, PendingCheckpoint[S]] = {}  # until they are stored; ids increase
        self.tickets, self.recent = Tickets(), RecentCheckpoints()
        self.unsure: set[CheckpointId] = set()  # whose log entry, or savepoint's metadata, may exist
        self.saved: set[CheckpointId] = set()  # complete savepoints; no file of theirs is ever deleted
        self.triggered = self.completed = self.failed = 0
        self.last_failure: str | None = None

    @property
    def storing(self) -> CheckpointId | None:
        for pending in self.pending.values():
            if pending.phase is Phase.STORING:
                return pending.checkpoint
        return None

    @property
    def preparing(self) -> bool:
        return any(pending.phase is Phase.PREPARING for pending in self.pending.values())

    def begin(
        self,
        request: Request,
        attempt: AttemptId,
        tasks: tuple[tuple[int, int], ...],
        deadline_ms: int,
        hooks: Iterable[str],
    ) -> PendingCheckpoint[S]:
        """Add a pending checkpoint under the next id, and return it; it waits for `hooks`, then for `tasks`.
        `deadline_ms` is the monotonic time after which the coordinator aborts it.
        """
        checkpoint, self.next_id = self.next_id, CheckpointId(self.next_id + 1)
        pending = PendingCheckpoint[S](checkpoint, attempt, request, tasks, deadline_ms, hooks)
        self.pending[checkpoint] = pending
        self.triggered += 1
        return pending

    def drop(
        self, pending: PendingCheckpoint[S], reason: CheckpointFailureReason, detail: str
    ) -> list[Effect[S]]:
        """Abort a pending checkpoint; effects notify tasks, delete its files and answer its request.
        InternalError: it is being stored, or is a savepoint and `reason` says it was subsumed.
        """
        pending.abort(reason)
        self.leave(pending)
        self.count_failure(pending.checkpoint, reason, detail)
        effects: list[Effect[S]] = [NotifyAbort(pending.checkpoint, reason, detail)]
        if pending.snapshots:
            effects.append(Discard(pending.snapshots, pending.savepoint))
        return [*effects, *self.tickets.fail(pending.request, reason, detail, pending.checkpoint)]

    def leave(self, pending: PendingCheckpoint[S]) -> None:
        del self.pending[pending.checkpoint]
        self.recent.add(pending.checkpoint, savepoint=pending.kind.is_savepoint)

    def count_failure(self, checkpoint: CheckpointId, reason: CheckpointFailureReason, detail: str) -> None:
        self.failed += 1
        self.last_failure = f"checkpoint {checkpoint}: {reason.text}" + (f" ({detail})" if detail else "")

    def is_protected(self, checkpoint: CheckpointId) -> bool:
        """Return whether files of `checkpoint` must stay: it is, may be, or is about to be complete."""
        pending = self.pending.get(checkpoint)
        closed = pending is not None and pending.phase not in (Phase.PREPARING, Phase.COLLECTING)
        done = checkpoint in self.retention or checkpoint in self.saved
        return closed or done or checkpoint in self.unsure

    def late(self, checkpoint: CheckpointId, snapshot: S) -> list[Effect[S]]:
        """Return effects that discard a snapshot of an ended checkpoint, and report it if it is unknown."""
        owner = checkpoint if self.recent.is_savepoint(checkpoint) else None
        unexpected = self.unexpected(checkpoint, (snapshot.vertex, snapshot.subtask))
        return [Discard((snapshot,), owner), *unexpected]

    def unexpected(self, checkpoint: CheckpointId, task: tuple[int, int]) -> list[Effect[S]]:
        """Return an effect that reports a task's message about an unknown checkpoint; [] if it is known."""
        known = checkpoint in self.recent or self.is_protected(checkpoint)
        return [] if known else [Unexpected(checkpoint, task)]

    def describe(self) -> tuple[Hashable, ...]:
        return (
            self.next_id,
            tuple(pending.describe() for pending in self.pending.values()),
            self.retention.completed,
            tuple(sorted(self.unsure)),
            tuple(sorted(self.saved)),
            tuple(sorted(self.tickets.waiting)),
        )

    def broken(self) -> list[str]:
        """Return names of the violated invariants of pending checkpoints; empty if all hold."""
        phases = [pending.phase for pending in self.pending.values()]
        in_progress = {Phase.PREPARING, Phase.COLLECTING, Phase.FULL, Phase.STORING}
        checks = {
            "ids ordered": list(self.pending) == sorted(self.pending),
            "ids below next": all(pending < self.next_id for pending in self.pending),
            "pending phases": set(phases) <= in_progress,
            "one is prepared at a time": phases.count(Phase.PREPARING) <= 1,
            "ended is not pending": not any(checkpoint in self.recent for checkpoint in self.pending),
            "complete is not unsure": not self.unsure & (self.saved | set(self.retention.completed)),
        }
        return [name for name, holds in checks.items() if not holds]
