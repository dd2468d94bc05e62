"""Finds the snapshot (restore point) that the next attempt restores, and has sinks commit its output again.

Each outcome is an event for the job's state machine; blocking work runs in the background.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.checkpoint.inventory import what_to_do
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.store.store_contract import CommitPermit
from headgate.common.errors import DamagedFileError
from headgate.core.job import events as v
from headgate.restore.latest import latest_point, offered, still_logged
from headgate.restore.point import RestorePoint
from headgate.runtime.job.lineage import lineage_of
from headgate.runtime.job.master_ports import MasterPorts
from headgate.runtime.master.attempt.outbox import Outbox, failure_of
from headgate.runtime.master.checkpoints.background_work import BackgroundWork
from headgate.runtime.master.checkpoints.committers import Committers
from headgate.state.snapshots import CheckpointMetadata


class RestorePoints:
    """Finds the snapshot to restore and commits its output again; `fall_back`: an older one, if damaged.
    `latest` is the newest checkpoint, or savepoint of a stop, that this driver completed; None before one.
    """

    def __init__(
        self,
        service: CheckpointService | None,
        permit: CommitPermit | None,
        committers: Committers,
        work: BackgroundWork,
        outbox: Outbox,
        ports: MasterPorts,
        fall_back: bool,
    ) -> None:
        self._service, self._permit, self._committers = service, permit, committers
        self._work, self._outbox, self._ports = work, outbox, ports
        self._fell_back = ports.listener.note if fall_back else None
        self._fell_behind: set[int] = set()
        self.latest: RestorePoint | None = None

    def find(self) -> None:
        """Find the newest restore point in the log; event PointFound, PointFailed or Fenced has the outcome.
        The log decides whether a checkpoint whose completion was uncertain is complete.
        """
        service = self._service

        def work() -> RestorePoint | None:
            if service is None:
                return self.latest
            return latest_point(service, self._ports.disks, self._fell_back, self._fell_behind)

        self._work.run(work, lambda point: self._outbox.put(v.PointFound(point)), self.failed)

    def explain(self, error: DamagedFileError, point: RestorePoint, attempt: int) -> None:
        """Fail `attempt`, whose restore found `point` damaged (`error`), with an error that says what to
        restore instead, such as an older checkpoint; the job's checkpoints are read for it in the background.
        """
        service, disks = self._service, self._ports.disks
        self._work.run(
            lambda: offered(error, point, service, disks),
            lambda found: self._outbox.attempt_failed(attempt, found),
            # If the storage cannot be read at all, the first error says more.
            lambda _: self._outbox.attempt_failed(attempt, error),
        )

    def commit(self, point: RestorePoint | None) -> None:
        """Have sinks commit the output of `point` again, and drop all other pending output.
        Delete files that no checkpoint needs, too. The event PointCommitted, PointFailed or Fenced follows.
        """
        checkpoint = None if point is None else point.checkpoint

        def work() -> None:
            self.require_leadership()
            if self._service is not None and self._permit is not None:
                # Output prepared under a newer job master must not be cleaned up.
                self._service.check(self._permit)
                unlogged = self._service.perhaps_complete()
                # With high availability a run before had this id; if it left nothing, a disk may be missing.
                if unlogged or (point is None and self._ports.require_leadership is not None):
                    self._require_nothing_newer(checkpoint, unlogged)
            if point is not None and point.passed_over:
                self._committers.go_back(point.checkpoint)
                self._fell_behind.update(point.passed_over)
            self._committers.recommit(checkpoint, self._of_others(point))
            if self._service is not None and self._permit is not None:
                self._service.sweep_orphans(self._permit)

        self._work.run(work, lambda _: self._outbox.put(v.PointCommitted()), self.failed)

    def failed(self, error: Exception) -> None:
        self._outbox.put(v.PointFailed(failure_of(error)))

    def _require_nothing_newer(
        self, restored: CheckpointMetadata | None, unlogged: Mapping[str, CheckpointMetadata]
    ) -> None:
        assert self._service is not None
        unsure = self._committers.require_nothing_newer(restored, list(unlogged.values()))
        newest = 0 if restored is None or restored.job != self._service.job else restored.checkpoint
        for name, metadata in unlogged.items() if unsure else ():
            folder = self._service.disk.describe(name.rpartition("/")[0])
            self._ports.listener.note(
                f"{what_to_do(folder, metadata.checkpoint, newest)}; sink {unsure[0]!r} cannot tell, and the "
                "job goes on as if it had not been complete"
            )

    def settle_owed(self) -> None:
        """If owed, remove output newer than the restored snapshot, then commit the snapshot's; blocks."""
        self.require_leadership()
        self._committers.settle()

    def _of_others(self, point: RestorePoint | None) -> list[CheckpointMetadata]:
        # Checkpoints of other jobs of the lineage may be restored, too.
        if point is None or self._service is None:
            return []
        own, elsewhere = self._service, point.storage
        disks = [own.disk]
        if elsewhere not in (None, own.disk.describe()):
            disks.append(self._ports.disks(elsewhere))
        forks = {fork.job for fork in lineage_of(own.job, point.checkpoint).forks}
        return still_logged(sorted(forks - {own.job}), disks)

    def require_leadership(self) -> None:
        """Raise FencedError if another driver leads, StorageError if unknown. Called before each commit."""
        if self._ports.require_leadership is not None:
            self._ports.require_leadership()
