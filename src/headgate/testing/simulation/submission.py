"""The job that a user of a simulation wants to run, and how one that was stopped is submitted again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headgate.api.jobs.executor_contract import JobSpec
from headgate.restore.point import RestorePoint


@dataclass(frozen=True, slots=True)
class Submission:
    """The job that a user wants to run."""

    spec: JobSpec
    job_id: str  # of this execution; every driver that is started for it has the same
    point: RestorePoint | None = None  # where it begins unless its own log holds something
    run: int = 0  # executions before this one


def again(submission: Submission, point: RestorePoint | None, job_id: str) -> Submission:
    """The next execution of a job, from where the last one was stopped."""
    return replace(submission, job_id=job_id, point=point, run=submission.run + 1)
