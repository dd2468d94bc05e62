"""What others see of a job: its statistics, metrics and page, at its endpoint and the port for metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack

from headgate.api.jobs.executor_contract import JobSpec
from headgate.common.masking import Mask
from headgate.common.ports import Clock, Disk
from headgate.common.process.heard_logs import ALL, OF_HEADGATE, heard
from headgate.common.process.log_lines import LoggedJob
from headgate.common.process.logs import logging_is_set_up
from headgate.common.process.outward_queue import close_together
from headgate.common.settings import options as o
from headgate.runtime.driver.driver_logs import AttemptInLogs
from headgate.runtime.driver.endpoint.endpoint_settings import EndpointSettings
from headgate.runtime.driver.endpoint.metrics_port import MetricsPort, opened_port
from headgate.runtime.driver.endpoint.page.job_watch import JobWatch
from headgate.runtime.driver.endpoint.page.kept_page import PageKeeper
from headgate.runtime.driver.endpoint.served import ServedJob
from headgate.runtime.driver.endpoint.serving import Endpoint
from headgate.runtime.driver.job_control import JobControl
from headgate.runtime.driver.job_log_levels import JobLogLevels
from headgate.runtime.driver.lineage.job_lineage import JobLineage, lineage_settings
from headgate.runtime.driver.metrics.job_metrics import JobMetrics
from headgate.runtime.driver.metrics.prometheus_text import text_of
from headgate.runtime.driver.record_ways import RecordWays
from headgate.runtime.driver.stack_profiles import StackProfiles
from headgate.runtime.driver.statistics import JobStatistics
from headgate.runtime.driver.telemetry.telemetry import Telemetry, otlp_settings
from headgate.runtime.job.listener import JobListener
from headgate.runtime.job.listeners import Listeners
from headgate.runtime.job.live_state import LiveState
from headgate.runtime.master.job_master import JobMaster


class ShownJob:
    """A job as others see it. Its `statistics` are the job's listener, and pass all on to `listener`. Without
    `answers` (None) it has no endpoint.
    """

    def __init__(
        self,
        job: JobSpec,
        listener: JobListener,
        clock: Clock,
        answers: EndpointSettings | None,
        named: LoggedJob,
    ) -> None:
        self.metrics = JobMetrics(job.plan, clock)
        self._traces = RecordWays(job.config.get(o.HEARTBEAT_INTERVAL))
        settings = otlp_settings(job.config)
        self._telemetry = None if settings is None else Telemetry(settings, named, clock)
        lineage = lineage_settings(job.config, job.name)
        self._lineage = None if lineage is None else JobLineage(lineage, job.plan, named, clock)
        told = [each for each in (self._telemetry, self._lineage) if each is not None]
        followed = Listeners(AttemptInLogs(named), self.metrics, self._traces, *told, listener)
        self._watch = JobWatch(job.plan, job.config, followed)
        self.statistics = JobStatistics(job.plan, self._watch, job.told)
        self._config, self._clock, self._answers, self._named = job.config, clock, answers, named
        self._endpoint: Endpoint | None = None
        self._port: MetricsPort | None = None
        self._levels: JobLogLevels | None = None

    def open(self, opened: ExitStack) -> None:
        """Listen where the configuration says, until `opened` ends; ConfigError: nothing can listen there."""
        if self._answers is not None:
            self._endpoint = Endpoint(self._answers)
            self._named.mask = Mask([*self._named.mask.secrets, self._endpoint.secret])
            opened.callback(self._endpoint.close)
        self._port = opened_port(self._config, opened)
        where = ALL if logging_is_set_up() else OF_HEADGATE
        opened.enter_context(heard(self._named, logging.NOTSET, self._watch.logs.heard, where))
        if self._telemetry is not None:
            self._telemetry.open(opened)

    def begin(
        self,
        master: JobMaster,
        control: JobControl,
        live: LiveState,
        post: Callable[[Callable[[], None]], None],
        disk: Disk | None,
    ) -> None:
        """Answer from now on; `post` has the job master's loop run a callback, `disk` is the checkpoints'."""
        self._watch.profiles = StackProfiles(master.members, post)
        self._traces.opened(master.members, post)
        self._levels = JobLogLevels(master.members, post)
        self._watch.beats = master.heartbeats
        self._watch.records = lambda: master.checkpoints.history.records
        self.statistics.begins(live)
        self.statistics.controllable(control)
        labels = {"job_name": master.name, "job_id": master.job}

        def metrics() -> str:
            return text_of(self.metrics.families(master), labels)

        keeper = None
        if disk is not None:
            keeper = PageKeeper(disk, master.job, control, self._watch, self._named, metrics)
        served = ServedJob(
            job_id=master.job,
            name=master.name,
            started_ms=self._clock.now_ms(),
            control=control,
            live=live,
            plan=lambda: master.plan,
            records=lambda: master.checkpoints.history.records,
            metrics=lambda: self.metrics.families(master),
            post=post,
            watch=self._watch,
            set_level=self._levels.set,
            traces=self._traces,
            keeper=keeper,
            storage=None if disk is None else disk.describe(),
            named=self._named,
        )
        if self._endpoint is not None and self._endpoint.begin(served):
            self.statistics.note(f"the page of the job is {self._endpoint.address}; `headgate ui` opens it")
        if self._port is not None:
            self._port.begin(served)
        if self._lineage is not None:
            self._lineage.begin(lambda: master.goes_on)
        if self._telemetry is not None:
            self._telemetry.begin(served.records, served.families)

    def close(self, state: str) -> None:
        """End the endpoint with the job, whose last state is `state`."""
        close_together([each.queue for each in (self._lineage, self._telemetry) if each is not None])
        if self._endpoint is not None:
            self._endpoint.close(state)
        if self._levels is not None:
            self._levels.close()
