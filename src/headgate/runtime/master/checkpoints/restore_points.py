"""Where attempts begin: finds the newest checkpoint, and has the sinks commit what it holds once more.

What is found, or fails, is an event for the job's machine; blocking work runs in the background.
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
    """The restore points of one job; used by the job master's loop.

    `latest` is the newest complete and verified checkpoint that is this job's own to go on from.
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
        """Find the newest point in the log: PointFound or PointFailed follows.

        That also resolves a store whose outcome was unsure: the log knows whether it counts.
        """
        service = self._service

        def work() -> RestorePoint | None:
            if service is None:
                return self.latest
            return latest_point(service, self._ports.disks, self._fell_back, self._fell_behind)

        self._work.run(work, lambda point: self._outbox.put(v.PointFound(point)), self.failed)

    def explain(self, error: DamagedFileError, point: RestorePoint, attempt: int) -> None:
        """Subtasks of an attempt found what they restore from to be damaged: find an older one that is
        complete.
        """
        service, disks = self._service, self._ports.disks
        self._work.run(
            lambda: offered(error, point, service, disks),
            lambda found: self._outbox.attempt_failed(attempt, found),
            # Where the storage fails altogether, the first cause says more.
            lambda _: self._outbox.attempt_failed(attempt, error),
        )

    def commit(self, point: RestorePoint | None) -> None:
        """Commit what `point` holds once more and clean up the rest: PointCommitted or PointFailed."""
        checkpoint = None if point is None else point.checkpoint

        def work() -> None:
            self.require_leadership()
            if self._service is not None and self._permit is not None:
                # What a successor has prepared must not be taken for leftovers.
                self._service.check(self._permit)
                unlogged = self._service.perhaps_complete()
                # A job that is led has the id of its run before; where that left nothing, a disk may be away.
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
        """The restore point could not be found or committed."""
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
        """In the background: take back the output that is owed, now that the restore is sure."""
        self.require_leadership()
        self._committers.settle()

    def _of_others(self, point: RestorePoint | None) -> list[CheckpointMetadata]:
        # What other jobs of the lineage have completed may be restored, too.
        if point is None or self._service is None:
            return []
        own, elsewhere = self._service, point.storage
        disks = [own.disk]
        if elsewhere not in (None, own.disk.describe()):
            disks.append(self._ports.disks(elsewhere))
        forks = {fork.job for fork in lineage_of(own.job, point.checkpoint).forks}
        return still_logged(sorted(forks - {own.job}), disks)

    def require_leadership(self) -> None:
        """Before a commit: what the log holds is committed by whoever leads, so stopping loses nothing."""
        if self._ports.require_leadership is not None:
            self._ports.require_leadership()
