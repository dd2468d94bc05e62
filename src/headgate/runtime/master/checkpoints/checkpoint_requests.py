"""Checkpoints and savepoints requested by users, until the coordinator takes them and the reply is sent."""

from __future__ import annotations

from collections import deque

from headgate.checkpoint.layout import checkpoint_folder
from headgate.checkpoint.service import CheckpointService
from headgate.common.errors import ConfigError, OperatingError
from headgate.common.ids import CheckpointId, JobId
from headgate.common.settings.options import CHECKPOINTING_INTERVAL
from headgate.core.checkpoint import effects as e
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.job import events as v
from headgate.runtime.master.attempt.outbox import Outbox, failure_of
from headgate.runtime.master.attempt.waiting_requests import ReplyTo, Tickets
from headgate.runtime.master.checkpoints.refusals import request_error
from headgate.runtime.master.checkpoints.running_savepoints import SavepointRequest, Savepoints


class CheckpointRequests:
    """Users' requests for checkpoints and savepoints, until answered; used by the job master's loop."""

    def __init__(
        self, job: JobId, service: CheckpointService | None, savepoints: Savepoints, outbox: Outbox
    ) -> None:
        self._job, self._service, self._savepoints, self._outbox = job, service, savepoints, outbox
        self._tickets, self._wanted = Tickets[str](), deque[tuple[e.RequestKind, int]]()
        self._stops, self._rescales = set[int](), dict[int, int]()

    def checkpoint(self, reply_to: ReplyTo[str]) -> None:
        """Request a checkpoint; `reply_to` gets its URI once committed, or the error (no storage: now)."""
        self._want_checkpoint(self._tickets.issue(reply_to))

    def for_rescale(self, rescale: int) -> None:
        """Request a checkpoint for the rescale with ticket `rescale`; event `Saved` reports its outcome."""
        ticket = self._tickets.issue()
        self._rescales[ticket] = rescale
        self._want_checkpoint(ticket)

    def _want_checkpoint(self, ticket: int) -> None:
        if self._service is None:
            why = f"the job takes no checkpoints; set {CHECKPOINTING_INTERVAL.key}, or take a savepoint"
            self._reply(ticket, ConfigError(why))
        else:
            self._wanted.append((e.RequestKind.MANUAL, ticket))

    def savepoint(self, request: SavepointRequest, reply_to: ReplyTo[str]) -> None:
        """Request a savepoint, or a stop with one; `reply_to` gets its URI once it is complete, or
        OperatingError. For a bad format or target it gets ConfigError at once.
        """
        ticket = self._tickets.issue(reply_to)
        if request.stop:
            self._stops.add(ticket)
            self._outbox.put(v.StopAsked(ticket))
        try:
            self._savepoints.prepare(ticket, request)
        except ConfigError as error:
            self._reply(ticket, error)

    def take(self) -> tuple[e.RequestKind, int] | None:
        """Return and forget the oldest request for the coordinator, (kind, ticket); None: there is none. One
        for a savepoint waits until its folder is prepared, and is refused here if that failed.
        """
        for kind, ticket, error in self._savepoints.take_prepared():
            if error is None:
                self._wanted.append((kind, ticket))
            else:
                reason = CheckpointFailureReason.IO_EXCEPTION
                self._reply(ticket, request_error(e.RequestFailed(ticket, kind, reason, str(error))))
        return self._wanted.popleft() if self._wanted else None

    def fulfilled(self, effect: e.RequestFulfilled) -> None:
        self._reply(effect.ticket, None, self.uri(effect.checkpoint))

    def failed(self, effect: e.RequestFailed) -> None:
        error = request_error(effect)
        complete = None if effect.checkpoint is None else self._savepoints.kept(effect.checkpoint)
        if complete is not None:
            error = OperatingError(f"{error}; its savepoint is whole all the same: {complete.uri}")
        self._savepoints.refused(effect.ticket)
        self._reply(effect.ticket, error)

    def uri(self, checkpoint: CheckpointId) -> str:
        folder = self._savepoints.folder(checkpoint)
        if folder is not None:
            return folder.uri
        assert self._service is not None
        return self._service.disk.describe(checkpoint_folder(self._job, checkpoint))

    def end(self, end: str) -> None:
        self._tickets.refuse_all(OperatingError(f"the job is {end}, so nothing more is done for it"))

    def _reply(self, ticket: int, error: OperatingError | ConfigError | None, uri: str | None = None) -> None:
        if ticket in self._stops:
            self._stops.remove(ticket)
            self._outbox.put(v.StopEnded(ticket))
        rescale = self._rescales.pop(ticket, None)
        if rescale is not None:
            self._outbox.put(v.Saved(rescale, None if error is None else failure_of(error)))
        self._tickets.reply(ticket, uri, error)
