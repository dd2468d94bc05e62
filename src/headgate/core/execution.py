"""The public states of a job, and the ways in which it ends.

The life of a job is a state machine (`core/job`) with finer phases; which public state is shown follows from
the phase, why the next attempt begins, and how the job ends (`core/job/questions.py`).
"""

from __future__ import annotations

from enum import Enum


class JobState(Enum):
    """The state of a job, as programs and people see it."""

    CREATED = "created"
    STARTING = "starting"  # its workers are being started
    DEPLOYING = "deploying"  # its subtasks are being started
    RUNNING = "running"
    RECOVERING = "recovering"  # after a failure, until the next attempt
    RESCALING = "rescaling"  # it stands, until the attempt with another parallelism
    FINISHING = "finishing"  # this and the next two: its workers leave
    FAILING = "failing"
    CANCELLING = "cancelling"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in (JobState.FINISHED, JobState.FAILED, JobState.CANCELLED)

    @property
    def ending(self) -> bool:
        """Whether the job's end is decided: it waits for workers to leave, or a checkpoint to be stored."""
        return self in (JobState.FINISHING, JobState.FAILING, JobState.CANCELLING)


class JobEnd(Enum):
    """How a job ends, or how this job master's part of it does (SUSPENDED)."""

    FINISHED = "finished"  # by the end of its input, or by a stop with savepoint
    CANCELLED = "cancelled"
    FAILED = "failed"
    SUSPENDED = "suspended"  # another job master goes on with the job
