"""Performs the checkpoint coordinator's decisions: triggers, metadata, log, commits, notifications, replies.

The coordinator (`core/checkpoint`) is pure; this is its I/O in the job master. Blocking work (storage,
committers) runs in the background, one piece after the other, and reports to the job master's loop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from headgate.checkpoint.history_file import HistoryFile
from headgate.checkpoint.layout import job_folder
from headgate.checkpoint.savepoints import SavepointFolder
from headgate.checkpoint.service import CheckpointService, may_be_published
from headgate.checkpoint.store.store_contract import CommitPermit
from headgate.common.errors import FencedError, HeadgateError
from headgate.common.ids import AttemptId, CheckpointId, JobId
from headgate.core.alignment.settings import AlignmentSettings
from headgate.core.checkpoint import effects as e
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.pending import AckResult
from headgate.core.execution import JobEnd
from headgate.core.job import events as v
from headgate.core.job.state import Storage
from headgate.graph.physical import PhysicalPlan
from headgate.restore.point import RestorePoint
from headgate.runtime.job.job_settings import JobSettings
from headgate.runtime.job.master_ports import MasterPorts
from headgate.runtime.master.attempt.attempts import Attempts
from headgate.runtime.master.attempt.deployment import Readers
from headgate.runtime.master.attempt.members import Members
from headgate.runtime.master.attempt.outbox import Outbox
from headgate.runtime.master.checkpoints.background_work import BackgroundWork
from headgate.runtime.master.checkpoints.checkpoint_contents import CheckpointContents
from headgate.runtime.master.checkpoints.checkpoint_ids import CheckpointIds
from headgate.runtime.master.checkpoints.checkpoint_requests import CheckpointRequests
from headgate.runtime.master.checkpoints.commit_times import CommitTimes
from headgate.runtime.master.checkpoints.committers import Committers
from headgate.runtime.master.checkpoints.deleting_files import Cleaning
from headgate.runtime.master.checkpoints.recording import CheckpointHistory
from headgate.runtime.master.checkpoints.refusals import checkpoints_failed
from headgate.runtime.master.checkpoints.restore_points import RestorePoints
from headgate.runtime.master.checkpoints.running_savepoints import Savepoints
from headgate.runtime.master.checkpoints.source_snapshots import RETRY_MS, SourceSnapshots
from headgate.runtime.master.checkpoints.storing import ENUMERATORS, make_coordinator, store_checkpoint
from headgate.runtime.protocol import messages as m
from headgate.state.snapshots import CheckpointMetadata, SubtaskSnapshot

_LOG: Final = logging.getLogger("headgate.checkpoints")


class CheckpointMaster:
    """Takes one job's checkpoints and savepoints, as its coordinator decides; used in the job master's loop.
    `service`: log of checkpoints, `permit`: right to write it; both None: savepoints are taken only.
    """

    def __init__(
        self,
        job: JobId,
        job_name: str,
        plan: PhysicalPlan,
        service: CheckpointService | None,
        permit: CommitPermit | None,
        attempts: Attempts,
        members: Members,
        outbox: Outbox,
        ports: MasterPorts,
        settings: JobSettings,
    ) -> None:
        self.coordinator = make_coordinator(settings.checkpoints, service, ports.randomness)
        self._alignment, self._storage = settings.alignment, settings.storage
        self._service, self._permit = service, permit
        self._ids = CheckpointIds(service, permit, ports.background, ports.post)
        self._attempts, self._members, self._outbox, self._ports = attempts, members, outbox, ports
        self._clock, self._background, self._post = ports.clock, ports.background, ports.post
        self._contents = CheckpointContents(job, job_name, self.generation, plan)
        own = None if service is None else service.disk.describe(job_folder(job))
        self._savepoints = Savepoints(job, settings.savepoint_dir, ports, own)
        self.requests = CheckpointRequests(job, service, self._savepoints, outbox)
        self._cleaning = Cleaning(ports.background, ports.post, ports.clock)
        self._ending: CheckpointId | None = None  # the final checkpoint, once it is stored
        self.commit_times = CommitTimes(ports.clock)
        older = settings.older_snapshot
        self._committers = Committers(job, self.generation, plan, older, self.commit_times)
        file = None if service is None else HistoryFile(service.disk, job, job_name, _logged_in(service))
        self.history = CheckpointHistory(plan, file, ports.clock, ports.background)
        self._work = BackgroundWork(ports, attempts, outbox, self.history)
        self.points = RestorePoints(
            service, permit, self._committers, self._work, outbox, ports, settings.fallback_to_older
        )
        self._sources = SourceSnapshots(attempts, outbox)
        self._attempt, self._readers, self._reported = 0, set[tuple[int, int]](), Storage.QUIET

    @property
    def generation(self) -> int:
        """The number of the driver that leads the job, counted from 1; always 1 without checkpoints."""
        return 1 if self._permit is None else self._permit.generation

    @property
    def has_storage(self) -> bool:
        """Whether the job has a storage for checkpoints; without one it takes savepoints only."""
        return self._service is not None

    @property
    def has_own(self) -> bool:
        """Whether this driver completed a checkpoint and no subtask still reads files of the restored one."""
        return self.points.latest is not None and not self._readers

    # -- what happens to the job -----------------------------------------------------------------

    def start(self, attempt: int) -> None:
        """Begin to take checkpoints of attempt number `attempt`, whose subtasks all run. If output newer than
        the restored snapshot is to be taken back, that is done first, in the background.
        """
        self._sources.clear()
        self._savepoints.forget_kept()
        self._contents.totals = self._attempts.restored_totals
        self._attempt, tasks = attempt, self._attempts.tasks
        if self._committers.owes:
            # Before anything of this attempt is stored or committed: one thread does it in order.
            self._work.run(self.points.settle_owed, lambda _: None)
        self.history.deployed(tasks)
        now = self._clock.monotonic_ms()
        self.coordinator.start(AttemptId(attempt), tasks, now, label=self.history.label)

    def replanned(self, plan: PhysicalPlan) -> None:
        self._contents.plan = plan
        self.history.replanned(plan)

    def restoring(self, readers: Readers | None) -> None:
        """Keep the restored checkpoint until its `readers` (id, subtasks) have read it; None: no change."""
        if readers is not None:
            checkpoint, self._readers = readers
            self.coordinator.hold(CheckpointId(checkpoint) if self._readers else None)

    def recovered(self, vertex: int, subtask: int) -> None:
        """Record that a subtask read its restored in-flight records; after the last free their checkpoint."""
        self._readers.discard((vertex, subtask))
        if not self._readers:
            self.coordinator.hold(None)

    def suspend(self) -> None:
        self._perform(self.coordinator.suspend())

    def settle(self) -> v.StorageChanged | None:
        """Pass finished deletions and users' requests on to the checkpoint coordinator.
        Return an event if the storage became quiet, busy or busy storing since the last call, else None.
        """
        for fence in self._cleaning.take_ended():
            self._perform(self.coordinator.cleaning_ended(self._clock.monotonic_ms()))
            if fence is not None:
                self._work.fenced(fence)
        while (wanted := self.requests.take()) is not None:
            kind, ticket = wanted
            self._perform(self.coordinator.request(kind, self._clock.monotonic_ms(), ticket))
        storage = Storage.BUSY if self._work.running else Storage.QUIET
        if self.coordinator.storing is not None:
            storage = Storage.STORING
        if storage is self._reported:
            return None
        self._reported = storage
        return v.StorageChanged(storage)

    def tick(self) -> None:
        """Do what is due: trigger and abort checkpoints, retry deletions, ask sources, write the history."""
        self._perform(self.coordinator.tick(self._clock.monotonic_ms()))
        self._attend_sources()
        self._cleaning.tick()
        self.history.write_if_due()

    def next_wakeup(self) -> int | None:
        times = [self.coordinator.next_wakeup(), self._cleaning.next_wakeup()]
        if self._sources.waiting is not None:
            times.append(self._clock.monotonic_ms() + RETRY_MS)
        return min((time for time in times if time is not None), default=None)

    def request_final(self) -> None:
        self._perform(self.coordinator.request(e.RequestKind.FINAL, self._clock.monotonic_ms()))

    def acknowledged(self, message: m.Acknowledge) -> None:
        """Process a subtask's acknowledgement of its durable part of a checkpoint; the last completes it."""
        now = self._clock.monotonic_ms()
        attempt, checkpoint = AttemptId(message.attempt), CheckpointId(message.checkpoint)
        result, effects = self.coordinator.acknowledge(attempt, checkpoint, message.snapshot, now)
        if result is AckResult.SUCCESS:
            self.history.acknowledged(checkpoint, message.snapshot)
            self._ports.probe.reached("checkpoint.acknowledged")
        self._perform(effects)

    def declined(self, message: m.Decline) -> None:
        """Abort the checkpoint that a subtask declined; if that is because records in flight of one of its
        inputs cannot be stored, all later checkpoints of the job are aligned, which the listener is told.
        """
        reason = CheckpointFailureReason[message.reason]
        if reason is CheckpointFailureReason.CHANNEL_STATE_SHARED_STREAM_EXCEPTION:
            self._align_from_now_on(message.detail)
        self._perform(
            self.coordinator.decline(
                AttemptId(message.attempt),
                CheckpointId(message.checkpoint),
                (message.vertex, message.subtask),
                reason,
                self._clock.monotonic_ms(),
                f"{self._named(message)}{f': {message.detail}' if message.detail else ''}",
            )
        )

    def _named(self, message: m.Decline) -> str:
        for vertex in self._contents.plan.vertices:
            if vertex.id == message.vertex:
                labels = [f"{node.name!r} (uid {node.uid!r})" for node in vertex.chain]
                return f"operator{'s' * (len(labels) > 1)} {', '.join(labels)}, subtask {message.subtask}"
        return f"subtask {message.subtask} of an operator that the program no longer has"

    def _align_from_now_on(self, why: str) -> None:
        if self._alignment.unaligned:  # these records cannot be stored in flight
            self._alignment = AlignmentSettings(exactly_once=True)
            self._ports.listener.note(
                f"checkpoints are aligned from now on, although unaligned ones are on: {why}"
            )

    def interrupt_commits(self) -> None:
        self._committers.interrupt()

    def end(self, end: JobEnd) -> None:
        """Keep or delete checkpoints as the settings say for a job that ends as `end`; refuse pending
        requests. Committers are closed in the background. InternalError: a checkpoint is being stored.
        """
        self._perform(self.coordinator.end(end))
        self.requests.end(end.value)
        self._cleaning.close()
        self.history.write()
        self._background.submit(self._committers.close, lambda _, __: None)

    # -- effects ---------------------------------------------------------------------------------

    def _perform(self, effects: Sequence[e.Effect[SubtaskSnapshot]]) -> None:
        waiting = deque(effects)
        while waiting:
            match effect := waiting.popleft():
                case e.RunHooks():
                    # Resulting effects come next; no recursion, as a thousand failing requests would nest.
                    waiting.extendleft(reversed(self._run_hooks(effect)))
                case e.TriggerCheckpoint():
                    self._trigger(effect)
                case e.Finalize():
                    self._finalize(effect)
                case e.Commit(checkpoint):
                    self._commit(checkpoint)
                case e.NotifyComplete():
                    self._complete(effect)
                case e.NotifyAbort():
                    self._aborted(effect)
                case e.FailJob():
                    self._outbox.attempt_failed(self._attempts.number, checkpoints_failed(effect))
                case e.Discard() | e.Retire() | e.DiscardCompleted():
                    self._clean(effect)
                case e.RequestFulfilled():
                    self.requests.fulfilled(effect)
                case e.RequestFailed():
                    self.requests.failed(effect)
                case e.Unexpected(checkpoint, task):
                    _LOG.warning("task %s spoke of checkpoint %d, which is long over", task, checkpoint)

    def _run_hooks(self, effect: e.RunHooks) -> Sequence[e.Effect[SubtaskSnapshot]]:
        # Enumerators are snapshotted before any subtask is triggered. The triggers follow in the same turn of
        # the loop, so no split is handed out in between: it would be in the checkpoint twice, with the
        # enumerator and with a reader.
        self.history.begun(effect)
        return self._snapshot_sources(effect.checkpoint, self._clock.monotonic_ms())

    def _snapshot_sources(self, checkpoint: int, began_ms: int) -> Sequence[e.Effect[SubtaskSnapshot]]:
        ident = CheckpointId(checkpoint)
        try:
            self._ids.require(checkpoint)
            taken = self._sources.take(checkpoint, began_ms)
        except Exception as error:
            reason = CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE
            detail = str(error) if isinstance(error, HeadgateError) else repr(error)
            return self.coordinator.abort(ident, reason, self._clock.monotonic_ms(), detail)
        return self.coordinator.hooks_done(ident, self._clock.monotonic_ms(), [ENUMERATORS]) if taken else []

    def _attend_sources(self) -> None:
        if self._sources.waiting is not None:
            self._perform(self._snapshot_sources(*self._sources.waiting))
        if self._sources.wanted():
            self._perform(self.coordinator.request(e.RequestKind.PERIODIC, self._clock.monotonic_ms()))

    def _trigger(self, effect: e.TriggerCheckpoint) -> None:
        order = self._savepoints.begun(effect.checkpoint, effect.ticket)
        trigger_ms = self._clock.now_ms()
        self._sources.of(effect.checkpoint).trigger_ms = trigger_ms
        latest = self.coordinator.latest or 0
        barrier = self._alignment.barrier(effect.checkpoint, trigger_ms, order, latest)
        how = barrier.alignment.value, barrier.timeout_ms, barrier.savepoint, barrier.completed
        self._members.broadcast(m.Trigger(effect.attempt, effect.checkpoint, trigger_ms, *how))
        self._ports.probe.reached("checkpoint.triggered")

    def _finalize(self, effect: e.Finalize[SubtaskSnapshot]) -> None:
        begun = self._sources.of(effect.checkpoint)
        order, folder = self._savepoints.order(effect.checkpoint), self._savepoints.folder(effect.checkpoint)
        lineage = self._committers.lineage
        metadata = self._contents.metadata(effect, begun.trigger_ms, begun.enumerators, order, lineage)

        def work() -> None:
            self._committers.require_settled()
            self._ports.probe.reached("checkpoint.storing")
            store_checkpoint(effect.kind, metadata, folder, self._committers, self._service, self._permit)

        def done(_: None, error: BaseException | None) -> None:
            if error is None:
                self._stored(effect, metadata, folder)
            else:
                self._store_failed(effect, error)

        self._work.submit(work, done)

    def _stored(
        self,
        effect: e.Finalize[SubtaskSnapshot],
        metadata: CheckpointMetadata,
        folder: SavepointFolder | None,
    ) -> None:
        checkpoint = effect.checkpoint
        self._savepoints.keep(checkpoint)
        self.history.stored(checkpoint)
        if effect.kind is e.RequestKind.FINAL:
            self._ending = checkpoint
        if effect.kind.is_logged:
            self.points.latest = RestorePoint(metadata, self._storage if folder is None else folder.uri)
        self._perform(self.coordinator.stored(checkpoint, self._clock.monotonic_ms()))
        if not effect.kind.is_logged:
            # A savepoint is the user's from now on; nothing is committed, and no subtask is notified.
            self.history.committed(checkpoint)
            took_ms = self._end_of_sources(checkpoint, complete=False)
            self._ports.listener.savepoint_completed(checkpoint, self.requests.uri(checkpoint), took_ms)
            self._savepoints.ended(checkpoint)

    def _store_failed(self, effect: e.Finalize[SubtaskSnapshot], error: BaseException) -> None:
        checkpoint = effect.checkpoint
        self.history.failed(checkpoint, CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE, str(error))
        # A savepoint, which is not logged, would be the user's, who has not heard of it.
        published = effect.kind.is_logged and self._service is not None and may_be_published(error)
        if published:
            self._savepoints.keep(checkpoint)
        now = self._clock.monotonic_ms()
        self._perform(self.coordinator.store_failed(checkpoint, str(error), published, now))
        self._savepoints.ended(checkpoint)
        if isinstance(error, FencedError):
            self._work.fenced(error)

    def _commit(self, checkpoint: CheckpointId) -> None:
        assert self.points.latest is not None
        metadata = self.points.latest.checkpoint
        assert metadata.checkpoint == checkpoint
        ends = checkpoint == self._ending

        def work() -> None:
            self._ports.probe.reached("sinks.committing")
            self.points.require_leadership()
            self._committers.commit(metadata.operators)
            if ends:
                self._committers.finish()
            self._ports.probe.reached("sinks.committed")

        def done(_: None) -> None:
            self._perform(self.coordinator.committed(checkpoint, self._clock.monotonic_ms()))

        self._work.run(work, done)

    def _complete(self, effect: e.NotifyComplete) -> None:
        self.history.committed(effect.checkpoint)
        folder = self._savepoints.folder(effect.checkpoint)
        self._members.broadcast(m.CheckpointComplete(self._attempt, effect.checkpoint))
        took_ms = self._end_of_sources(effect.checkpoint, complete=True)
        self._ports.probe.reached("checkpoint.notified")
        uri = None if folder is None else folder.uri
        self._ports.listener.checkpoint_completed(effect.checkpoint, took_ms)
        self._outbox.put(v.CheckpointCommitted(effect.checkpoint))
        if effect.kind in (e.RequestKind.FINAL, e.RequestKind.STOP):
            self._outbox.put(v.JobDone(self._attempt, uri))

    def _aborted(self, effect: e.NotifyAbort) -> None:
        self._sources.ended(effect.checkpoint, complete=False)
        self._savepoints.ended(effect.checkpoint)
        self.history.failed(effect.checkpoint, effect.reason, effect.detail)
        self._members.broadcast(m.CheckpointAborted(self._attempt, effect.checkpoint))

    def _end_of_sources(self, checkpoint: int, *, complete: bool) -> int:
        begun = self._sources.ended(checkpoint, complete=complete)
        return 0 if begun is None else self._clock.monotonic_ms() - begun.began_ms

    def _clean(self, effect: e.Discard[SubtaskSnapshot] | e.Retire | e.DiscardCompleted) -> None:
        service, permit = self._service, self._permit
        if isinstance(effect, e.Discard) and effect.savepoint is not None:
            self._savepoints.late(effect.savepoint)
        elif service is None or permit is None:
            return
        elif isinstance(effect, e.Discard):
            snapshots = effect.snapshots
            self._delete("files of a failed checkpoint", lambda: service.discard(snapshots))
        else:
            retired, all_of_them = effect.checkpoints, isinstance(effect, e.DiscardCompleted)
            delete = service.discard_completed if all_of_them else service.retire
            named = ", ".join(map(str, retired))

            def work() -> None:
                if all_of_them and self._ports.record_end is not None:
                    # Else a driver that is started after a crash would find no checkpoint, and begin anew.
                    self._ports.record_end()
                delete(permit, retired)
                self._ports.probe.reached("checkpoint.retired")

            self._delete(f"completed checkpoints {named}", work)

    def _delete(self, what: str, work: Callable[[], None]) -> None:
        self.coordinator.cleaning_started()
        self._cleaning.delete(what, work)


def _logged_in(service: CheckpointService) -> Callable[[], list[int]]:
    return lambda: [entry.checkpoint for entry in service.completed()]
