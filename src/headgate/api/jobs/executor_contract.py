"""The contract between the API and executors: the job to run, requests to it, its status and result. The API
finds an executor by its registered name and never imports one. An executor is made without arguments; its one
call blocks until the job has ended. While it runs, other threads send requests through :class:`JobControl`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from headgate.api.showing import cell, counted, html_facts, html_table
from headgate.api.source import SourceReport
from headgate.common.errors import HeadgateError
from headgate.common.hints import Hint
from headgate.common.ids import EdgeId
from headgate.common.ports import IsolatedCode
from headgate.common.settings.config import Config
from headgate.graph.logical import Node
from headgate.graph.physical import Edge, PhysicalPlan, Vertex

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Edge", "Executor", "JobControl", "JobResult", "JobSpec", "JobStatus", "PhysicalPlan", "Then",
    "Vertex", "VertexStatus",
]  # fmt: skip

Then = Callable[[Any, HeadgateError | None], None]  # takes the answer and None, or None and why there is none


class VertexStatus(msgspec.Struct, frozen=True):
    """Status of one vertex (a chain of operators) of a running job; totals are of the present attempt.

    Attributes:
        name: the names of its operators, joined.
        uids: of its operators, in order of flow.
        parallelism: number of subtasks.
        records_in: records that its subtasks took in.
        records_out: records that its subtasks emitted.
        busy_ms: time that its subtasks worked, added up.
        backpressured_ms: time that its subtasks waited for their receivers, added up.
        watermark: the least watermark of its subtasks, in ms since 1970; None where no subtask has one.
    """

    name: str
    uids: list[str]
    parallelism: int
    records_in: int
    records_out: int
    busy_ms: int
    backpressured_ms: int
    watermark: int | None


class StuckCall(msgspec.Struct, frozen=True):
    """A call of user code that has not returned for a second or more: busy without progress.

    Attributes:
        operator: name and uid of its operator.
        subtask: number of the operator's subtask, from 0.
        for_ms: how long it has not returned, in ms.
        stack: where in the program it was found at the last heartbeat, a line for each frame, the innermost
            last.
    """

    operator: str
    subtask: int
    for_ms: int
    stack: str


class RepeatingFailure(msgspec.Struct, frozen=True):
    """A failure that came three times or more since the same checkpoint.

    Attributes:
        operator: name and uid of the operator; empty where it is not known.
        kind: the type of the exception.
        line: file and line of the program that raised the exception; empty where it is not known.
        times: how often it came.
        since: id of the checkpoint that the failed attempts restored; None: they began empty.
        text: the facts above in a sentence, with what can be done about the failure.
        uid: of the operator; empty where it is not known.
        key: of the record on which it failed the last time, as JSON text; empty where it has none.
    """

    operator: str
    kind: str
    line: str
    times: int
    since: int | None
    text: str
    uid: str = ""
    key: str = ""


class JobStatus(msgspec.Struct, frozen=True):
    """Status of a job at one moment.

    Attributes:
        job_id: names this submission; also the directory of its checkpoints.
        name: given to ``execute``.
        state: "created", "starting", "deploying", "running", "recovering", "rescaling", "finishing",
            "failing", "cancelling", "finished", "failed" or "cancelled".
        attempt: the present deployment by this driver, from 1; 0 before the first.
        restarts: number of deployments that followed a failure.
        generation: number of the driver that owns the job, from 1.
        parallelism: subtasks of the widest operator: the number of workers.
        max_parallelism: number of key groups.
        started_ms: wall clock at the submission, in ms since 1970.
        checkpoints_triggered: number of checkpoints and savepoints begun by this driver.
        checkpoints_completed: checkpoints completed under this driver, and a savepoint that stopped the job.
        checkpoints_failed: checkpoints and savepoints that were aborted.
        savepoints_completed: savepoints stored under this driver, one that stopped the job included.
        pending: ids of checkpoints and savepoints in progress.
        latest_checkpoint: id of the newest complete checkpoint, or None.
        latest_duration_ms: how long that checkpoint took from trigger to commit; None when not known.
        last_failure: why the latest failed attempt failed, in words, or None.
        last_checkpoint_failure: why the latest failed checkpoint failed, in words, or None.
        savepoint: URI of the savepoint that the job was stopped with, or None.
        vertices: status of each vertex of the running plan.
        links: name -> address of pages about the job; "spark_ui" is Spark's own, where that is on.
        sources: uid -> progress of the source, for sources that get their input in epochs.
        stuck: calls of user code that had not returned at the workers' last heartbeats.
        repeating: the failure that keeps coming, or None.
    """

    job_id: str
    name: str
    state: str
    attempt: int
    restarts: int
    generation: int
    parallelism: int
    max_parallelism: int
    started_ms: int
    checkpoints_triggered: int
    checkpoints_completed: int
    checkpoints_failed: int
    savepoints_completed: int
    pending: list[int]
    latest_checkpoint: int | None
    latest_duration_ms: int | None
    last_failure: str | None
    last_checkpoint_failure: str | None
    savepoint: str | None
    vertices: list[VertexStatus]
    sources: dict[str, SourceReport] = {}
    links: dict[str, str] = {}
    stuck: list[StuckCall] = []
    repeating: RepeatingFailure | None = None

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts().items())
        return f"<JobStatus {self.name!r}: {self.state}, {facts}>"

    def _repr_html_(self) -> str:
        facts: dict[str, str | int] = {"state": self.state, **self._facts()}
        facts["last failure"] = self.last_failure or "-"
        columns = ["operators", "parallelism", "records in", "records out"]
        rows = [
            [cell(v.name), str(v.parallelism), f"{v.records_in:,}", f"{v.records_out:,}"]
            for v in self.vertices
        ]
        return html_facts(f"job {self.name}", facts) + html_table(columns, rows)

    def _facts(self) -> dict[str, int]:
        return {"attempt": self.attempt, "restarts": self.restarts, "checkpoints": self.checkpoints_completed}


class JobControl(Protocol):
    """Requests to a running job from other threads; nothing here blocks but :meth:`status`.

    Each `then` is called once with the answer or an error, in the job's own loop, where it must not wait; or
    at once, in the caller's thread, where the job has ended.
    """

    def status(self) -> JobStatus:
        """Return the job's status now, or when it ended. Not to be called in the job's loop.

        Raises:
            OperatingError: the job's loop did not answer in time.
        """

    def checkpoint(self, then: Then) -> None:
        """Take a checkpoint; `then` gets its URI once it is committed, or the error."""

    def savepoint(self, target: str | None, format: str, then: Then) -> None:  # noqa: A002
        """Take a savepoint; `then` gets its URI once it is complete, or the error.

        `target` is its folder (None: the configured one), `format` "canonical" (tables for any tool) or
        "native" (the backend's files).
        """

    def stop(
        self,
        target: str | None,
        format: str,  # noqa: A002
        drain: bool,
        then: Then,
    ) -> None:
        """Stop the job with a savepoint, whose URI `then` gets once its output is committed, or the error.
        `drain`: fire all event-time timers first. `target` and `format` are as for :meth:`savepoint`.
        """

    def cancel(self, handed_over: bool = False) -> None:
        """End the job now, without a savepoint; output that is not yet committed stays uncommitted.

        Args:
            handed_over: with high availability, end this driver only: the next one takes over the job.
        """

    def terminate(self) -> None:
        """End the job as `headgate.on-sigterm` has it: stop it with a savepoint, cancel it, or leave it to
        the next driver. Of stops only the first counts.
        """

    def rescale(self, parallelism: int, then: Then, from_last: bool = False) -> None:
        """Continue at another parallelism; `then` gets that number once all subtasks run, or the error. The
        job restores a new checkpoint; with `from_last`, the last completed one where no new one can be taken.
        """


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job that passed every check, ready to run.

    Attributes:
        name: given to ``execute``.
        nodes: the program as written, with the user's uids only.
        plan: what runs; every operator in it has a uid.
        config: all settings, validated.
        record_types: edge -> type of its records, for the edges where annotations have it.
        collected: uids of the sinks whose committers keep the records in this process, for
            :attr:`JobResult.collected`.
        restore_from: a checkpoint to begin from, as path or URI; None begins empty.
        spark: the user's ``SparkSession``, or None.
        begins: called by the executor with the job's control, as soon as requests can be sent.
        user_code: the isolated modules of the program; None where the program is not isolated.
        told: called by the executor, in the job's loop, with bytes that a sink's writer sends outside of
            checkpoints: uid of the sink, number of the writer, and the bytes.
        given_up: asked by a standby driver, which waits until it may lead the job, whether to stop waiting.
    """

    name: str
    nodes: tuple[Node, ...]
    plan: PhysicalPlan
    config: Config
    record_types: Mapping[EdgeId, Hint] = field(default_factory=dict)
    collected: tuple[str, ...] = ()
    restore_from: str | None = None
    spark: SparkSession | None = None
    begins: Callable[[JobControl], None] | None = None
    given_up: Callable[[], bool] | None = None
    told: Callable[[str, int, bytes], None] | None = None
    user_code: IsolatedCode | None = None


@dataclass(frozen=True, slots=True, repr=False)
class JobResult:
    """Result of a job that ended without failing.

    Attributes:
        job_id: names this submission; also the directory of its checkpoints.
        name: given to ``execute``.
        restarts: how often this driver restarted the job after a failure.
        checkpoints: how many checkpoints completed under this driver.
        records_in: uid -> records that the operator received (for a source: read).
        records_out: uid -> records that the operator emitted (for a sink: wrote).
        collected: uid of a collecting sink -> its records; the Environment fills this in.
        skipped: uid of a source -> bad records that it skipped; a record that is read again counts again.
        duration_ms: from this driver's submission to the end.
        savepoint: URI of the savepoint that the job was stopped with; None when its input ended.
    """

    job_id: str
    name: str
    restarts: int = 0
    checkpoints: int = 0
    records_in: Mapping[str, int] = field(default_factory=dict)
    records_out: Mapping[str, int] = field(default_factory=dict)
    collected: Mapping[str, list[Any]] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    duration_ms: int = 0
    savepoint: str | None = None

    def __repr__(self) -> str:
        facts = "".join(f", {name} {value}" for name, value in self._facts().items())
        return f"<JobResult {self.name!r}: ended well{facts}>"

    def _repr_html_(self) -> str:
        uids = [*self.records_in, *(uid for uid in self.records_out if uid not in self.records_in)]
        counts = [self.records_in, self.records_out, self.skipped]
        rows = [[cell(uid), *(f"{found[uid]:,}" if uid in found else "" for found in counts)] for uid in uids]
        columns = ["uid", "records in", "records out", "skipped"]
        return html_facts(f"job {self.name}", self._facts()) + html_table(columns, rows)

    def _facts(self) -> dict[str, str | int]:
        facts: dict[str, str | int] = {
            "after": f"{self.duration_ms / 1000:.1f} s",
            "checkpoints": self.checkpoints,
            "restarts": self.restarts,
        }
        if self.collected:
            facts["collected"] = counted(sum(map(len, self.collected.values())))
        if self.skipped:
            facts["skipped"] = counted(sum(self.skipped.values()))
        if self.savepoint is not None:
            facts["savepoint"] = self.savepoint
        return facts


class Executor(Protocol):
    """Runs jobs on one kind of platform, as on Spark or in threads of this process (the mini cluster)."""

    def execute(self, job: JobSpec) -> JobResult:
        """Run a job to its end; called for one job after another, or for several in threads.

        Raises:
            UsageError: the job cannot run here (too few slots, storage out of reach); nothing started.
            UserFunctionError: the user's code failed and the restart strategy gave up.
            JobFailedError: the job was cancelled, or failed otherwise and the restart strategy gave up.
            KeyboardInterrupt: the user cancelled; everything that was started has ended.
        """
