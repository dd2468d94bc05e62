"""Reports of a job to its observers: the source of progress lines, logs and statistics."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.api.jobs.executor_contract import JobControl, RepeatingFailure
from headgate.common.errors import HeadgateError
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.live_state import LiveState
from headgate.runtime.protocol.messages import Counters


class JobListener:
    """Gets reports of a job's events, from the job master's thread; does nothing by itself."""

    def begins(self, live_state: LiveState) -> None:
        """The job is about to be submitted; from other threads its state can be asked for while it runs."""

    def controllable(self, control: JobControl) -> None:
        """The job is about to be submitted; other threads can ask it for savepoints and the like."""

    def gang_submitted(self, gang: int, slots: int) -> None:
        """Workers were asked for."""

    def worker_registered(self, slot: int, pid: int, host: str) -> None:
        """A worker process has connected for a slot."""

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        """Subtasks are being built, from `checkpoint` or from nothing."""

    def running(self, attempt: int) -> None:
        """All subtasks run."""

    def progress(self, counters: Sequence[Counters]) -> None:
        """New running totals of the present attempt."""

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        """A checkpoint is complete and its sinks are committed."""

    def savepoint_completed(self, checkpoint: int, uri: str, took_ms: int) -> None:
        """A savepoint is complete; the job goes on."""

    def rescaled(self, plan: PhysicalPlan) -> None:
        """The next attempt runs the same operators at another parallelism."""

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        """An attempt failed; None means that there will be no other."""

    def reverted(self, attempt: int, error: HeadgateError) -> None:
        """The new plan of a rescale does not run: the next attempt runs the old one, which is no restart."""

    def repeats(self, failure: RepeatingFailure) -> None:
        """The failure that is about to be reported has come again and again."""

    def told(self, uid: str, subtask: int, data: bytes) -> None:
        """The writer of a sink sends the driver something; see `SinkWriterContext.tell`."""

    def printed(self, lines: list[str], left_out: int) -> None:
        """User code printed lines in a worker; before them so many were left out."""

    def note(self, text: str) -> None:
        """Something worth a line in the log."""

    def ended(self, state: str) -> None:
        """The job is "finished", "failed" or "cancelled"."""
