"""Reports the events of a job's life to its listener, with texts for people."""

from __future__ import annotations

from headgate.api.jobs.executor_contract import RepeatingFailure
from headgate.checkpoint.layout import checkpoint_folder
from headgate.common.ids import CheckpointId, JobId
from headgate.core.job import effects as e
from headgate.core.job.state import Failure
from headgate.core.same_failures import SameFailure
from headgate.restore.point import RestorePoint
from headgate.runtime.job.job_settings import JobSettings
from headgate.runtime.job.listener import JobListener
from headgate.runtime.master.attempt.repeated_failures import repeating_failure
from headgate.runtime.master.checkpoints.recording import CheckpointHistory
from headgate.runtime.master.losses import Losses
from headgate.runtime.protocol.undeclared_rows import log_slowness, slowness


class Reports:
    """Passes reports of the job's state machine to the listener (console, endpoint), failures as texts. Made
    by the job master, and used in its loop only.
    """

    def __init__(
        self,
        job: JobId,
        listener: JobListener,
        losses: Losses,
        history: CheckpointHistory,
        settings: JobSettings,
        initial: RestorePoint | None,
    ) -> None:
        self._job, self._settings = job, settings
        self._begun_from = None if initial is None else initial.checkpoint.checkpoint
        self._listener, self._losses, self._history = listener, losses, history
        self.last_failure: str | None = None  # of the latest attempt that failed
        self._slow: set[str] = set()

    def report(self, fact: e.Fact) -> None:
        listener = self._listener
        match fact:
            case e.Failing(attempt, failure, restart_in_ms):
                self._failed(failure)
                listener.failed(attempt, self._losses.error(failure), restart_in_ms)
            case e.Reverting(attempt, failure):
                self._failed(failure)
                listener.reverted(attempt, self._losses.error(failure))
            case e.AlsoFailed(_, failure):
                listener.note(f"also: {self._losses.error(failure)}")
            case e.PointNotReached(failure, retry_in_ms):
                error = self._losses.error(failure)
                listener.note(f"recovery failed and is tried again in {retry_in_ms} ms: {error}")
            case e.LeftBehind(slot, leftover):
                listener.note(f"slot {slot} keeps {' and '.join(leftover)}; starting new workers")
            case e.LoopStands(slot, still_ms):
                listener.note(self._losses.stuck(slot, still_ms))
                self._history.stuck(slot, still_ms)
            case e.Repeats(same):
                listener.repeats(self.repeating(same))
            case e.Rescaling(before, plan):
                listener.note(f"rescaling from {before.slots} to {plan.slots} workers")
            case e.Ended(how):
                listener.ended(how.value)

    def repeating(self, same: SameFailure) -> RepeatingFailure:
        """Return the report to users that a failure repeats."""
        storage, since, checkpoint = self._settings.storage, same.since, None
        if storage is not None and since is not None and since != self._begun_from:
            checkpoint = f"{storage.rstrip('/')}/{checkpoint_folder(self._job, CheckpointId(since))}"
        return repeating_failure(same, self._settings.same_failure, checkpoint)

    def slow_records(self, name: str, pickled: bool) -> None:
        if name in self._slow:
            return
        self._slow.add(name)
        if pickled:
            log_slowness(name, pickled)
        else:
            self._listener.note(slowness(name, pickled))

    def _failed(self, failure: Failure) -> None:
        self.last_failure = str(self._losses.error(failure))
