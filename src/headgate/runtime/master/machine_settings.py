"""Creates the state machine of a job from the job's settings."""

from __future__ import annotations

from headgate.common.ids import JobId
from headgate.common.settings.options import SameFailureAction
from headgate.core.job.machine import JobMachine
from headgate.core.job.state import JobLimits
from headgate.core.restart_strategies import restart_strategy
from headgate.core.same_failures import SameFailures
from headgate.restore.point import RestorePoint
from headgate.runtime.job.job_settings import JobSettings
from headgate.runtime.job.master_ports import MasterPorts
from headgate.runtime.job.replanning import PlannedJob
from headgate.runtime.master.losses import Losses
from headgate.runtime.master.rescaling import plan_of


def make_machine(
    job: JobId,
    planned: PlannedJob,
    settings: JobSettings,
    ports: MasterPorts,
    initial: RestorePoint | None,
    losses: Losses,
) -> JobMachine:
    """Return a job's new state machine; `initial`: snapshot to start from, None: a start without state."""
    limits = JobLimits(
        settings.redeploy_timeout_ms,
        settings.rescale_timeout_ms,
        settings.heartbeat_timeout_ms,
        has_successor=ports.require_leadership is not None,
        same_failure_ends=settings.same_failure is SameFailureAction.FAIL,
    )
    strategy = restart_strategy(settings.restart, ports.randomness.uniform)
    same = SameFailures(None if initial is None else initial.checkpoint.checkpoint)
    return JobMachine(job, plan_of(planned), limits, strategy, same, losses.fingerprint)
