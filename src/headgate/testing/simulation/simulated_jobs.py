"""Jobs for the simulator from user programs: options with short virtual times, and submissions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from headgate.api.environment import Environment
from headgate.api.jobs.executor_contract import JobResult, JobSpec
from headgate.common.errors import PlanError
from headgate.restore.point import RestorePoint

B = TypeVar("B")

SETTINGS: Final[Mapping[str, str | int | float | bool]] = {
    "execution.checkpointing.interval": "15ms",
    "execution.checkpointing.timeout": "250ms",
    "execution.checkpointing.tolerable-failed-checkpoints": 1,
    "execution.checkpointing.dir": "sim://disk",
    "execution.step-target": "2ms",
    "execution.buffer-timeout": "5ms",
    "taskmanager.network.credit-initial": 2,
    "heartbeat.interval": "20ms",
    "heartbeat.timeout": "120ms",
    "headgate.lease": "90ms",
    "headgate.spark.redeploy-timeout": "80ms",
    "restart-strategy.exponential-delay.initial-backoff": "10ms",
    "restart-strategy.exponential-delay.max-backoff": "100ms",
}
"""Options with short times, so that a small job has many checkpoints, timeouts and restarts."""


def job_of(
    build: Callable[[Environment], B],
    name: str,
    parallelism: int,
    config: Mapping[str, str | int | float | bool] | None = None,
) -> tuple[JobSpec, Environment]:
    """Return the job that `build` makes, not executed, and its Environment; PlanError if it executes."""
    capture = _Capture()
    env = Environment(parallelism, {**SETTINGS, **(config or {})}, executor=capture)
    build(env)
    if capture.jobs:
        raise PlanError("a simulated program must not call execute(); it only builds the job")
    env.execute(name)
    return capture.jobs[0], env


class _Capture:
    """An executor that keeps the job instead of running it, to hand it to the simulator."""

    def __init__(self) -> None:
        self.jobs: list[JobSpec] = []

    def execute(self, job: JobSpec) -> JobResult:
        self.jobs.append(job)
        return JobResult("captured", job.name)


@dataclass(frozen=True, slots=True)
class Submission:
    """One execution of a job, as a user submits it: the job, its id, and where it begins."""

    spec: JobSpec
    job_id: str  # of this execution; every driver that is started for it has the same
    point: RestorePoint | None = None  # where it begins unless its own log holds something
    run: int = 0  # executions before this one

    def again(self, point: RestorePoint | None, job_id: str) -> Submission:
        """Return the submission of the job's next execution, which begins at `point`; None: from nothing."""
        return replace(self, job_id=job_id, point=point, run=self.run + 1)
