"""Runs a job on Spark: session, slots, staged DataFrames, gang, and the job master in this process."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack

from headgate.api.executor import JobResult, JobSpec
from headgate.common import options as o
from headgate.deploy.spark.gang import SparkGang
from headgate.deploy.spark.interrupts import ending_cleanly
from headgate.deploy.spark.session import acquire, master_of
from headgate.deploy.spark.settings import is_local
from headgate.deploy.spark.slots import Need, holding, wait_for_slots
from headgate.deploy.spark.staging import check_restorable, connectors_of, staged
from headgate.runtime.driver import GangContext, run_job
from headgate.runtime.events import JobListener


class SparkExecutor:
    """Implements `api.executor.Executor` with Spark.

    Args:
        listener: is told what happens; by default what the option for progress asks for.
    """

    def __init__(self, listener: JobListener | None = None) -> None:
        self._listener = listener

    def execute(self, job: JobSpec) -> JobResult:
        """Run a job to its end; see `api.executor.Executor`."""
        need = Need(job.plan.slots, job.config.get(o.RESERVED_SLOTS))
        connectors = connectors_of(job)
        check_restorable(job, connectors)
        context = acquire(job.spark, job.name, job.config, need.total)
        master = master_of(context)
        local = is_local(master)
        job = job if local else reachable(job, context.getConf().get("spark.driver.host"))
        available = wait_for_slots(context, need, local)

        def make_gang(gang: GangContext) -> SparkGang:
            made = SparkGang(context, gang, job.name, not local, hold)
            scope.callback(made.close)
            return made

        with (
            ending_cleanly(),
            holding(context.applicationId, need, available, master) as hold,
            staged(job, list(connectors.values()), local),
            ExitStack() as scope,
        ):
            return run_job(job, make_gang, self._listener_of(job))

    def _listener_of(self, job: JobSpec) -> JobListener:
        if self._listener is not None:
            return self._listener
        from headgate.runtime.progress import listener_for

        return listener_for(job.config, job.name, job.plan)


def reachable(job: JobSpec, driver_host: str | None) -> JobSpec:
    """The job with a control address that workers on other machines reach, unless the user chose one."""
    if driver_host is None or job.config.is_set(o.BIND_HOST):
        return job
    return dataclasses.replace(job, config=job.config.with_program({o.BIND_HOST.key: driver_host}))
