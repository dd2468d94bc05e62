"""The public words for where a job is in its life.

The life itself is a machine of its own (`core/job`), whose phases are finer; which word is shown follows from
the phase, why the next attempt begins, and how the job ends (`core/job/questions.py`).
"""

from __future__ import annotations

from enum import Enum


class JobState(Enum):
    """Where a job is in its life."""

    CREATED = "created"
    STARTING = "starting"
    DEPLOYING = "deploying"
    RUNNING = "running"
    RECOVERING = "recovering"
    RESCALING = "rescaling"
    FINISHING = "finishing"
    FAILING = "failing"
    CANCELLING = "cancelling"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether the job has ended."""
        return self in (JobState.FINISHED, JobState.FAILED, JobState.CANCELLED)

    @property
    def ending(self) -> bool:
        """Whether the job only waits for its workers to leave."""
        return self in (JobState.FINISHING, JobState.FAILING, JobState.CANCELLING)


class JobEnd(Enum):
    """How a job, or this job master's part of it, ends."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"
    SUSPENDED = "suspended"  # another job master goes on with the job
