"""Checkpoints and savepoints that somebody asked for: the question to the coordinator, the answer back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.checkpoint.layout import checkpoint_folder
from headgate.checkpoint.service import CheckpointService
from headgate.common.errors import ConfigError, OperatingError
from headgate.common.ids import CheckpointId, JobId
from headgate.common.ports import Clock
from headgate.common.settings.options import CHECKPOINTING_INTERVAL
from headgate.core.checkpoint import effects as e
from headgate.core.checkpoint.coordinator import CheckpointCoordinator
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.job import events as v
from headgate.runtime.master.attempt.outbox import Outbox
from headgate.runtime.master.attempt.waiting_askers import Then, Tickets
from headgate.runtime.master.checkpoints.refusals import request_error
from headgate.runtime.master.checkpoints.running_savepoints import Savepoints, SavepointWish
from headgate.state.snapshots import SubtaskSnapshot

Perform = Callable[[Sequence[e.Effect[SubtaskSnapshot]]], None]


class CheckpointRequests:
    """Used by the job master's loop."""

    def __init__(
        self,
        job: JobId,
        coordinator: CheckpointCoordinator[SubtaskSnapshot],
        service: CheckpointService | None,
        savepoints: Savepoints,
        clock: Clock,
        perform: Perform,
        outbox: Outbox,
    ) -> None:
        self._job, self._coordinator, self._service = job, coordinator, service
        self._savepoints, self._clock, self._perform = savepoints, clock, perform
        self._tickets, self._outbox, self._stops = Tickets[str](), outbox, set[int]()

    def checkpoint(self, then: Then[str]) -> None:
        """Somebody asks for a checkpoint; `then` gets its URI once it is committed."""
        if self._service is None:
            said = f"the job takes no checkpoints; set {CHECKPOINTING_INTERVAL.key}, or take a savepoint"
            then(None, ConfigError(said))
            return
        self._ask(e.RequestKind.MANUAL, self._tickets.issue(then))

    def savepoint(self, wish: SavepointWish, then: Then[str]) -> None:
        """Somebody asks for a savepoint; `then` gets its URI."""
        ticket = self._tickets.issue(then)
        if wish.stop:
            self._stops.add(ticket)
            self._outbox.put(v.StopAsked(ticket))

        def prepared(error: Exception | None) -> None:
            if error is None:
                self._ask(wish.kind, ticket)
                return
            reason = CheckpointFailureReason.IO_EXCEPTION
            self._refuse(ticket, request_error(e.RequestFailed(ticket, wish.kind, reason, str(error))))

        try:
            self._savepoints.prepare(ticket, wish, prepared)
        except ConfigError as error:
            self._refuse(ticket, error)

    def fulfilled(self, effect: e.RequestFulfilled) -> None:
        """The coordinator has what was asked for."""
        uri = self.uri(effect.checkpoint)
        self._stopped(effect.ticket)
        self._tickets.answer(effect.ticket, uri)

    def failed(self, effect: e.RequestFailed) -> None:
        """The coordinator has not, and will not."""
        error = request_error(effect)
        whole = None if effect.checkpoint is None else self._savepoints.kept(effect.checkpoint)
        if whole is not None:
            error = OperatingError(f"{error}; its savepoint is whole all the same: {whole.uri}")
        self._savepoints.refused(effect.ticket)
        self._refuse(effect.ticket, error)

    def uri(self, checkpoint: CheckpointId) -> str:
        """What a checkpoint, or a savepoint under way, is restored by."""
        folder = self._savepoints.folder(checkpoint)
        if folder is not None:
            return folder.uri
        assert self._service is not None
        return self._service.disk.describe(checkpoint_folder(self._job, checkpoint))

    def end(self, end: str) -> None:
        """The job is over: nobody waits in vain."""
        self._tickets.refuse_all(OperatingError(f"the job is {end}, so nothing more is done for it"))

    def _refuse(self, ticket: int, error: OperatingError | ConfigError) -> None:
        self._stopped(ticket)
        self._tickets.refuse(ticket, error)

    def _stopped(self, ticket: int) -> None:
        if ticket in self._stops:
            self._stops.remove(ticket)
            self._outbox.put(v.StopEnded(ticket))

    def _ask(self, kind: e.RequestKind, ticket: int) -> None:
        self._perform(self._coordinator.request(kind, self._clock.monotonic_ms(), ticket))
