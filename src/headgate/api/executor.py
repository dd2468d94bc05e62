"""What the API hands to whoever runs a job, and what comes back.

The API finds an executor by its registered name and never imports one. An executor is made without
arguments; its one call blocks until the job has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headgate.common.config import Config
from headgate.common.ids import EdgeId
from headgate.graph.logical import Node
from headgate.graph.physical import Edge, PhysicalPlan, Vertex

__all__ = ["Edge", "Executor", "JobResult", "JobSpec", "PhysicalPlan", "Vertex"]


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job that passed every check, ready to run.

    Attributes:
        name: given to ``execute``.
        nodes: the program as written, with the user's uids only.
        plan: what runs; every operator in it has a uid.
        config: all settings, validated.
        record_types: edge -> type of its records, for the edges where annotations tell it.
        collected: uids of the sinks whose committers keep the records in this process, for
            :attr:`JobResult.collected`.
        restore_from: a checkpoint to begin from, as path or URI; None begins empty.
        spark: the user's ``SparkSession``, or None.
    """

    name: str
    nodes: tuple[Node, ...]
    plan: PhysicalPlan
    config: Config
    record_types: Mapping[EdgeId, Any] = field(default_factory=dict)
    collected: tuple[str, ...] = ()
    restore_from: str | None = None
    spark: Any = None


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended that ended well.

    Attributes:
        job_id: names this submission; also the directory of its checkpoints.
        name: given to ``execute``.
        restarts: how often it was restored after a failure.
        checkpoints: how many completed.
        records_in: uid -> records that the operator received (for a source: read).
        records_out: uid -> records that it emitted (for a sink: wrote).
        collected: uid of a collecting sink -> its records; the Environment fills this in.
        skipped: uid of a source -> bad records that it skipped.
        duration_ms: from submission to end.
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


class Executor(Protocol):
    """Runs jobs."""

    def execute(self, job: JobSpec) -> JobResult:
        """Run a job to its end; called once per executor, from the user's thread.

        Raises:
            UsageError: the job cannot run here (too few slots, storage out of reach); nothing started.
            UserFunctionError: the user's code failed and the restart strategy gave up.
            JobFailedError: anything else failed and the restart strategy gave up.
            KeyboardInterrupt: the user cancelled; everything that was started is gone.
        """
        ...
