"""The interface of a job's observers: progress lines, logs and statistics get the job's events by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.api.jobs.executor_contract import JobControl, RepeatingFailure
from headgate.api.source import InputLeft
from headgate.common.errors import HeadgateError
from headgate.common.process.kept_lines import LogLine
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.live_state import LiveState
from headgate.runtime.protocol.messages import Counters
from headgate.runtime.protocol.visits import Visit


class JobListener:
    """Receives the events of a job, in the job master's thread; this base class ignores all of them."""

    def begins(self, live_state: LiveState) -> None:
        """Report that the job is about to be submitted; threads can query its state through `live_state`."""

    def controllable(self, control: JobControl) -> None:
        """Report that the job is about to be submitted; any thread can control it through `control`."""

    def gang_submitted(self, gang: int, slots: int) -> None:
        """Report that gang number `gang`, `slots` worker processes in all, was requested from the cluster."""

    def worker_registered(self, slot: int, pid: int, host: str) -> None:
        """Report that the worker process of a slot, process id `pid` on machine `host`, has connected."""

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        """Report that an attempt is about to be deployed, from `checkpoint` (id) or without state (None)."""

    def running(self, attempt: int) -> None:
        """Report that all subtasks of attempt number `attempt` run."""

    def unread(self, left: Mapping[str, InputLeft | None]) -> None:
        """Report how much of each source's input is not read yet, by uid; once in a round of heartbeats."""

    def progress(self, counters: Sequence[Counters]) -> None:
        """Report all subtasks' totals in the present attempt, whenever a worker has sent new ones."""

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        """Report that a checkpoint completed and its output is committed, `took_ms` after its begin."""

    def savepoint_completed(self, checkpoint: int, uri: str, took_ms: int) -> None:
        """Report that a savepoint is complete at `uri`, `took_ms` after its begin, and the job goes on."""

    def rescaled(self, plan: PhysicalPlan) -> None:
        """Report that the next attempt runs the same operators at another parallelism, by `plan`."""

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        """Report that an attempt failed; the next one starts in `restart_in_ms`, or never if that is None."""

    def reverted(self, attempt: int, error: HeadgateError) -> None:
        """Report that a rescale failed with `error`; the next attempt runs the old plan and is no restart."""

    def repeats(self, failure: RepeatingFailure) -> None:
        """Report, before :meth:`failed`, that the same failure repeats, with no new checkpoint in between."""

    def told(self, uid: str, subtask: int, data: bytes) -> None:
        """Report bytes that a writer of sink `uid` sent to the driver with `SinkWriterContext.tell`."""

    def printed(self, lines: list[str], left_out: int) -> None:
        """Report lines that user code printed in a worker; `left_out` lines before them were dropped."""

    def traced(self, visits: Sequence[Visit]) -> None:
        """Report visits of traced records to subtasks, which have ended."""

    def logged(self, slot: int, lines: list[LogLine], left_out: int) -> None:
        """Report lines of the log of a slot's worker; it has dropped `left_out` lines meanwhile."""

    def note(self, text: str) -> None:
        """Report a text for people, worth a line in the log."""

    def ended(self, state: str) -> None:
        """Report that the job has ended: `state` is "finished", "failed" or "cancelled"."""
