"""Publication of checkpoints that all tasks acknowledged: store, commit, notify; one at a time.

At most one checkpoint is between Finalize and `committed`. So when checkpoint k is in the log, every
earlier one has been committed, and recovery needs to commit the latest only.
"""

from __future__ import annotations

from typing import Generic

from headgate.common.errors import InternalError
from headgate.common.ids import CheckpointId
from headgate.core.checkpoint.effects import (
    Commit,
    Discard,
    Effect,
    Finalize,
    NotifyAbort,
    NotifyComplete,
    Retire,
    S,
)
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.ledger import Ledger
from headgate.core.checkpoint.modes import Mode, Order
from headgate.core.checkpoint.pending import PendingCheckpoint, Phase, Step
from headgate.core.machine import Machine

LEFT_TO_RECOVERY = "it is in the log, and recovery commits it"


class Publishing(Generic[S]):
    """Stores and commits the checkpoints that all tasks acknowledged, one at a time, oldest first."""

    def __init__(self, ledger: Ledger[S], mode: Machine[Mode, Order]) -> None:
        self._ledger, self._mode = ledger, mode
        self.committing: PendingCheckpoint[S] | None = None  # the one in the log that is being committed

    def next(self) -> list[Effect[S]]:
        """Begin to store the oldest fully acknowledged checkpoint; [] if none, or while one is published."""
        if self.committing is not None or self._ledger.storing is not None:
            return []
        for pending in self._ledger.pending.values():
            if pending.phase is Phase.FULL:
                pending.move(Step.FINALIZE)
                ticket = pending.request.ticket
                return [
                    Finalize(pending.checkpoint, pending.attempt, pending.kind, pending.snapshots, ticket)
                ]
        return []

    def stored(
        self, checkpoint: CheckpointId, halted: CheckpointFailureReason | None
    ) -> tuple[PendingCheckpoint[S], list[Effect[S]]]:
        """Record that `checkpoint` is complete, in the log or a savepoint's folder; the effects commit it.
        Returns the checkpoint, too. A SAVEPOINT is not committed, but its request answered. If `halted`, the
        reason why no tasks run, recovery commits it. InternalError unless `checkpoint` was being stored.
        """
        pending = self._take_storing(checkpoint)
        self._mode.note(f"completed {checkpoint}")
        if pending.kind.is_savepoint:
            self._ledger.saved.add(checkpoint)
        if not pending.kind.is_logged:
            pending.move(Step.SAVED)
            return pending, [*self._ledger.tickets.fulfil(pending.request, checkpoint)]
        pending.move(Step.STORED)
        self._ledger.completed += 1
        self._ledger.retention.add(checkpoint, owned=not pending.kind.is_savepoint)
        self.committing = pending
        if halted is not None:
            return pending, self.suspend(halted)
        return pending, [*self._subsume(checkpoint), Commit(checkpoint)]

    def store_failed(
        self,
        checkpoint: CheckpointId,
        detail: str,
        maybe_published: bool,
        halted: CheckpointFailureReason | None,
    ) -> tuple[PendingCheckpoint[S], list[Effect[S]]]:
        """Record that `checkpoint` could not be stored; effects notify, delete its files, and answer. Returns
        the checkpoint, too. With `maybe_published` it may be complete all the same, and no file is discarded.
        `halted`: why no tasks run to be notified, or None. InternalError unless it was storing.
        """
        pending = self._take_storing(checkpoint)
        pending.move(Step.STORE_UNSURE if maybe_published else Step.STORE_FAILED, detail)
        reason = CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE
        self._mode.note(f"failed {checkpoint} {reason.name}")
        self._ledger.count_failure(checkpoint, reason, detail)
        effects: list[Effect[S]] = [] if halted else [NotifyAbort(checkpoint, reason, detail)]
        if maybe_published:
            self._ledger.unsure.add(checkpoint)
        elif pending.snapshots:
            effects.append(Discard(pending.snapshots, pending.savepoint))
        answer = self._ledger.tickets.fail(pending.request, reason, detail, checkpoint)
        return pending, [*effects, *answer]

    def committed(self, checkpoint: CheckpointId) -> list[Effect[S]]:
        """Complete `checkpoint`, whose output is published; effects notify tasks, answer, and retire old
        ones. [] for one from before a suspension, which is complete. InternalError: it was never stored.
        """
        pending, retention = self.committing, self._ledger.retention
        if pending is None or pending.checkpoint != checkpoint:
            if retention.latest is None or checkpoint > retention.latest:
                raise InternalError(self._mode.explain(f"got a commit of {checkpoint}, not stored"))
            return []
        pending.move(Step.COMMITTED)
        self.committing = None
        request = pending.request
        effects: list[Effect[S]] = [NotifyComplete(checkpoint, request.kind, request.ticket)]
        effects += self._ledger.tickets.fulfil(request, checkpoint)
        surplus = retention.take_surplus()
        if surplus:
            effects.append(Retire(surplus))
        return effects

    def suspend(self, reason: CheckpointFailureReason) -> list[Effect[S]]:
        """Leave the commit in progress, if any, to the next recovery, and fail its request with `reason`."""
        pending, self.committing = self.committing, None
        if pending is None:
            return []
        pending.move(Step.SUSPEND)
        return [*self._ledger.tickets.fail(pending.request, reason, LEFT_TO_RECOVERY, pending.checkpoint)]

    def _subsume(self, checkpoint: CheckpointId) -> list[Effect[S]]:
        effects: list[Effect[S]] = []
        for older in list(self._ledger.pending.values()):
            if older.checkpoint < checkpoint and older.can_be_subsumed:
                reason = CheckpointFailureReason.CHECKPOINT_SUBSUMED
                effects += self._ledger.drop(older, reason, f"by {checkpoint}")
        return effects

    def _take_storing(self, checkpoint: CheckpointId) -> PendingCheckpoint[S]:
        pending = self._ledger.pending.get(checkpoint)
        if pending is None or pending.phase is not Phase.STORING:
            raise InternalError(self._mode.explain(f"got a store of {checkpoint}, not being stored"))
        self._ledger.leave(pending)
        return pending
