"""Runs a job on Spark: session, slots, staged DataFrames, gang, and the job master in this process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from headgate.api.jobs.executor_contract import JobResult, JobSpec
from headgate.checkpoint.storage.settings import storage_settings
from headgate.common.files.permissions import permissions_of_job
from headgate.common.process.signal_handlers import ending_cleanly
from headgate.common.settings import options as o
from headgate.connectors.dataframe import DataFrameConnector
from headgate.deploy.spark.gang import SparkGang
from headgate.deploy.spark.session import acquire, master_of
from headgate.deploy.spark.settings import is_local
from headgate.deploy.spark.shipped_code import ship
from headgate.deploy.spark.slots import Need, holding, wait_for_slots
from headgate.deploy.spark.staging import check_restorable, connectors_of, staged
from headgate.deploy.spark.streams import check_epochs, check_streams, epochs_ready, streams_ready
from headgate.runtime.driver.driver import GangContext, run_job
from headgate.runtime.job.listener import JobListener
from headgate.runtime.transport.sockets import Endpoint, parse_address

if TYPE_CHECKING:
    from pyspark import SparkContext


class SparkExecutor:
    """Runs jobs on Spark, and reports their events to `listener` (None: as `headgate.progress` says)."""

    def __init__(self, listener: JobListener | None = None) -> None:
        self._listener = listener

    def execute(self, job: JobSpec) -> JobResult:
        """Run a job on Spark, in this thread, until it ends; return its result, or raise its error.

        UsageError before it begins: settings that exclude each other on Spark, or too few task slots.
        """
        need = Need(job.plan.slots, job.config.get(o.RESERVED_SLOTS))
        connectors = connectors_of(job)
        check_restorable(job, connectors)
        check_streams(job, connectors)
        check_epochs(job, connectors)
        context = acquire(job.spark, job.name, job.config, need.total)
        with ending_cleanly():
            return self._execute_in(context, job, connectors, need)

    def _execute_in(
        self, context: SparkContext, job: JobSpec, connectors: dict[str, DataFrameConnector], need: Need
    ) -> JobResult:
        master = master_of(context)
        local = is_local(master)
        come_s = None if local else job.config.get(o.SLOTS_TIMEOUT) / 1000
        available = wait_for_slots(context, need, come_s or 0.0)
        job, advertised = (job, None) if local else reachable(job, context.getConf().get)
        if not local and job.config.get(o.SHIP_CODE):
            _ship(context, job)

        def make_gang(gang: GangContext) -> SparkGang:
            if streams is not None:
                streams.make_ready(gang.worker.job)
            if inputs is not None:
                inputs.make_ready(gang.worker.job, gang.restored)
            code = None
            if job.user_code is not None:
                from headgate.deploy.spark.user_code.beginning_code import begun

                code = begun(context, job.config, job.user_code, gang.worker.job, scope)
            made = SparkGang(context, known_as(gang, advertised), job.name, hold, come_s, code)
            scope.callback(made.close)
            return made

        with (
            permissions_of_job(storage_settings(job.config).permissions),
            holding(context.applicationId, need, available, master) as hold,
            streams_ready(job, connectors, local) as streams,
            epochs_ready(job, connectors, local),
            staged(job, connectors, local) as inputs,
            ExitStack() as scope,
        ):
            if inputs is not None:
                job = dataclasses.replace(job, begins=inputs.begins)
            listener = self._listener
            if listener is None:
                from headgate.display.progress import listener_for

                listener = listener_for(job.config, job.name, job.plan)
            return run_job(job, make_gang, listener)


def _ship(context: SparkContext, job: JobSpec) -> None:
    if job.user_code is None:
        ship(context)
        return
    from headgate.usercode.namespaces.context import pinned_to_framework

    with pinned_to_framework():
        ship(context)


def reachable(job: JobSpec, setting: Callable[[str], str | None]) -> tuple[JobSpec, str | None]:
    """Return the job, set to listen on an address that other machines reach, and the driver's host name.

    The name is None where the user chose the address, or Spark knows none. `setting` looks up one of Spark's.
    """
    host = setting("spark.driver.host")
    if host is None or job.config.is_set(o.BIND_HOST):
        return job, None
    bind = setting("spark.driver.bindAddress") or host
    config = job.config.with_program({o.BIND_HOST.key: bind.strip("[]")})
    return dataclasses.replace(job, config=config), host.strip("[]")


def known_as(gang: GangContext, host: str | None) -> GangContext:
    if host is None:
        return gang
    ends = [
        Endpoint(end.family, (host, end.target[1])) if isinstance(end.target, tuple) else end
        for end in parse_address(gang.worker.control_address)
    ]
    address = ",".join(end.text for end in ends)
    return dataclasses.replace(
        gang, worker=dataclasses.replace(gang.worker, control_address=address, bind_host=host)
    )
